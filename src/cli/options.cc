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

#include "cli/exit_code.h"
#include "cli/export_choice.h"
#include "cli/help_texts.h"
#include "cli/measure/event_file.h"
#include "cli/measure/patterns.h"
#include "cli/render/text_width.h"
#include "cli/version.h"
#include "export/format.h"
#include "select/span.h"
#include "select/value.h"

namespace pinprick::cli {
namespace {

// Shows both ways to call a verb, which CLI11 cannot.
class Help : public CLI::Formatter {
 public:
  explicit Help(std::vector<std::string> usages) : usages_(std::move(usages)) {
    constexpr size_t kOptionColumn = 30;
    column_width(kOptionColumn);
  }
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    std::string text = "\n";
    for (const std::string& usage : usages_)
      text += (text.size() == 1 ? "Usage: pinprick " : "   or: pinprick ") + usage + "\n";
    return text;
  }

 private:
  std::vector<std::string> usages_;
};

void describe_verb(CLI::App& app, std::vector<std::string> usages, const std::string& footer) {
  app.formatter(std::make_shared<Help>(std::move(usages)));
  app.footer(footer);
}

// Takes one value for each occurrence (`-p 1 -p 2`), so that patterns may follow.
void one_at_a_time(CLI::Option* option) {
  option->allow_extra_args(false);
}

const CLI::Validator kPositive(
    [](std::string& text) {
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      const bool good = end != text.c_str() && *end == '\0' && value > 0 && value < 1e9;
      return good ? std::string() : "'" + text + "' is no positive number";
    },
    "", "positive");

// A whole number from `least` on. CLI11 would say in what range of numbers with decimals it is not.
CLI::Validator whole_number(int64_t least, int64_t most, const char* what) {
  return CLI::Validator(
      [=](std::string& text) {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = error == std::errc() && end == text.data() + text.size() &&
                          value >= least && value <= most;
        return good ? std::string() : "'" + text + "' is no " + what;
      },
      "");
}
const CLI::Validator kProcess = whole_number(1, INT32_MAX, "PID");
const CLI::Validator kUser = whole_number(0, UINT32_MAX, "user's number");

void add_color(CLI::App& app, Options& options) {
  app.add_option_function<std::string>(
         "--color",
         [&options](const std::string& word) {
           const std::map<std::string, Color> words = {
               {"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}};
           if (!words.contains(word))
             throw CLI::ValidationError("--color", "'" + word + "' is not auto, always or never");
           options.color = words.at(word);
         },
         "auto, always or never; NO_COLOR is respected")
      ->type_name("WHEN");
}

// leaks, unless the user says otherwise.
constexpr uint32_t kFramesOfLeaks = 20;
constexpr uint64_t kBlocksOfLeaks = uint64_t{1} << 22;
constexpr size_t kRowsOfLeaks = 10;

constexpr double kLeastBudget = 0.0001;
constexpr double kMostLeast = 1000;
constexpr uint64_t kMostKeysWithHistograms = 32768;

void add_common(CLI::App& app, Options& options) {
  app.add_flag("--json", options.json, "One JSON record per line, for programs");
  add_color(app, options);
}

void add_pids(CLI::App& app, Options& options, const char* help) {
  one_at_a_time(app.add_option("-p,--pid", options.pids, help)->type_name("PID")->check(kProcess));
}

void add_patterns(CLI::App& app, Options& options) {
  const bool is_measure = app.get_name() == "measure";
  app.add_option(
         is_measure ? "MEASURE" : "PATTERN", options.patterns,
         is_measure ? "What to measure, and where; see below" : "Which functions; see below")
      ->type_name("");
  one_at_a_time(
      app.add_option("-x,--exclude", options.excluded, "Leave out what matches (repeatable)")
          ->type_name("PATTERN"));
  one_at_a_time(app.add_option("--notrace", options.excluded_in,
                               "Leave out what the patterns in FILE match, one in a line")
                    ->type_name("FILE"));
  app.add_flag("--entry-sites", options.entry_sites,
               "Only functions that the compiler prepared for tracing");
  app.add_flag("-r,--regex", options.regex,
               "FUNCTION is a POSIX extended regular expression for the whole name");
}

void add_cache(CLI::App& app, Options& options) {
  app.add_flag_callback(
      "--no-cache", [&options] { options.cache = false; },
      "Decode everything anew; neither read nor write the user's cache");
}

void add_instructions(CLI::App& app, Options& options) {
  app.add_flag("--instructions", options.instructions,
               "Every instruction of the functions, not only their entries");
}

constexpr const char* kNothingFollows =
    "nothing follows; the shell may have taken a $, so use single quotes";

// PERCENT%, such as 2% or 0.5%; as a fraction.
std::optional<double> parse_percentage(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return percent / 100;
}

// SHARE[,once], such as 2% or 0.5%,once.
bool parse_budget(std::string_view text, Options& options) {
  constexpr std::string_view kOnce = ",once";
  const bool once = text.ends_with(kOnce);
  if (once) text.remove_suffix(kOnce.size());
  const auto share = parse_percentage(text);
  if (!share || !(*share >= kLeastBudget && *share <= 1)) return false;
  options.budget = *share;
  options.budget_once = once;
  return true;
}

void add_budget(CLI::App& app, Options& options) {
  app.add_option_function<std::string>(
         "--budget",
         [&options](const std::string& text) {
           if (!parse_budget(text, options))
             throw CLI::ValidationError(
                 "--budget",
                 "'" + text + "' is no budget from 0.01% to 100%, such as 2% or 2%,once");
         },
         "Hold what probes add below that share of CPU time: 2%, or 2%,once")
      ->type_name("SHARE");
}

void add_duration(CLI::App& app, Options& options) {
  app.add_option("-d,--duration", options.duration_s, "Stop after SECONDS; without it, at Ctrl-C")
      ->type_name("SECONDS")
      ->check(kPositive);
}

void add_follow_exec(CLI::App& app, Options& options) {
  app.add_flag("--follow-exec", options.follow_exec,
               "When the process runs another program, probe that");
}

// Does a verb report figures, or each hit as it happens?
enum class Reports : bool { figures, events };

void add_watching(CLI::App& app, Options& options, Reports reports = Reports::figures) {
  const bool has_figures = reports == Reports::figures;
  add_pids(app, options, "Process to attach to (repeatable)");
  add_patterns(app, options);
  app.add_flag("--dry-run", options.dry_run, "Say what would be probed, and probe nothing");
  app.add_flag("--probe-rate", options.probe_rate,
               "With --dry-run: count hits for 0.1 s, and say what probes would cost");
  add_duration(app, options);
  if (has_figures)
    app.add_option("-i,--interval", options.interval_s,
                   "Report every SECONDS, and the sum at the end")
        ->type_name("SECONDS")
        ->check(kPositive);
  app.add_option("-o,--output", options.output,
                 has_figures ? "Write to a file; for tools: .csv, .prom, .pb.gz, .folded"
                             : "Write to a file; for tools: .pftrace, .csv")
      ->type_name("FILE");
  if (has_figures) {
    app.add_flag("-a,--idle", options.all, "Show functions without a hit, too");
    app.add_option("--top", options.top,
                   "Show the N with the most hits, or time; the others in one line")
        ->type_name("N")
        ->check(kPositive);
  }
  app.add_flag("--allow-missing", options.allow_missing,
               "Go on when a pattern matches nothing (yet), or a name is refused");
  app.add_option_function<std::string>(
         "--children",
         [&options](const std::string& word) {
           if (word != "count" && word != "ignore" && word != "follow")
             throw CLI::ValidationError("--children",
                                        "'" + word + "' is not count, ignore or follow");
           options.names_children = true;
           options.count_children = word != "ignore";
           options.follow_children = word == "follow";
         },
         "Forked children: count (default), ignore, or follow what they execute")
      ->type_name("WHAT");
  add_follow_exec(app, options);
  if (has_figures) add_budget(app, options);
  app.add_flag("--fail-on-loss", options.fail_on_loss,
               has_figures ? "Exit with 5 when a call was missed, or new code was not probed"
                           : "Exit with 5 when an event was dropped, or new code was not probed");
  add_cache(app, options);
  add_common(app, options);
}

void add_command(CLI::App& app, Options& options) {
  app.add_flag("--silence-mcount", options.silence_mcount,
               "With -- COMMAND: make its calls of mcount and __fentry__ nops");
}

void add_file(CLI::App& app, Options& options) {
  one_at_a_time(app.add_option("--all", options.files,
                               "Every process that has FILE mapped, or executes it (repeatable)")
                    ->type_name("FILE"));
}

void add_keys(CLI::App& app, Options& options) {
  app.add_option_function<std::string>(
         "--by",
         [&options](const std::string& word) {
           if (word.empty()) throw CLI::ValidationError("--by", kNothingFollows);
           if (word == "pid")
             options.by_pid = true;
           else
             options.key += (options.key.empty() ? "" : ",") + word;
         },
         "A row for each EXPRESSION (fd,count), tid, comm, caller, stack, pid")
      ->type_name("EXPRESSION")
      ->trigger_on_parse();
  app.add_option("--keys", options.keys,
                 "With --by: room for N values (default 4096; with histograms, 256)")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 23).description(""));
}

void add_filters(CLI::App& app, Options& options) {
  one_at_a_time(app.add_option("--comm", options.commands,
                               "With --all: only processes with such a name (repeatable)")
                    ->type_name("GLOB"));
  one_at_a_time(
      app.add_option("--uid", options.users, "With --all: only those of this user (repeatable)")
          ->type_name("UID")
          ->check(kUser));
  one_at_a_time(app.add_option("--exclude-pid", options.excluded_pids,
                               "With --all: not this process (repeatable)")
                    ->type_name("PID")
                    ->check(kProcess));
  one_at_a_time(app.add_option("--cgroup", options.cgroups,
                               "With --all: only those in it, or below (repeatable)")
                    ->type_name("PATH"));
}

void add_files(CLI::App& app, Options& options) {
  add_file(app, options);
  add_keys(app, options);
  add_filters(app, options);
}

void add_bits(CLI::App& app, Options& options) {
  app.add_option("--bits", options.bits, "2^BITS histogram slots for each power of two (default 3)")
      ->type_name("0..5")
      ->check(CLI::Range(stats::kMinFractionBits, stats::kMaxFractionBits).description(""));
}

constexpr uint64_t kMostBuffer = 256 << 20;
constexpr uint32_t kMostClasses = 1 << 16;  // --sample

// Bytes: 65536, 64K, 16M or 1G, which are powers of 1024.
std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || value > (UINT64_MAX >> shift)) return std::nullopt;
  return value << shift;
}

CLI::Option* add_ring_size(CLI::App& app, Options& options, const std::string& name,
                           const char* help) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &options](const std::string& text) {
            const auto bytes = parse_size(text);
            if (!bytes || *bytes == 0 || *bytes > kMostBuffer)
              throw CLI::ValidationError(name, "'" + text + "' is no size up to 256M, such as 16M");
            options.buffer_bytes = *bytes;
          },
          help)
      ->type_name("SIZE");
}

void add_buffer(CLI::App& app, Options& options, const char* help) {
  add_ring_size(app, options, "--buffer", help);
}

// This is a flag, as an option would take the pattern after it for its number.
void add_stack(CLI::App& app, Options& options, const char* help) {
  app.add_flag("--stack", options.stack_frames, help)
      ->transform(CLI::Validator(
          [](std::string& frames) {
            if (frames == "true") frames = fmt::format("{}", select::kMostFrames);
            unsigned number = 0;
            const auto [end, error] =
                std::from_chars(frames.data(), frames.data() + frames.size(), number);
            return error == std::errc() && end == frames.data() + frames.size() && number != 0 &&
                           number <= select::kMostFrames
                       ? std::string()
                       : fmt::format("'{}' is no number from 1 to {}", frames, select::kMostFrames);
          },
          ""));
}

void add_ends(CLI::App& app, Options& options) {
  static const std::map<std::string, placement::Ends> kWays = {{"slots", placement::Ends::slots},
                                                               {"exits", placement::Ends::exits}};
  app.add_option_function<std::string>(
         "--ends", [&options](const std::string& way) { options.ends = kWays.at(way); },
         "Time calls by return `slots`, or by jumps at each function's `exits`")
      ->type_name("WAY")
      ->check(CLI::IsMember(kWays).description(""));
}

void add_timing(CLI::App& app, Options& options) {
  app.add_option("--slots", options.slots,
                 "Calls in flight at once, over all threads; more go unmeasured")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20).description(""));
  app.add_flag("--force", options.force,
               "Time functions although an exception that passes may end the program");
}

void add_time(CLI::App& app, const char* name, const char* help,
              const std::function<void(uint64_t)>& take) {
  app.add_option_function<std::string>(
         name,
         [name, take](const std::string& text) {
           const auto time = parse_time(text);
           if (!time)
             throw CLI::ValidationError(name, "'" + text + "' is no time, such as 1s or 20ms");
           take(*time);
         },
         help)
      ->type_name("TIME");
}

void add_limits(CLI::App& app, Options& options) {
  add_time(app, "--slower", "Only calls that take at least this long: 1ms, 10us",
           [&options](uint64_t ns) { options.limits.slower_ns = ns; });
  add_time(app, "--faster", "Only calls that take at most this long",
           [&options](uint64_t ns) { options.limits.faster_ns = ns; });
}

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

void add_count(CLI::App& count, Options& options) {
  add_measuring(count, options);
  add_instructions(count, options);
  count.add_flag("--trap", options.trap,
                 "Where no jump fits, a breakpoint that the kernel counts (root)");
  count
      .add_option_function<std::string>(
          "--sum",
          [&options](const std::string& expression) {
            if (expression.empty()) throw CLI::ValidationError("--sum", kNothingFollows);
            options.sum = expression;
          },
          "Add up the value of EXPRESSION, such as '$arg3', of all hits")
      ->type_name("EXPRESSION");
  count
      .add_option_function<std::string>(
          "--avg",
          [&options](const std::string& expression) {
            if (expression.empty()) throw CLI::ValidationError("--avg", kNothingFollows);
            if (!options.sum.empty())
              throw CLI::ValidationError("--avg", "--sum shows averages, too: give one of them");
            options.sum = expression;
            options.averages = true;
          },
          "The average of EXPRESSION over all hits")
      ->type_name("EXPRESSION");
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
  trace
      .add_option_function<std::string>(
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
          "Print events as text, json, or as the kernel's trace_pipe does: ftrace")
      ->type_name("FORMAT");
  trace.add_option("--limit", options.limit, "Stop after N events")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{INT64_MAX}).description(""));
  add_buffer(trace, options, "Room for events that were not printed yet, of each CPU, such as 16M");
  add_ring_size(trace, options, "--overwrite",
                "Keep the newest events, as many as fit for each CPU, until the end")
      ->each([&options](const std::string&) { options.overwrite = true; });
  one_at_a_time(trace.add_option("--until", options.until, "Stop at a hit of this (repeatable)")
                    ->type_name("POINT"));
  add_time(trace, "--after", "Stop TIME after that hit: 10ms, 1s",
           [&options](uint64_t ns) { options.after_ns = ns; });
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

void add_report(CLI::App& report, Options& options) {
  report.add_option("FILE", options.recording, "What `pinprick record` has written")
      ->type_name("")
      ->required();
  report.add_flag("--functions", options.functions,
                  "How often functions were called, and how long, instead of events");
  report.add_option("--top", options.top, "With --functions: show the N with the most time")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, size_t{INT_MAX}).description(""));
  add_parts_of_tree(report, options);
  report.add_option("--limit", options.limit, "Stop after N events")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{INT64_MAX}).description(""));
  add_limits(report, options);
  report.add_option("-o,--output", options.output, "Write to a file; for tools: .pftrace, .csv")
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
  diff.add_option("FILE", options.files, "What --json has written before, and after")
      ->type_name("");
  diff.add_option("--before", options.before, "Several runs before the change")->type_name("FILE");
  diff.add_option("--after", options.after, "Several runs after the change")->type_name("FILE");
  diff.add_flag("-a,--all", options.all, "Show what is within noise, too");
  diff.add_option_function<std::string>(
          "--least",
          [&options](const std::string& text) {
            options.least = parse_percentage(text);
            if (!options.least || !(*options.least >= 0 && *options.least <= kMostLeast))
              throw CLI::ValidationError("--least", "'" + text + "' is no change, such as 5%");
          },
          "The smallest change that counts (default 3%; without repeats 10%)")
      ->type_name("PERCENT");
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
    {"top", "Functions and how long they take, live on the screen", add_top},
    {"leaks", "Memory that is allocated and not freed, by call stack", add_leaks},
    {"diff", "What changed between two measurements, beyond noise", add_diff},
    {"calls", "Timed calls that are in flight right now", add_calls},
    {"status", "Probes that are in place, of all owners", add_status},
    {"detach", "Remove the probes of a pinprick that is gone", add_detach},
    {"keep", "Look after the probes of a pinprick that is gone", add_keep},
    {"kstats", "Statistics that stay in a process, with names", add_kstats},
    {"mount", "Latency statistics of processes, as files", add_mount},
    {"serve", "Statistics of this machine's processes, for Prometheus", add_serve},
    {"completion", "Completions of the command line, for bash, zsh or fish", add_completion},
};

int complain(const std::string& text, const std::string& verb) {
  std::fprintf(stderr, "pinprick: %s; see `pinprick %s--help`\n", printable(text, true).c_str(),
               verb.empty() ? "" : (verb + " ").c_str());
  return kUsage;
}

int complain(const Message& message, const std::string& verb) {
  const int exit = complain(message.text, verb);
  for (const std::string& line : message.place)
    std::fprintf(stderr, "  %s\n", printable(line, true).c_str());
  return exit;
}

void forget_repetitions(std::vector<pid_t>& pids) {
  std::set<pid_t> seen;
  std::erase_if(pids, [&](pid_t pid) { return !seen.insert(pid).second; });
}

std::optional<std::string> contradiction_of_recording(const Options& options) {
  if (options.after_ns != 0 && options.until.empty()) return "--after goes with --until POINT";
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

// Checks combinations of options, which CLI11 cannot. Returns the message if there is an error.
std::optional<std::string> contradiction(const Options& options) {
  const std::string& verb = options.verb;
  const bool watches = verb == "count" || verb == "latency" || verb == "hist" ||
                       verb == "measure" || verb == "top" || verb == "trace" || verb == "leaks";
  const bool takes_words = verb == "completion" && options.shell == "words";
  if (takes_words && !options.has_command()) return "no words after --";
  if (options.has_command() && !takes_words && (!watches || verb == "top"))
    return "this verb takes no -- COMMAND";
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
      return "--once says whether, not how often: --by, --sum and --avg go without it";
    if (takes_values && options.trap)
      return "what the kernel counts (--trap) has no values: --by, --sum and --avg go without it";
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
    if (options.output.ends_with(".folded") && options.averages)
      return "flame graphs add up, and averages do not: give --sum EXPRESSION for a .folded file";
    if (auto text = contradiction_of_format(options)) return text;
    if (auto text = contradiction_of_recording(options)) return text;
    if (auto text = contradiction_of_dry_run(options)) return text;
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
    const bool chooses = options.limit != 0 || !options.limits.empty() || options.depth != 0 ||
                         !options.tree_in.empty() || !options.tree_not_in.empty();
    if (options.functions && chooses)
      return "--functions adds up all calls: --limit, --slower, --faster, --depth, --in and "
             "--not-in go without it";
    if (options.top != 0 && !options.functions) return "--top goes with --functions";
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
  if (options.allocators.empty() != options.releasers.empty())
    return "--alloc and --free go together: what is allocated by one is freed by the other";
  if (watches && verb != "top" && verb != "leaks" && options.patterns.empty())
    return !options.event_files.empty() ? "no event in --event-file: there are only comments"
           : verb == "measure"          ? "no MEASURE: say what to measure"
                                        : "no PATTERN: say which functions";
  if (verb == "detach" && options.pids.empty() && !options.all)
    return "no process: give -p PID, or --all";
  if (verb == "kstats" && options.pids.size() != 1) return "kstats is for one process: give -p PID";
  if (verb == "keep" && options.pids.empty()) return "no process: give -p PID";
  return std::nullopt;
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
  if (options.output.empty()) options.output = "pinprick.rec";
  if (exports::format_of(options.output) != exports::Format::recording) return false;
  options.verb = "trace";
  return true;
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
  if (options.verb == "record" && !become_trace(options))
    return {std::nullopt, complain("a recording's name ends with .rec", options.verb)};
  if (options.verb == "top" && options.interval_s == 0) options.interval_s = 1;
  if (options.verb == "leaks" && options.stack_frames == 0) options.stack_frames = kFramesOfLeaks;
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
      return {std::nullopt, complain(read.error().text, options.verb)};
  for (const std::string& path : options.event_files)
    if (auto read = append_event_lines(path, options.patterns); !read)
      return {std::nullopt, complain(read.error(), options.verb)};
  if (has_separator && options.command.empty())
    return {std::nullopt, complain("no COMMAND after --", options.verb)};
  if (auto text = contradiction(options)) return {std::nullopt, complain(*text, options.verb)};
  if (options.verb == "leaks" && options.top == 0) options.top = kRowsOfLeaks;
  if (options.verb == "diff" && options.before.empty()) {
    options.before = {options.files.front()};
    options.after = {options.files.back()};
  }
  forget_repetitions(options.pids);
  return {options, kOk};
}

}  // namespace pinprick::cli
