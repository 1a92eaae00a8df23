#include "cli/option_groups.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <memory>
#include <utility>

#include "cli/help_texts.h"
#include "cli/measure/limits.h"
#include "cli/measure/patterns.h"
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

}  // namespace

void describe_verb(CLI::App& app, std::vector<std::string> usages, const std::string& footer) {
  app.formatter(std::make_shared<Help>(std::move(usages)));
  app.footer(footer);
}

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
static CLI::Validator whole_number(int64_t least, int64_t most, const char* what) {
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

static void add_color(CLI::App& app, Options& options) {
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

constexpr double kLeastBudget = 0.0001;

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
static bool parse_budget(std::string_view text, Options& options) {
  constexpr std::string_view kOnce = ",once";
  const bool once = text.ends_with(kOnce);
  if (once) text.remove_suffix(kOnce.size());
  const auto share = parse_percentage(text);
  if (!share || !(*share >= kLeastBudget && *share <= 1)) return false;
  options.budget = *share;
  options.budget_once = once;
  return true;
}

static void add_budget(CLI::App& app, Options& options) {
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

void add_watching(CLI::App& app, Options& options, Reports reports) {
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
                 has_figures ? "Write to a file; for tools: .html, .csv, .prom, .pb.gz, .folded"
                             : "Write to a file; for tools: .html, .pftrace, .ctf, .csv")
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

static void add_keys(CLI::App& app, Options& options) {
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

void add_self_time(CLI::App& app, Options& options) {
  app.add_flag("--self", options.self_time,
               "Also the time of each function without that of the timed ones it calls");
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

}  // namespace pinprick::cli
