#include "cli/contradictions.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/export_choice.h"
#include "cli/measure/patterns.h"
#include "export/format.h"
#include "image/pattern.h"
#include "select/span.h"

namespace pinprick::cli {
namespace {

constexpr uint64_t kMostKeysWithHistograms = 32768;

std::optional<std::string> contradiction_of_recording(const Options& options) {
  if (options.after_ns != 0 && options.until.empty()) return "--after goes with --until POINT";
  if (options.repeat != 0 && (!options.overwrite || options.until.empty()))
    return "--repeat goes with --overwrite SIZE and --until POINT";
  if (options.limit != 0 && exports::format_of(options.output) == exports::Format::recording &&
      !options.regex &&
      std::any_of(options.patterns.begin(), options.patterns.end(), select::is_span))
    return "spans are counted when they are shown: give --limit to `pinprick report`";
  if (options.overwrite && options.limit != 0)
    return "--overwrite keeps the newest events, and --limit would stop after the first ones";
  if (!options.until.empty() && options.entry_sites)
    return "--entry-sites means entries of functions; --until goes without it";
  for (const std::string& text : options.until)
    if (select::is_span(text))
      return fmt::format(
          "--until is a hit of one point, such as 'f if $latency>50ms'; '{}' has two", text);
  return std::nullopt;
}

// The same of options that the kernel's tracing has.
std::optional<std::string> contradiction_of_event_lines(const Options& options) {
  if (!options.event_files.empty() && options.tree)
    return "--tree shows calls of functions; events of --event-file go without it";
  if (!options.event_files.empty() && (options.regex || options.instructions))
    return "--event-file names functions and places: --regex and --instructions go without it";
  if (std::ranges::count(options.event_files, "-") > 1)
    return "the standard input is read once: give --event-file - once";
  if (options.event_format != EventFormat::ftrace) return std::nullopt;
  if (options.json) return "--format=ftrace is another format than --json: leave one out";
  if (options.tree) return "--format=ftrace has a line for each event, and no tree: leave one out";
  if (exports::format_of(options.output))
    return "the end of the name says the format, and --format another: leave one out";
  if (!options.regex &&
      std::any_of(options.patterns.begin(), options.patterns.end(), select::is_span))
    return "--format=ftrace has a line for each hit; a span (START..END) goes without it";
  return std::nullopt;
}

std::optional<std::string> contradiction_of_collect(const Options& options) {
  if (options.pids.size() != 1) return "--collect is for one process: give -p PID";
  const bool records = !options.patterns.empty() || options.has_command() ||
                       !options.files.empty() || options.overwrite || !options.until.empty() ||
                       options.after_ns != 0 || options.repeat != 0 || options.duration_s > 0 ||
                       options.dry_run || options.limit != 0;
  if (records)
    return "--collect prints all that is there, and records nothing: PATTERNs, --overwrite, "
           "--until, --repeat, --limit, -d and the like go without it";
  return contradiction_of_format(options);
}

std::optional<std::string> contradiction_of_diff(const Options& options) {
  const bool has_sides = !options.before.empty() || !options.after.empty();
  if (has_sides && !options.files.empty())
    return "either two files, or --before FILE... --after FILE...";
  if (has_sides && (options.before.empty() || options.after.empty()))
    return "--before goes with --after";
  if (!has_sides && options.files.size() != 2)
    return "two files, before and after; of several runs, --before FILE... --after FILE...";
  return contradiction_of_format(options);
}

std::optional<std::string> contradiction_of_locks(const Options& options) {
  if (options.lockers.empty() != options.unlockers.empty())
    return "--lock and --unlock go together: what one takes, the other releases";
  if (options.by_holding && options.limits.slower_ns)
    return "--slower leaves short calls out, so it is not known what is held: leave --holding out";
  if (options.now && options.pids.empty()) return "--now looks at a process that runs: give -p PID";
  const bool measures = options.duration_s > 0 || options.interval_s > 0 || options.by_holding ||
                        options.limits.slower_ns || !options.lockers.empty();
  if (options.now && measures)
    return "--now looks once, and measures nothing: -d, -i, --holding, --slower, --lock and "
           "--unlock go without it";
  return std::nullopt;
}

std::optional<std::string> contradiction_of_dry_run(const Options& options) {
  if (options.probe_rate && !options.dry_run) return "--probe-rate goes with --dry-run";
  if (!options.dry_run) return std::nullopt;
  if (options.pids.empty())
    return "--dry-run looks at a process that runs: give -p PID, or `pinprick list --file ELF`";
  if (options.patterns.empty()) return "no PATTERN: say which functions";
  if (!options.output.empty() && exports::format_of(options.output))
    return "--dry-run has no figures for a file of another tool: leave one out";
  return std::nullopt;
}

std::optional<std::string> contradiction_of_self_time(const Options& options) {
  if (!options.self_time) return std::nullopt;
  if (options.patterns.empty()) return "--self goes with a PATTERN: say which functions";
  if (means_spans(options))
    return "--self is of calls, which lie in each other; a span (START..END) goes without it";
  if (options.ends == placement::Ends::exits)
    return "--self needs what calls keep in their slots: --ends=exits goes without it";
  if (options.budget != 0)
    return "--budget takes probes out, and --self needs all calls: leave one out";
  if (options.dry_run) return "--dry-run has no times: --self goes without it";
  if (exports::format_of(options.output))
    return "--self is told in tables and with --json; files of other tools go without it";
  return std::nullopt;
}

// A condition may have 64 values and operators, and each thread takes four.
constexpr size_t kMostTids = 16;

std::optional<std::string> contradiction_of_graph(const std::string& graph) {
  if (graph.empty()) return std::nullopt;
  const auto pattern = image::Pattern::parse(graph, image::PatternSyntax::glob);
  if (!pattern) return fmt::format("'{}': {}", graph, image::explanation(pattern.error()));
  if (pattern->names_points() || pattern->names_source() || pattern->has_offset())
    return fmt::format("--graph names functions, such as 'app:handle*'; '{}' does not", graph);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> contradiction_of_ftrace(const Options& options) {
  const bool is_graph = options.event_format == EventFormat::function_graph;
  const bool shows_part =
      options.depth != 0 || !options.tree_in.empty() || !options.tree_not_in.empty();
  const bool is_nop = options.event_format == EventFormat::ftrace;
  const select::FunctionFilters& filters = options.functions_traced->filters;
  if (options.pids.empty() && !options.has_command())
    return "no process: give -p PID or -- COMMAND";
  if (!filters.all().empty() && !filters.has_added())
    return fmt::format(
        "'{}' removes what filters before it have added, and there are none: give it to --notrace, "
        "without the !",
        filters.all().front().text);
  if (options.tids.size() > kMostTids)
    return fmt::format("--tid can be given {} times; without it, all threads are traced",
                       kMostTids);
  if (shows_part && (!is_graph || options.profile))
    return "--graph, --graph-notrace and --max-depth go with --tracer function_graph";
  if (options.profile && (is_graph || is_nop))
    return "--profile is a table, and no --tracer: leave one out";
  if (options.profile && options.limit != 0) return "--profile has no events: --limit goes without";
  if (options.self_time && !options.profile) return "--self goes with --profile";
  if (is_graph && options.limit != 0 && shows_part)
    return "--limit counts events, of which --graph, --graph-notrace and --max-depth leave most "
           "out";
  if (exports::format_of(options.output))
    return "ftrace writes text as the kernel does: for files of other tools, use trace or latency";
  return std::nullopt;
}

std::optional<std::string> contradiction(const Options& options) {
  const std::string& verb = options.verb;
  const bool watches = verb == "count" || verb == "latency" || verb == "hist" ||
                       verb == "measure" || verb == "top" || verb == "trace" || verb == "leaks" ||
                       verb == "locks";
  const bool takes_words = verb == "completion" && options.shell == "words";
  if (takes_words && !options.has_command()) return "no words after --";
  if (options.has_command() && !takes_words && (!watches || verb == "top"))
    return "this verb takes no -- COMMAND";
  if (options.collect) return contradiction_of_collect(options);
  if (verb == "diff")
    if (auto text = contradiction_of_diff(options)) return text;
  if (watches || verb == "list") {
    const int sources = (options.pids.empty() ? 0 : 1) + (options.has_command() ? 1 : 0) +
                        (options.files.empty() ? 0 : 1) + (options.file.empty() ? 0 : 1) +
                        (options.summary.empty() ? 0 : 1);
    if (verb == "top" && options.patterns.empty() && options.budget != 0)
      return "--budget goes with a PATTERN: statistics that are there already stay as they are";
    if (verb == "top" && options.patterns.empty() && !options.limits.empty())
      return "--slower and --faster go with a PATTERN: statistics are recorded as they are";
    if (sources == 0 && verb == "top" && options.patterns.empty()) return std::nullopt;
    if (sources == 0)
      return verb == "top"     ? "no process: give -p PID"
             : verb == "leaks" ? "no process: give -p PID or -- COMMAND"
             : watches         ? "no process: give -p PID, -- COMMAND or --all FILE"
                               : "nothing to look at: give -p PID, --file ELF or --summary ELF";
    if (sources > 1) return "-p PID, -- COMMAND, --all, --file and --summary exclude each other";
    const bool filters = !options.commands.empty() || !options.users.empty() ||
                         !options.excluded_pids.empty() || !options.cgroups.empty();
    if (filters && options.files.empty())
      return "--comm, --uid, --exclude-pid and --cgroup go with --all FILE";
    if (options.silence_mcount && !options.has_command())
      return "--silence-mcount goes with -- COMMAND";
    if (options.by_pid && options.files.empty() && !options.follow_children)
      return "--by pid goes with --all FILE, or --children=follow";
    if (options.keys > kMostKeysWithHistograms && records_more_than_hits(options))
      return fmt::format("a histogram for each value takes memory: --keys {} at most",
                         kMostKeysWithHistograms);
    if (options.keys != 0 && options.key.empty()) return "--keys goes with --by EXPRESSION";
    const bool takes_values = !options.key.empty() || !options.sum.empty();
    if (takes_values && options.once)
      return "--once says whether, not how often: --by, --sum and the like go without it";
    if (takes_values && options.trap)
      return "what the kernel counts (--trap) has no values: --by, --sum and the like go without "
             "it";
    if (takes_values && options.budget != 0)
      return "--budget does not know yet what hits cost that are counted by a value";
    if (options.follow_children && verb == "top")
      return "top does not follow children; count, hist and latency do";
    if (options.follow_children && (options.follow_exec || !options.files.empty()))
      return "--children=follow includes --follow-exec, and goes with -p or -- COMMAND";
    if (options.follow_children && means_spans(options))
      return "--children=follow measures calls; a span (START..END) goes without it";
    if (options.budget != 0 && options.once)
      return "--once takes out what was hit in any case; --budget goes without it";
    if (options.budget != 0 && options.trap)
      return "--budget takes jumps out; what the kernel counts (--trap) goes without it";
    if (options.budget != 0 && options.names_children && options.count_children &&
        !options.follow_children)
      return "--budget holds one process: --children=follow holds those that it forks, too";
    if (!options.files.empty() && options.follow_exec)
      return "--follow-exec goes with -p or -- COMMAND; --all follows the file";
    const bool selects_calls = !options.tree_in.empty() || !options.tree_not_in.empty();
    if ((options.depth != 0 || selects_calls) && !options.tree)
      return "--depth, --in and --not-in go with --tree";
    if (options.tree && options.limits.faster_ns)
      return "--tree shows what calls slow calls: --faster goes without it";
    const bool shows_part = options.depth != 0 || selects_calls || options.limits.slower_ns;
    if (options.tree && options.limit != 0 && shows_part)
      return "--limit counts events, of which --tree leaves most out with --slower, --depth, --in "
             "or --not-in";
    if (options.tree && options.json && shows_part)
      return "--json has the events, and no tree: --slower, --depth, --in and --not-in go without "
             "it";
    if (options.output.ends_with(".folded") && !options.sum.empty() && !options.figures_of_sums.sum)
      return "flame graphs add up, as averages and extremes do not: give --sum EXPRESSION for a "
             ".folded file";
    if (auto text = contradiction_of_format(options)) return text;
    if (auto text = contradiction_of_recording(options)) return text;
    if (auto text = contradiction_of_dry_run(options)) return text;
    if (auto text = contradiction_of_self_time(options)) return text;
    if (options.tree && !options.regex &&
        std::any_of(options.patterns.begin(), options.patterns.end(), select::is_span))
      return "--tree shows calls; a span (START..END) goes without it";
    if (auto text = contradiction_of_event_lines(options)) return text;
    if (options.every > 1 && options.tree) return "--tree needs all calls: --every goes without it";
    if (options.every > 1 && !options.regex &&
        std::any_of(options.patterns.begin(), options.patterns.end(), select::is_span))
      return "a span (START..END) needs all hits: --every goes without it";
    if (!options.files.empty() && means_spans(options))
      return "--all measures calls; a span (START..END) goes with -p or -- COMMAND";
  }
  if (verb == "report") {
    if (auto text = contradiction_of_format(options)) return text;
    if (options.event_format == EventFormat::ftrace) {
      if (options.functions || !options.graph.empty())
        return "--format=ftrace is of events: --functions and --graph go without it";
      if (options.json) return "--format=ftrace is another format than --json: leave one out";
      if (exports::format_of(options.output))
        return "the end of the name says the format, and --format another: leave one out";
    }
    const bool chooses_calls = options.limit != 0 || !options.limits.empty() ||
                               !options.tree_in.empty() || !options.tree_not_in.empty();
    if (options.functions && (chooses_calls || options.depth != 0))
      return "--functions adds up all calls: --limit, --slower, --faster, --depth, --in and "
             "--not-in go without it";
    if (!options.graph.empty() && chooses_calls)
      return "--graph adds up all calls: --limit, --slower, --faster, --in and --not-in go without "
             "it";
    if (!options.graph.empty() && options.functions)
      return "--graph is of some functions, and --functions of all: give one of them";
    if (options.top != 0 && !options.functions && options.graph.empty())
      return "--top goes with --functions or --graph";
    if (options.least && options.graph.empty()) return "--least goes with --graph";
    if (auto text = contradiction_of_graph(options.graph)) return text;
  }
  if (options.file.starts_with('-'))
    return fmt::format("--file takes the ELF right after it, not {}", options.file);
  if (options.together && (options.summary.empty() || !options.instructions))
    return "--together goes with --summary ELF --instructions";
  if (options.types && options.patterns.empty())
    return "--types needs the NAME of a structure, such as 'struct request' or net::Conn";
  if (options.types && (!options.summary.empty() || options.instructions || options.arguments ||
                        options.variables || options.lines || options.entry_sites ||
                        options.regex || !options.excluded.empty() || !options.excluded_in.empty()))
    return "--types is about structures: options about functions go without it";
  if (options.entry_sites && options.instructions)
    return "--entry-sites means entries of functions; --instructions goes without it";
  if (!options.symbols.empty() && options.pids.size() != 1) return "--symbols needs one -p PID";
  if (options.top != 0 && options.json) return "--top is for tables; --json has all functions";
  if (options.top != 0 && options.once)
    return "--once says whether, not how often: --top goes without it";
  if (verb == "measure")
    for (const std::string& text : options.patterns)
      if (!parse_measure(text, options.regex))
        return fmt::format("'{}' is no measure: say count, latency or hist, and a PATTERN", text);
  if (verb == "locks")
    if (auto text = contradiction_of_locks(options)) return text;
  if (options.allocators.empty() != options.releasers.empty())
    return "--alloc and --free go together: what is allocated by one is freed by the other";
  if (watches && verb != "top" && verb != "leaks" && verb != "locks" && options.patterns.empty())
    return !options.event_files.empty() ? "no event in --event-file: there are only comments"
           : verb == "measure"          ? "no MEASURE: say what to measure"
                                        : "no PATTERN: say which functions";
  if (verb == "detach" && options.pids.empty() && !options.all)
    return "no process: give -p PID, or --all";
  if (verb == "kstats" && options.pids.size() != 1) return "kstats is for one process: give -p PID";
  if (verb == "keep" && options.pids.empty()) return "no process: give -p PID";
  return std::nullopt;
}

}  // namespace pinprick::cli
