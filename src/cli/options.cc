#include "cli/options.h"

#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "cli/contradictions.h"
#include "cli/exit_code.h"
#include "cli/export_choice.h"
#include "cli/ftrace_options.h"
#include "cli/help_texts.h"
#include "cli/measure/event_file.h"
#include "cli/measure/patterns.h"
#include "cli/messages/verb_messages.h"
#include "cli/option_groups.h"
#include "cli/output.h"
#include "cli/render/json.h"
#include "cli/render/text_width.h"
#include "cli/version.h"
#include "export/format.h"
#include "select/span.h"
#include "select/value.h"

// documents.S
extern "C" {
extern const char pinprick_agents_page[], pinprick_agents_page_end[];
}

namespace pinprick::cli {
namespace {

// leaks, unless the user says otherwise.
constexpr uint32_t kFramesOfLeaks = 20;
constexpr uint64_t kBlocksOfLeaks = uint64_t{1} << 22;
constexpr size_t kRowsOfLeaks = 10;
// The same of locks. Both calls, the one that takes a lock and the one that releases it, have
// events.
constexpr uint32_t kFramesOfLocks = 10;
constexpr size_t kRowsOfLocks = 10;

constexpr double kMostLeast = 1000;
constexpr uint32_t kMostClasses = 1 << 16;  // --sample

void describe_watching(CLI::App& app) {
  const std::string name = app.get_name();
  describe_verb(app,
                {name + " [OPTIONS] -p PID PATTERN...",
                 name + " [OPTIONS] PATTERN... -- COMMAND [ARGUMENT...]",
                 name + " [OPTIONS] --all FILE PATTERN..."},
                std::string(kPatternFooter) + (name == "count"     ? kCountFooter
                                               : name == "latency" ? kLatencyFooter
                                                                   : kHistFooter));
}

// --- Verbs

void add_doctor(CLI::App& doctor, Options& options) {
  add_pids(doctor, options, "Look at this process, too (repeatable)");
  add_common(doctor, options);
  describe_verb(doctor, {"doctor [OPTIONS] [-p PID]"}, kDoctorFooter);
}

void add_list(CLI::App& list, Options& options) {
  add_pids(list, options, "Process to look at (repeatable)");
  list.add_option("-f,--file", options.file, "A program or library instead of a process")
      ->type_name("ELF");
  add_patterns(list, options);
  add_instructions(list, options);
  list.add_option("-s,--summary", options.summary,
                  "Of a program or library: how many can be probed, and how")
      ->expected(0, 1)
      ->type_name("ELF");
  list.add_flag("--together", options.together,
                "With --summary --instructions: all at once, not each alone");
  list.add_flag("--args", options.arguments,
                "The parameters of functions, and the arguments of SDT points, too");
  list.add_flag("--vars", options.variables,
                "The variables there, with their types and where they are");
  list.add_flag("--lines", options.lines, "The lines of source of each function");
  add_ends(list, options);
  list.add_flag("--types", options.types,
                "The members of structures of these names, and holes between them");
  add_cache(list, options);
  add_common(list, options);
  describe_verb(list,
                {"list [OPTIONS] -p PID [PATTERN...]", "list [OPTIONS] --file ELF [PATTERN...]",
                 "list [OPTIONS] --summary ELF [PATTERN...]",
                 "list [OPTIONS] --types -p PID|--file ELF NAME..."},
                std::string(kPatternFooter) + kListFooter);
}

void add_measuring(CLI::App& app, Options& options) {
  add_watching(app, options);
  add_command(app, options);
  add_files(app, options);
  describe_watching(app);
}

void add_figure_of_sums(CLI::App& count, Options& options, const std::string& name,
                        bool SumFigures::*figure, const std::string& help) {
  count
      .add_option_function<std::string>(
          name,
          [&options, name, figure](const std::string& expression) {
            if (expression.empty()) throw CLI::ValidationError(name, kNothingFollows);
            if (!options.sum.empty() && options.sum != expression)
              throw CLI::ValidationError(
                  name, "--sum, --avg, --min and --max are of one EXPRESSION: give the same");
            options.sum = expression;
            SumFigures& figures = options.figures_of_sums;
            figures.*figure = true;
            if (figures.sum && figures.average)
              throw CLI::ValidationError(name, "--sum shows averages, too: give one of them");
          },
          help)
      ->type_name("EXPRESSION");
}

void add_count(CLI::App& count, Options& options) {
  add_measuring(count, options);
  add_instructions(count, options);
  count.add_flag("--trap", options.trap,
                 "Where no jump fits, a breakpoint that the kernel counts (root)");
  add_figure_of_sums(count, options, "--sum", &SumFigures::sum,
                     "Add up the value of EXPRESSION, such as '$arg3', of all hits");
  add_figure_of_sums(count, options, "--avg", &SumFigures::average,
                     "The average of EXPRESSION over all hits");
  add_figure_of_sums(count, options, "--min", &SumFigures::least,
                     "The least value of EXPRESSION; goes with --sum, --avg and --max of it");
  add_figure_of_sums(count, options, "--max", &SumFigures::greatest, "The greatest value of it");
  count.add_flag("--once", options.once,
                 "Coverage: was it executed? A probe that was hit is taken out");
}

void add_hist(CLI::App& hist, Options& options) {
  add_measuring(hist, options);
  add_bits(hist, options);
}

void add_measure(CLI::App& measure, Options& options) {
  add_watching(measure, options);
  add_command(measure, options);
  add_files(measure, options);
  add_bits(measure, options);
  add_timing(measure, options);
  add_ends(measure, options);
  one_at_a_time(measure
                    .add_option("-f,--file", options.measures_in,
                                "Also what is in FILE, one in a line (repeatable)")
                    ->type_name("FILE"));
  describe_verb(measure,
                {"measure [OPTIONS] -p PID MEASURE...",
                 "measure [OPTIONS] MEASURE... -- COMMAND [ARGUMENT...]",
                 "measure [OPTIONS] --all FILE MEASURE..."},
                kMeasureFooter);
}

void add_latency(CLI::App& latency, Options& options) {
  add_measuring(latency, options);
  add_limits(latency, options);
  add_bits(latency, options);
  add_timing(latency, options);
  add_ends(latency, options);
  add_self_time(latency, options);
}

void add_parts_of_tree(CLI::App& app, Options& options) {
  app.add_option("--depth", options.depth, "With --tree: show N levels at most")
      ->type_name("N")
      ->check(CLI::Range(uint32_t{1}, uint32_t{1000}).description(""));
  one_at_a_time(app.add_option("--in", options.tree_in,
                               "With --tree: only such functions, and what is in them (repeatable)")
                    ->type_name("FUNCTION"));
  one_at_a_time(app.add_option("--not-in", options.tree_not_in,
                               "With --tree: no such functions, and what is in them (repeatable)")
                    ->type_name("FUNCTION"));
}

void add_repeat(CLI::App& trace, Options& options) {
  trace
      .add_option_function<std::string>(
          "--repeat",
          [&options](const std::string& text) {
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, options.repeat);
            if (text == "all")
              options.repeat = UINT64_MAX;
            else if (error != std::errc() || rest != end || options.repeat == 0)
              throw CLI::ValidationError("--repeat", "'" + text + "' is no number, and not all");
          },
          "With --overwrite: go on after that hit, N times or all")
      ->type_name("N");
  trace.add_flag("--collect", options.collect,
                 "Print what a killed --overwrite has left, and remove its probes");
}

void add_format(CLI::App& app, Options& options, const char* help) {
  app.add_option_function<std::string>(
         "--format",
         [&options](const std::string& word) {
           const std::map<std::string, EventFormat> words = {{"text", EventFormat::text},
                                                             {"json", EventFormat::json},
                                                             {"ftrace", EventFormat::ftrace}};
           if (!words.contains(word))
             throw CLI::ValidationError("--format", "'" + word + "' is not text, json or ftrace");
           options.event_format = words.at(word);
           if (options.event_format == EventFormat::json) options.json = true;
         },
         help)
      ->type_name("FORMAT");
}

void add_trace(CLI::App& trace, Options& options) {
  add_watching(trace, options, Reports::events);
  add_command(trace, options);
  add_file(trace, options);
  add_filters(trace, options);
  trace.add_flag("--args", options.arguments,
                 "Tell what is called with what, where pinprick knows the parameters");
  trace
      .add_option("--nest", options.value_limits.nesting,
                  "Of structures in structures, tell N levels")
      ->type_name("N")
      ->check(CLI::Range(1U, 16U).description(""));
  trace
      .add_option("--elements", options.value_limits.elements,
                  "Of arrays and containers, tell N elements")
      ->type_name("N")
      ->check(CLI::Range(0U, 32U).description(""));
  trace.add_option("--strings", options.value_limits.text, "Of texts of variables, tell N bytes")
      ->type_name("N")
      ->check(CLI::Range(1, int{select::kMostText}).description(""));
  add_stack(trace, options, "Tell each event's callers, or with --stack=N at most N");
  trace.add_flag("--tree", options.tree,
                 "Show which calls lie within which, and how long they take");
  add_parts_of_tree(trace, options);
  trace
      .add_option("--every", options.every, "Record only each Nth hit, on each CPU, and count all")
      ->type_name("N")
      ->check(CLI::Range(uint32_t{1}, uint32_t{1'000'000'000}).description(""));
  one_at_a_time(trace
                    .add_option("--event-file", options.event_files,
                                "Events as in the kernel's uprobe_events; - is stdin (repeatable)")
                    ->type_name("FILE"));
  add_format(trace, options,
             "Print events as text, json, or as the kernel's trace_pipe does: ftrace");
  trace.add_option("--limit", options.limit, "Stop after N events")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{INT64_MAX}).description(""));
  add_buffer(trace, options, "Room for events that were not printed yet, of each CPU, such as 16M");
  add_ring_size(trace, options, "--overwrite",
                "Keep the newest events of each CPU, until the end, Enter or SIGUSR1")
      ->each([&options](const std::string&) { options.overwrite = true; });
  one_at_a_time(trace.add_option("--until", options.until, "Stop at a hit of this (repeatable)")
                    ->type_name("POINT"));
  add_time(trace, "--after", "Stop TIME after that hit: 10ms, 1s",
           [&options](uint64_t ns) { options.after_ns = ns; });
  add_repeat(trace, options);
  add_limits(trace, options);
  add_timing(trace, options);
  describe_verb(trace,
                {"trace [OPTIONS] -p PID 'PATTERN [VALUE...]'...",
                 "trace [OPTIONS] 'PATTERN [VALUE...]'... -- COMMAND [ARGUMENT...]",
                 "trace [OPTIONS] --all FILE 'PATTERN [VALUE...]'...",
                 "trace [OPTIONS] -p PID --event-file FILE"},
                std::string(kPatternFooter) + kTraceFooter);
}

// Takes the options of trace, except those that choose what is shown.
void add_record(CLI::App& record, Options& options) {
  add_trace(record, options);
  record.get_option("--output")->description("The recording, FILE.rec (default pinprick.rec)");
  record.remove_option(record.get_option("--json"));
  for (const char* const name : {"--format", "--depth", "--in", "--not-in"})
    record.remove_option(record.get_option(name));
  describe_verb(record,
                {"record [OPTIONS] -p PID 'PATTERN [VALUE...]'...",
                 "record [OPTIONS] 'PATTERN [VALUE...]'... -- COMMAND [ARGUMENT...]",
                 "record [OPTIONS] --all FILE 'PATTERN [VALUE...]'..."},
                std::string(kPatternFooter) + kRecordFooter);
}

// `what` names the percentage in messages: "change".
void add_least(CLI::App& app, Options& options, const char* help, const std::string& what) {
  app.add_option_function<std::string>(
         "--least",
         [&options, what](const std::string& text) {
           options.least = parse_percentage(text);
           if (!options.least || !(*options.least >= 0 && *options.least <= kMostLeast))
             throw CLI::ValidationError("--least", "'" + text + "' is no " + what + ", such as 5%");
         },
         help)
      ->type_name("PERCENT");
}

void add_report(CLI::App& report, Options& options) {
  report.add_option("FILE", options.recording, "What `pinprick record` has written")
      ->type_name("")
      ->required();
  report.add_flag("--functions", options.functions,
                  "How often functions were called, and how long, instead of events");
  report
      .add_option("--graph", options.graph,
                  "What calls such functions, and what they call, instead of events")
      ->type_name("FUNCTION");
  report
      .add_option("--top", options.top,
                  "With --functions, or of each call of --graph: the N with the most time")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, size_t{INT_MAX}).description(""));
  add_parts_of_tree(report, options);
  add_least(report, options, "With --graph: the least share of the time that is shown (default 1%)",
            "share");
  report.add_option("--limit", options.limit, "Stop after N events")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{INT64_MAX}).description(""));
  add_limits(report, options);
  add_format(report, options, "Print events as text, json, or as the kernel's trace does: ftrace");
  report
      .add_option("-o,--output", options.output,
                  "Write to a file; for tools: .html .pftrace .ctf .csv .folded .pb.gz")
      ->type_name("FILE");
  add_common(report, options);
  describe_verb(report, {"report [OPTIONS] FILE"}, kReportFooter);
}

void add_blocks(CLI::App& leaks, Options& options) {
  add_time(leaks, "--older", "Only blocks at least this old: 1s, 20ms (default 500ms)",
           [&options](uint64_t ns) {
             options.older_ns = ns;
             options.names_older = true;
           });
  leaks
      .add_option_function<std::string>(
          "--min-size",
          [&options](const std::string& text) {
            const auto bytes = parse_size(text);
            if (!bytes)
              throw CLI::ValidationError("--min-size",
                                         "'" + text + "' is no size, such as 64 or 4K");
            options.min_size = *bytes;
          },
          "Only blocks of at least SIZE bytes: 64, 4K")
      ->type_name("SIZE");
  leaks.add_option("--sample", options.sample, "Follow one block of N, and estimate the others")
      ->type_name("N")
      ->check(CLI::Range(uint32_t{1}, kMostClasses).description(""));
  leaks.add_option("--blocks", options.blocks, "Room for N blocks at once (default 4194304)")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32).description(""));
}

void add_allocators(CLI::App& leaks, Options& options) {
  one_at_a_time(
      leaks
          .add_option("--alloc", options.allocators,
                      "Instead of malloc: FUNCTION that allocates, and a size (repeatable)")
          ->type_name("FUNCTION"));
  one_at_a_time(leaks
                    .add_option("--free", options.releasers,
                                "Instead of free: FUNCTION that frees, and a pointer (repeatable)")
                    ->type_name("FUNCTION"));
}

void add_leaks(CLI::App& leaks, Options& options) {
  add_pids(leaks, options, "Process to attach to (repeatable)");
  add_duration(leaks, options);
  leaks.add_option("-i,--interval", options.interval_s, "Show what is left every SECONDS, too")
      ->type_name("SECONDS")
      ->check(kPositive);
  add_blocks(leaks, options);
  add_allocators(leaks, options);
  add_stack(leaks, options,
            "Tell blocks apart by all callers, or with --stack=N by N (default 20)");
  leaks.add_option("--top", options.top, "Show the N stacks with the most bytes (default 10)")
      ->type_name("N")
      ->check(kPositive);
  leaks
      .add_option("-o,--output", options.output,
                  "Write to a file; for flame graphs of bytes: .folded")
      ->type_name("FILE");
  add_buffer(leaks, options, "Room for events that were not read yet, of each CPU, such as 16M");
  add_follow_exec(leaks, options);
  leaks.add_flag("--fail-on-loss", options.fail_on_loss,
                 "Exit with 5 when an event was dropped, or new code was not probed");
  add_timing(leaks, options);
  add_cache(leaks, options);
  add_common(leaks, options);
  describe_verb(leaks, {"leaks [OPTIONS] -p PID", "leaks [OPTIONS] -- COMMAND [ARGUMENT...]"},
                kLeaksFooter);
}

void add_lock_functions(CLI::App& locks, Options& options) {
  one_at_a_time(
      locks
          .add_option("--lock", options.lockers,
                      "Instead of POSIX threads': FUNCTION that takes a lock (repeatable)")
          ->type_name("FUNCTION"));
  one_at_a_time(locks
                    .add_option("--unlock", options.unlockers,
                                "FUNCTION that releases such a lock (repeatable)")
                    ->type_name("FUNCTION"));
}

void add_locks(CLI::App& locks, Options& options) {
  add_pids(locks, options, "Process to attach to (repeatable)");
  locks.add_flag("--now", options.now,
                 "Which threads wait for which locks right now; no probe is placed");
  add_duration(locks, options);
  locks.add_option("-i,--interval", options.interval_s, "Show what was so far every SECONDS, too")
      ->type_name("SECONDS")
      ->check(kPositive);
  locks.add_flag("--holding", options.by_holding, "Show the locks first that were held longest");
  add_time(locks, "--slower", "Only calls that took as long: 1ms; cheaper, but tells no holding",
           [&options](uint64_t ns) { options.limits.slower_ns = ns; });
  add_lock_functions(locks, options);
  add_stack(locks, options, "Tell calls apart by all callers, or with --stack=N by N (default 10)");
  locks.add_option("--top", options.top, "Show the N worst locks (default 10)")
      ->type_name("N")
      ->check(kPositive);
  locks.add_option("-o,--output", options.output, "Write to a file")->type_name("FILE");
  add_buffer(locks, options, "Room for events that were not read yet, of each CPU, such as 16M");
  add_follow_exec(locks, options);
  locks.add_flag("--fail-on-loss", options.fail_on_loss,
                 "Exit with 5 when an event was dropped, or new code was not probed");
  add_file(locks, options);
  add_filters(locks, options);
  add_timing(locks, options);
  add_cache(locks, options);
  add_common(locks, options);
  describe_verb(locks,
                {"locks [OPTIONS] -p PID", "locks --now -p PID",
                 "locks [OPTIONS] -- COMMAND [ARGUMENT...]", "locks [OPTIONS] --all FILE"},
                kLocksFooter);
}

void add_top(CLI::App& top, Options& options) {
  add_watching(top, options);
  for (const char* const name : {"--dry-run", "--probe-rate"})
    top.remove_option(top.get_option(name));
  top.get_option("--interval")
      ->description("Draw every SECONDS, with figures of these (default 1)");
  top.get_option("--output")->description("Write tables to a file");
  top.get_option("--top")->description(
      "In tables: show the N with the most time, and not the others");
  describe_verb(top, {"top [OPTIONS] -p PID PATTERN...", "top [OPTIONS] [-p PID]"},
                std::string(kPatternFooter) + kTopFooter);
  add_limits(top, options);
  add_bits(top, options);
  add_timing(top, options);
  add_ends(top, options);
  add_self_time(top, options);
}

void add_status(CLI::App& status, Options& options) {
  add_pids(status, options, "Only this process (repeatable)");
  status.add_flag("-a,--all", options.all,
                  "Show functions without a hit, and results of detached sessions");
  status
      .add_option("--symbols", options.symbols,
                  "Write what gdb needs for backtraces through probes")
      ->type_name("FILE");
  add_common(status, options);
  describe_verb(status, {"status [OPTIONS] [-p PID]"}, kStatusFooter);
}

void add_calls(CLI::App& calls, Options& options) {
  add_pids(calls, options, "Only this process (repeatable)");
  calls.add_option("PATTERN", options.patterns, "Only calls of these functions")->type_name("");
  add_time(calls, "--older", "Only calls at least this old: 1s, 20ms; without a unit, in seconds",
           [&options](uint64_t ns) { options.older_ns = ns; });
  add_cache(calls, options);
  add_common(calls, options);
  describe_verb(calls, {"calls [OPTIONS] [-p PID] [PATTERN...]"}, kCallsFooter);
}

void add_detach(CLI::App& detach, Options& options) {
  add_pids(detach, options, "Process to clean up (repeatable)");
  detach.add_flag("-a,--all", options.all, "All processes that have orphaned probes");
  detach.add_option("--owner", options.owner, "Only probes of the pinprick that had this PID")
      ->type_name("PID")
      ->check(kProcess);
  add_common(detach, options);
  describe_verb(detach, {"detach [OPTIONS] -p PID", "detach [OPTIONS] --all"}, kDetachFooter);
}

void add_keep(CLI::App& keep, Options& options) {
  add_pids(keep, options, "Process with the probes (repeatable)");
  add_duration(keep, options);
  add_common(keep, options);
  describe_verb(keep, {"keep [OPTIONS] -p PID"}, kKeepFooter);
}

void add_kstats(CLI::App& kstats, Options& options) {
  add_pids(kstats, options, "Process with the statistics");
  kstats.add_option("COMMAND", options.patterns, "What to do; see below")->type_name("");
  kstats.add_flag("--density", options.density, "show: draw a histogram");
  kstats.add_flag("--force", options.force,
                  "trace: although an exception that passes may end the program");
  add_cache(kstats, options);
  add_common(kstats, options);
  describe_verb(kstats, {"kstats [OPTIONS] -p PID COMMAND..."}, kKstatsFooter);
}

void add_diff(CLI::App& diff, Options& options) {
  diff.add_option("FILE", options.files, "What --json or record has written before, and after")
      ->type_name("");
  diff.add_option("--before", options.before, "Several runs before the change")->type_name("FILE");
  diff.add_option("--after", options.after, "Several runs after the change")->type_name("FILE");
  diff.add_flag("-a,--all", options.all, "Show what is within noise, too");
  add_least(diff, options, "The smallest change that counts (default 3%; without repeats 10%)",
            "change");
  diff.add_option("--top", options.top, "Show the N that changed most; the others in one line")
      ->type_name("N")
      ->check(kPositive);
  diff.add_option("-o,--output", options.output,
                  "Write to a file; stacks for a differential flame graph: .folded")
      ->type_name("FILE");
  add_common(diff, options);
  describe_verb(diff,
                {"diff [OPTIONS] BEFORE AFTER", "diff [OPTIONS] --before FILE... --after FILE..."},
                kDiffFooter);
}

void add_mount(CLI::App& mount, Options& options) {
  add_pids(mount, options, "Only this process (repeatable)");
  mount.add_option("DIR", options.folder, "The folder to mount them at")->type_name("")->required();
  add_common(mount, options);
  describe_verb(mount, {"mount [OPTIONS] [-p PID] DIR"}, kMountFooter);
}

void add_serve(CLI::App& serve, Options& options) {
  serve
      .add_option("ADDRESS", options.address, "Where to listen (default 127.0.0.1:9467); see below")
      ->type_name("");
  serve
      .add_option("--bits", options.serve_bits, "2^BITS buckets for each power of two (default 2)")
      ->type_name("0..5")
      ->check(CLI::Range(stats::kMinFractionBits, stats::kMaxFractionBits).description(""));
  serve
      .add_option("-d,--duration", options.duration_s, "Stop after SECONDS; without it, at Ctrl-C")
      ->type_name("SECONDS")
      ->check(kPositive);
  add_common(serve, options);
  describe_verb(serve, {"serve [OPTIONS] [ADDRESS]"}, kServeFooter);
}

void add_completion(CLI::App& completion, Options& options) {
  completion.add_option("SHELL", options.shell, "Whose completions to print; see below")
      ->type_name("")
      ->required()
      ->check(CLI::Validator(
          [](std::string& text) {
            const bool is_known =
                text == "bash" || text == "zsh" || text == "fish" || text == "words";
            return is_known ? std::string() : "'" + text + "' is not bash, zsh or fish";
          },
          ""));
  describe_verb(completion, {"completion SHELL", "completion words -- WORD..."}, kCompletionFooter);
}

void add_help(CLI::App& help, Options& options) {
  help.add_option("TOPIC", options.patterns, "A verb, or agents")->type_name("")->expected(0, 1);
  describe_verb(help, {"help [VERB]", "help agents"}, kHelpFooter);
}

constexpr const char* kHelpFlag = "-h,--help";
constexpr const char* kHelpHelp = "Print this help and exit";

void add_main_options(CLI::App& app) {
  app.set_help_flag(kHelpFlag, kHelpHelp);
  app.set_version_flag("-V,--version", version_text,
                       "Print version, commit and build ID, and exit");
}

// In the order of `--help`. Options are added for a verb that is on the command line alone: all of
// them would take half a millisecond.
struct VerbSummary {
  const char* name;
  const char* what;
  void (*add_options)(CLI::App&, Options&);
};
constexpr VerbSummary kVerbs[] = {
    {"doctor", "What works on this machine, and what to do if not", add_doctor},
    {"list", "Functions that a pattern matches, and how each is probed", add_list},
    {"count", "How often functions are called", add_count},
    {"hist", "What values arguments and registers have", add_hist},
    {"latency", "How long functions take, from call to return", add_latency},
    {"measure", "Several of these at once, in one attach", add_measure},
    {"trace", "Calls and hits one by one, as they happen, with values", add_trace},
    {"record", "The same into a file, for later", add_record},
    {"report", "What a recording has, as trace would have printed it", add_report},
    {"ftrace", "Calls of functions as the kernel's ftrace shows them", add_ftrace},
    {"top", "Functions and how long they take, live on the screen", add_top},
    {"leaks", "Memory that is allocated and not freed, by call stack", add_leaks},
    {"locks", "Where threads wait for locks, and deadlocks", add_locks},
    {"diff", "What changed between two measurements, beyond noise", add_diff},
    {"calls", "Timed calls that are in flight right now", add_calls},
    {"status", "Probes that are in place, of all owners", add_status},
    {"detach", "Remove the probes of a pinprick that is gone", add_detach},
    {"keep", "Look after the probes of a pinprick that is gone", add_keep},
    {"kstats", "Statistics that stay in a process, with names", add_kstats},
    {"mount", "Latency statistics of processes, as files", add_mount},
    {"serve", "Statistics of this machine's processes, for Prometheus", add_serve},
    {"completion", "Completions of the command line, for bash, zsh or fish", add_completion},
    {"help", "The help of a verb, or a page for scripts and coding agents", add_help},
};

// The command line was not understood as a whole, so its words say whether records are wanted.
bool wants_records(std::span<char* const> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--json" || word == "--format=json") return true;
    if (word == "--format" && i + 1 < words.size() && std::string_view(words[i + 1]) == "json")
      return true;
  }
  return false;
}

// Tells people what is wrong with the command line, and with --json scripts, too.
class Complaint {
 public:
  Complaint(bool wants_record, bool has_command)
      : wants_record_(wants_record), has_command_(has_command) {}

  int operator()(const Message& message, const std::string& verb) const {
    std::fprintf(stderr, "pinprick: %s; see `pinprick %s--help`\n",
                 printable(message.text, true).c_str(), verb.empty() ? "" : (verb + " ").c_str());
    for (const std::string& line : message.place)
      std::fprintf(stderr, "  %s\n", printable(line, true).c_str());
    if (wants_record_)
      JsonRenderer(Output(has_command_ ? stderr : stdout, Color::never))
          .error({message.cause, message.text, kUsage});
    return kUsage;
  }
  int operator()(const std::string& text, const std::string& verb) const {
    return (*this)(bad_command_line(text), verb);
  }

 private:
  bool wants_record_, has_command_;
};

// Prints the help of a verb, or a page. Returns false if there is none on that topic.
bool print_help(const CLI::App& app, const std::vector<std::string>& topics) {
  if (topics.empty()) {
    // help() would be that of the verb `help`, as it was given.
    const auto text =
        app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
    std::fputs(text.c_str(), stdout);
    return true;
  }
  if (topics.front() == "agents") {
    std::fwrite(pinprick_agents_page, 1, pinprick_agents_page_end - pinprick_agents_page, stdout);
    return true;
  }
  const auto verbs =
      app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == topics.front(); });
  if (!verbs.empty()) std::fputs(verbs.front()->help().c_str(), stdout);
  return !verbs.empty();
}

void forget_repetitions(std::vector<pid_t>& pids) {
  std::set<pid_t> seen;
  std::erase_if(pids, [&](pid_t pid) { return !seen.insert(pid).second; });
}

}  // namespace

std::vector<VerbDescription> verbs() {
  std::vector<VerbDescription> all;
  for (const VerbSummary& verb : kVerbs) all.push_back({verb.name, verb.what});
  return all;
}

std::vector<OptionDescription> options_of(const std::string& verb) {
  Options unused;
  CLI::App app;
  if (verb.empty()) {
    add_main_options(app);
  } else {
    app.set_help_flag(kHelpFlag, kHelpHelp);
    const auto* found = std::ranges::find(kVerbs, verb, &VerbSummary::name);
    if (found == std::end(kVerbs)) return {};
    found->add_options(app, unused);
  }
  std::vector<OptionDescription> all;
  for (const CLI::Option* option : std::as_const(app).get_options()) {
    if (option->get_positional()) continue;
    OptionDescription described = {{}, option->get_description(), ""};
    for (const std::string& name : option->get_snames()) described.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) described.names.push_back("--" + name);
    if (option->get_items_expected_max() > 0) described.value = option->get_type_name();
    all.push_back(std::move(described));
  }
  return all;
}

// A recording is a trace that is written in its own format.
static bool become_trace(Options& options) {
  options.verb = "trace";
  if (options.dry_run) return true;
  if (options.output.empty()) options.output = "pinprick.rec";
  return exports::format_of(options.output) == exports::Format::recording;
}

ParseOutcome parse_command_line(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) options.words.emplace_back(argv[i]);
  // All arguments after the first -- belong to the command, whatever they look like.
  int own = 1;
  while (own < argc && std::string_view(argv[own]) != "--") ++own;
  for (int i = own + 1; i < argc; ++i) options.command.emplace_back(argv[i]);
  const bool has_separator = own < argc;

  CLI::App app(kSummary);
  app.name("pinprick");
  app.require_subcommand(0, 1);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("-V,--version", version_text,
                       "Print version, commit and build ID, and exit");
  describe_verb(app, {"VERB [OPTIONS] [PATTERN...]", "VERB --help"}, kMainFooter);

  const std::span own_arguments(argv + 1, static_cast<size_t>(own - 1));
  const Complaint complain(wants_records(own_arguments), has_separator);
  for (const VerbSummary& verb : kVerbs) {
    CLI::App* described = app.add_subcommand(verb.name, verb.what);
    if (std::ranges::find(own_arguments, std::string_view(verb.name)) != own_arguments.end())
      verb.add_options(*described, options);
  }

  std::string verb_given;
  try {
    app.parse(own, argv);
  } catch (const CLI::Success& success) {
    return {std::nullopt, app.exit(success)};
  } catch (const CLI::ParseError& error) {
    for (const CLI::App* verb : app.get_subcommands()) verb_given = verb->get_name();
    return {std::nullopt, complain(error.what(), verb_given)};
  }
  if (app.get_subcommands().empty()) {
    if (argc <= 1) return {options, kOk};
    std::fputs(app.help().c_str(), stdout);
    return {std::nullopt, kUsage};
  }
  options.verb = app.get_subcommands().front()->get_name();
  if (options.verb == "help") {
    if (print_help(app, options.patterns)) return {std::nullopt, kOk};
    return {std::nullopt, complain(fmt::format("there is no verb '{}', and the only page is agents",
                                               options.patterns.front()),
                                   "")};
  }
  if (options.verb == "record" && !become_trace(options))
    return {std::nullopt, complain("a recording's name ends with .rec", "record")};
  const std::string given_verb = options.verb;
  if (options.verb == "ftrace") {
    if (auto text = contradiction_of_ftrace(options))
      return {std::nullopt, complain(*text, given_verb)};
    become_traced_functions(options);
  }
  if (options.verb == "top" && options.interval_s == 0) options.interval_s = 1;
  if (options.verb == "leaks" && options.stack_frames == 0) options.stack_frames = kFramesOfLeaks;
  if (options.verb == "locks" && options.stack_frames == 0) options.stack_frames = kFramesOfLocks;
  if (options.verb == "leaks" && options.blocks == 0) options.blocks = kBlocksOfLeaks;
  // If other options follow --summary, the file is the first argument.
  const CLI::Option* summary = app.get_subcommands().front()->get_option_no_throw("--summary");
  if (summary != nullptr && summary->count() > 0 && options.summary.empty()) {
    if (options.patterns.empty())
      return {std::nullopt, complain("--summary needs an ELF", options.verb)};
    options.summary = options.patterns.front();
    options.patterns.erase(options.patterns.begin());
  }
  for (const std::string& path : options.measures_in)
    if (auto read = append_lines(path, options.patterns); !read)
      return {std::nullopt, complain(read.error(), options.verb)};
  for (const std::string& path : options.event_files)
    if (auto read = append_event_lines(path, options.patterns); !read)
      return {std::nullopt, complain(read.error(), options.verb)};
  if (has_separator && options.command.empty())
    return {std::nullopt, complain("no COMMAND after --", given_verb)};
  if (auto text = contradiction(options)) return {std::nullopt, complain(*text, given_verb)};
  if (options.verb == "leaks" && options.top == 0) options.top = kRowsOfLeaks;
  if (options.verb == "locks" && options.top == 0) options.top = kRowsOfLocks;
  if (options.verb == "diff" && options.before.empty()) {
    options.before = {options.files.front()};
    options.after = {options.files.back()};
  }
  forget_repetitions(options.pids);
  return {options, kOk};
}

}  // namespace pinprick::cli
