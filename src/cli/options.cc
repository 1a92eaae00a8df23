#include "cli/options.h"

#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <set>
#include <span>

#include "cli/exit_code.h"
#include "cli/measure/patterns.h"
#include "cli/render/text_width.h"
#include "cli/version.h"

namespace pinprick::cli {
namespace {

constexpr const char* kSummary =
    "Probes for programs that are already running: how often, how long, right now.\n"
    "No restart, no recompile, no agent; out again without a trace.";

constexpr const char* kMainFooter =
    "Examples:\n"
    "  pinprick                                         what to type first, for processes here\n"
    "  pinprick doctor                                  does it work on this machine?\n"
    "  pinprick list -p 4242 'libssl:SSL_*'             what can be probed, and how\n"
    "  pinprick count -p 4242 -d 10 'libc:*alloc'       hits of each function in 10 seconds\n"
    "  pinprick latency -p 4242 processCommand          how long does it take, until Ctrl-C\n"
    "  pinprick count 'libc:*alloc' -- ls -l            a program from its start\n"
    "\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused,\n"
    "5 something was missed (with --fail-on-loss). With -- COMMAND: the command's own, or 125 "
    "when\n"
    "pinprick failed.\n"
    "`pinprick VERB --help` says more; so do the manual pages pinprick(1) and pinprick-VERB(1).";

constexpr const char* kPatternFooter =
    "Patterns: [OBJECT:]FUNCTION[+0xOFFSET], * and ? stand for any characters\n"
    "  processCommand            wherever it is, in the program or in a library\n"
    "  'libc:mall*'              of one object, by its file name without version\n"
    "  'net::Conn::*'            C++ by the demangled name; :: never ends an object's name\n"
    "  'net::Conn::read(char*, *' one overload, by the signature from its (\n"
    "  redis-server:call+0x1f    one instruction (not for timed calls)\n"
    "  gzip+0x3500               a function by its address, as `pinprick list` prints it\n"
    "  '*.cold'                  parts of functions, which other patterns leave out\n"
    "  'usdt:python:function__*' SDT points: usdt:[OBJECT:]PROVIDER:NAME\n"
    "\n";

constexpr const char* kListFooter =
    "Examples:\n"
    "  pinprick list -p 4242 'libssl:SSL_*'\n"
    "  pinprick list --file /usr/bin/redis-server 'lookupKey*'\n"
    "  pinprick list --file /usr/bin/redis-server --instructions call\n"
    "  pinprick list --args -p 4242 'usdt:*'\n"
    "  pinprick list --summary /usr/bin/redis-server --instructions --together\n"
    "\n"
    "Prints the address in the file, the object, how a probe is placed (nop, insn, window, pad,\n"
    "hop, evict, pun; - is not at all), the function, and the reason where it cannot be probed,\n"
    "or not be timed.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused.";

constexpr const char* kCountFooter =
    "Examples:\n"
    "  pinprick count -p 4242 -d 10 'libc:*alloc'       for 10 seconds\n"
    "  pinprick count -p 4242 -i 1 'SSL_*' -x '*_ctrl'  each second, without the *_ctrl\n"
    "  pinprick count 'libc:*alloc' -- ls -l            a program from its start\n"
    "\n"
    "Ends at Ctrl-C, after --duration, or with the program, and takes the probes out first;\n"
    "Ctrl-C before they are in changes nothing (exit status 130).\n"
    "With -- COMMAND and no --output the results go to stderr: stdout is the command's.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused, 5 something was\n"
    "missed (with --fail-on-loss). With -- COMMAND: the command's own, or 125 when pinprick "
    "failed.";

constexpr const char* kLatencyFooter =
    "Examples:\n"
    "  pinprick latency -p 4242 processCommand            until Ctrl-C\n"
    "  pinprick latency -p 4242 -i 1 -d 60 'lookupKey*'   each second for a minute\n"
    "  pinprick latency -p 4242 readQuery..writeReply     from a hit of one to the next hit of the "
    "other\n"
    "  pinprick latency libc:read -- sort file            a program from its start\n"
    "\n"
    "Ends at Ctrl-C, after --duration, or with the program, and takes the probes out first;\n"
    "Ctrl-C before they are in changes nothing (exit status 130).\n"
    "With -- COMMAND and no --output the results go to stderr: stdout is the command's.\n"
    "Calls that an exception leaves are counted separately. If pinprick warns that it has not\n"
    "found the program's unwinder, use `count` for functions that exceptions pass through: timing\n"
    "them may end the program.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused, 5 something\n"
    "was missed (with --fail-on-loss). With -- COMMAND: the command's own, or 125.";

constexpr const char* kTopFooter =
    "Examples:\n"
    "  pinprick top -p 4242 'lookupKey*' processCommand   until q or Ctrl-C\n"
    "  pinprick top -p 4242 -p 4243 'libssl:SSL_*'        two processes\n"
    "  pinprick top -p 4242 -d 10 'libc:*alloc' | cat     as tables, each second\n"
    "  pinprick top                                       all statistics of pinprick-kstats(1)\n"
    "\n"
    "Without a PATTERN it shows the statistics that are in the processes already, and without -p\n"
    "those of all processes.\n"
    "On a terminal, `?` shows the keys. Otherwise, and with --output, it prints a table for each\n"
    "interval, and with --json what `latency --json` prints.\n"
    "q, Ctrl-C, --duration and signals end it, and take the probes out.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused, 5 something\n"
    "was missed (with --fail-on-loss).";

constexpr const char* kHistFooter =
    "Values follow the pattern, in the same word:\n"
    "  'libc:write $arg3'        an argument: $arg1 to $arg6\n"
    "  'usdt:libstdcxx:throw $arg1'  of an SDT point: $arg1 to $arg12\n"
    "  'gzip:fill_window+0x2a %rax'   a register at an instruction\n"
    "  'libc:memset $arg2:u8'    less of it: u8, u16, u32; s8 to s64 have a sign\n"
    "\n"
    "Examples:\n"
    "  pinprick hist -p 4242 'libc:write $arg3'          how much is written at once\n"
    "  pinprick hist 'libc:malloc $arg1' -- ls -l        a program from its start\n"
    "\n"
    "Ends as `pinprick count` does, with the same exit status.";

constexpr const char* kMeasureFooter =
    "Each MEASURE is one word of the shell: [NAME =] and what another verb would measure.\n"
    "  'count libc:read'              hits; the pattern as for count\n"
    "  'latency libc:write'           times of calls\n"
    "  'latency readQuery..reply'     times from a hit of one to the next hit of the other\n"
    "  'hist libc:write $arg3'        values; as for hist\n"
    "Several with one NAME and verb are one measure with all their patterns.\n"
    "\n"
    "Examples:\n"
    "  pinprick measure -p 4242 'reads = count libc:read' 'latency libc:write' 'hist libc:write "
    "$arg3'\n"
    "  pinprick measure -p 4242 -i 1 -f my.measures      one in each line of a file\n"
    "  pinprick measure 'count libc:malloc' 'hist libc:malloc $arg1' -- ls -l\n"
    "\n"
    "All probes come and go together. Each measure is printed as its verb prints it, in the order\n"
    "in which they are given; with --json each record has its name as `measure`.\n"
    "Ends as `pinprick count` does, with the same exit status.";

constexpr const char* kDoctorFooter =
    "Examples:\n"
    "  pinprick doctor -p 4242      can this process be probed, by me, here?\n"
    "  pinprick doctor --json       what a report of a bug should have\n"
    "\n"
    "Exit status: 0 all that is needed works, 1 something does not (BAD), 2 usage.";

constexpr const char* kStatusFooter =
    "Examples:\n"
    "  pinprick status -p 4242 --json\n"
    "  pinprick status -p 4242 --symbols probes.o && gdb -p 4242 -ex 'add-symbol-file probes.o'\n"
    "\n"
    "It only looks. It works beside a running pinprick, and after one was killed.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 no probes for --symbols, 4 refused.";

constexpr const char* kCallsFooter =
    "Examples:\n"
    "  pinprick calls -p 4242                  what is it doing right now, of all that is timed\n"
    "  pinprick calls -p 4242 --older 1s       what hangs\n"
    "  pinprick calls -p 4242 'libssl:SSL_*'   only calls of these functions\n"
    "\n"
    "Shows the calls and spans that `latency`, `top` and `kstats` time, of all pinpricks, and\n"
    "of the program's own libpinprick: the oldest first, each with its thread and its caller.\n"
    "A ? is a thread that is not known, as on the stack of a coroutine.\n"
    "It only reads, and stops nothing: the process may hang, be stopped, or be measured.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing times calls there, 4 refused.";

constexpr const char* kDetachFooter =
    "Examples:\n"
    "  pinprick detach -p 4242      after the pinprick that probed it was killed\n"
    "  pinprick detach --all        everywhere\n"
    "  pinprick detach -p 4242 --owner 77    only what pinprick 77 put there\n"
    "\n"
    "Probes of a pinprick that still runs stay: end that one with Ctrl-C.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 no probes there, 4 refused.";

constexpr const char* kKeepFooter =
    "Example:\n"
    "  pinprick keep -p 4242        after the pinprick that probed it was killed\n"
    "\n"
    "Such probes go on recording. Until Ctrl-C this pinprick gives them what they would run out\n"
    "of: slots for calls in flight, and space for histograms. The probes stay after that;\n"
    "`pinprick detach` takes them out.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 no such probes there, 4 refused.";

constexpr const char* kKstatsFooter =
    "Commands:\n"
    "  trace S [bits B] [start X] [end Y] [gap cpu|thread|none]\n"
    "                     times of the calls of X, or from X to the next Y on the same thread;\n"
    "                     X is S if it is not given; __tracepoint_NAME is a static point\n"
    "  remove S           takes S out of the process, and GAP-S with it\n"
    "  START S, STOP S    resumes S, or pauses it; the figures stay\n"
    "  RESET S            clears the figures, for all readers\n"
    "  list               the names of all\n"
    "  show [S]           the distribution of S, or of all\n"
    "\n"
    "Examples:\n"
    "  pinprick kstats -p 4242 trace processCommand\n"
    "  pinprick kstats -p 4242 trace query bits 4 start readQueryFromClient end processCommand\n"
    "  pinprick kstats -p 4242 show query\n"
    "\n"
    "A statistic stays when pinprick ends. GAP-S has the times from the end of one call or span "
    "to\n"
    "the next start on the same CPU, or with `gap thread` on the same thread.\n"
    "Exit status: 0 ok, 1 failed, 2 EINVAL, 3 ENOENT, 4 attach refused.";
constexpr const char* kMountFooter =
    "Files, for each process:\n"
    "  DIR/PID/_control   read: names of the statistics; write: trace S [bits B] [start X] [end "
    "Y]\n"
    "                     [gap cpu|thread|none], remove S, start S, stop S, reset S\n"
    "  DIR/PID/NAME       read: the figures; write: START, STOP, RESET; rm: removes the statistic\n"
    "\n"
    "Example:\n"
    "  pinprick mount /tmp/stats &\n"
    "  echo trace write bits 3 > /tmp/stats/4242/_control\n"
    "  cat /tmp/stats/4242/write\n"
    "\n"
    "Serves the files until Ctrl-C, or until DIR is unmounted; the statistics stay.\n"
    "This pinprick prints why a command failed; its writer gets an errno.\n"
    "After kill -9, `fusermount3 -u DIR` unmounts DIR.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 4 a process of -p was refused.";

constexpr const char* kCompletionFooter =
    "SHELL is bash, zsh or fish. Where a package has installed pinprick, the shell finds its file "
    "by\n"
    "itself. Otherwise, add to the file that it reads when it starts:\n"
    "  ~/.bashrc                    source <(pinprick completion bash)\n"
    "  ~/.zshrc, after compinit     source <(pinprick completion zsh)\n"
    "  ~/.config/fish/config.fish   pinprick completion fish | source\n"
    "\n"
    "The shell then asks `pinprick completion words -- WORD...`, with what was typed so far, for\n"
    "what may come next: verbs, options and their values, the processes that you may probe, their\n"
    "functions (300 at most, if they are found within a second), and statistics.\n"
    "Exit status: 0 ok, 1 failed, 2 usage.";

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

void add_watching(CLI::App& app, Options& options) {
  add_pids(app, options, "Process to attach to (repeatable)");
  add_patterns(app, options);
  app.add_option("-d,--duration", options.duration_s, "Stop after SECONDS; without it, at Ctrl-C")
      ->type_name("SECONDS")
      ->check(kPositive);
  app.add_option("-i,--interval", options.interval_s,
                 "Report every SECONDS, and the sum at the end")
      ->type_name("SECONDS")
      ->check(kPositive);
  app.add_option("-o,--output", options.output, "Write the results to a file")->type_name("FILE");
  app.add_flag("-a,--idle", options.all, "Show functions without a hit, too");
  app.add_option("--top", options.top,
                 "Show the N with the most hits, or time; the others in one line")
      ->type_name("N")
      ->check(kPositive);
  app.add_flag("--allow-missing", options.allow_missing,
               "Go on when a pattern matches nothing (yet), or a name is refused");
  app.add_option_function<std::string>(
         "--children",
         [&options](const std::string& word) {
           if (word != "count" && word != "ignore" && word != "follow")
             throw CLI::ValidationError("--children",
                                        "'" + word + "' is not count, ignore or follow");
           options.count_children = word != "ignore";
           options.follow_children = word == "follow";
         },
         "Forked children: count (default), ignore, or follow what they execute")
      ->type_name("WHAT");
  app.add_flag("--follow-exec", options.follow_exec,
               "When the process runs another program, probe that");
  app.add_flag("--fail-on-loss", options.fail_on_loss,
               "Exit with 5 when a call was missed, or new code was not probed");
  add_cache(app, options);
  add_common(app, options);
}

void add_command(CLI::App& app, Options& options) {
  app.add_flag("--silence-mcount", options.silence_mcount,
               "With -- COMMAND: make its calls of mcount and __fentry__ nops");
}

void add_files(CLI::App& app, Options& options) {
  one_at_a_time(app.add_option("--all", options.files,
                               "Every process that has FILE mapped, or executes it (repeatable)")
                    ->type_name("FILE"));
  app.add_option_function<std::string>(
         "--by",
         [&options](const std::string& word) {
           if (word != "pid") throw CLI::ValidationError("--by", "'" + word + "' is not pid");
           options.by_pid = true;
         },
         "With --all or --children=follow: `pid` shows each process")
      ->type_name("WHAT");
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

void add_bits(CLI::App& app, Options& options) {
  app.add_option("--bits", options.bits, "2^BITS histogram slots for each power of two (default 3)")
      ->type_name("0..5")
      ->check(CLI::Range(stats::kMinFractionBits, stats::kMaxFractionBits).description(""));
}

void add_timing(CLI::App& app, Options& options) {
  app.add_option("--slots", options.slots,
                 "Calls in flight at once, over all threads; more go unmeasured")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20).description(""));
  app.add_flag("--force", options.force,
               "Time functions although an exception that passes may end the program");
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
  list.add_flag("--args", options.arguments, "Of SDT points, where their arguments are, too");
  add_cache(list, options);
  add_common(list, options);
  describe_verb(list,
                {"list [OPTIONS] -p PID [PATTERN...]", "list [OPTIONS] --file ELF [PATTERN...]",
                 "list [OPTIONS] --summary ELF [PATTERN...]"},
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
  add_bits(latency, options);
  add_timing(latency, options);
}

void add_top(CLI::App& top, Options& options) {
  add_watching(top, options);
  top.get_option("--interval")
      ->description("Draw every SECONDS, with figures of these (default 1)");
  top.get_option("--top")->description(
      "In tables: show the N with the most time, and not the others");
  describe_verb(top, {"top [OPTIONS] -p PID PATTERN...", "top [OPTIONS] [-p PID]"},
                std::string(kPatternFooter) + kTopFooter);
  add_bits(top, options);
  add_timing(top, options);
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

// TIME is a number of seconds, or has its unit after it, as times are printed.
std::optional<uint64_t> parse_time(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
  constexpr double kMost = 1e18;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const auto* const known =
      std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  if (error != std::errc() || known == std::end(kUnits)) return std::nullopt;
  const double ns = value * known->second;
  if (!(ns >= 0 && ns <= kMost)) return std::nullopt;
  return static_cast<uint64_t>(ns);
}

void add_calls(CLI::App& calls, Options& options) {
  add_pids(calls, options, "Only this process (repeatable)");
  calls.add_option("PATTERN", options.patterns, "Only calls of these functions")->type_name("");
  calls
      .add_option_function<std::string>(
          "--older",
          [&options](const std::string& text) {
            const auto time = parse_time(text);
            if (!time)
              throw CLI::ValidationError("--older",
                                         "'" + text + "' is no time, such as 1s or 20ms");
            options.older_ns = *time;
          },
          "Only calls at least this old: 1s, 20ms; without a unit, in seconds")
      ->type_name("TIME");
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
  keep.add_option("-d,--duration", options.duration_s, "Stop after SECONDS; without it, at Ctrl-C")
      ->type_name("SECONDS")
      ->check(kPositive);
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

void add_mount(CLI::App& mount, Options& options) {
  add_pids(mount, options, "Only this process (repeatable)");
  mount.add_option("DIR", options.folder, "The folder to mount them at")->type_name("")->required();
  add_common(mount, options);
  describe_verb(mount, {"mount [OPTIONS] [-p PID] DIR"}, kMountFooter);
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
    {"top", "Functions and how long they take, live on the screen", add_top},
    {"calls", "Timed calls that are in flight right now", add_calls},
    {"status", "Probes that are in place, of all owners", add_status},
    {"detach", "Remove the probes of a pinprick that is gone", add_detach},
    {"keep", "Look after the probes of a pinprick that is gone", add_keep},
    {"kstats", "Statistics that stay in a process, with names", add_kstats},
    {"mount", "Latency statistics of processes, as files", add_mount},
    {"completion", "Completions of the command line, for bash, zsh or fish", add_completion},
};

int complain(const std::string& text, const std::string& verb) {
  std::fprintf(stderr, "pinprick: %s; see `pinprick %s--help`\n", printable(text, true).c_str(),
               verb.empty() ? "" : (verb + " ").c_str());
  return kUsage;
}

void forget_repetitions(std::vector<pid_t>& pids) {
  std::set<pid_t> seen;
  std::erase_if(pids, [&](pid_t pid) { return !seen.insert(pid).second; });
}

// Checks combinations of options, which CLI11 cannot. Returns the message if there is an error.
std::optional<std::string> contradiction(const Options& options) {
  const std::string& verb = options.verb;
  const bool watches =
      verb == "count" || verb == "latency" || verb == "hist" || verb == "measure" || verb == "top";
  const bool takes_words = verb == "completion" && options.shell == "words";
  if (takes_words && !options.has_command()) return "no words after --";
  if (options.has_command() && !takes_words && (!watches || verb == "top"))
    return "this verb takes no -- COMMAND";
  if (watches || verb == "list") {
    const int sources = (options.pids.empty() ? 0 : 1) + (options.has_command() ? 1 : 0) +
                        (options.files.empty() ? 0 : 1) + (options.file.empty() ? 0 : 1) +
                        (options.summary.empty() ? 0 : 1);
    if (sources == 0 && verb == "top" && options.patterns.empty()) return std::nullopt;
    if (sources == 0)
      return verb == "top" ? "no process: give -p PID"
             : watches     ? "no process: give -p PID, -- COMMAND or --all FILE"
                           : "nothing to look at: give -p PID, --file ELF or --summary ELF";
    if (sources > 1) return "-p PID, -- COMMAND, --all, --file and --summary exclude each other";
    const bool filters = !options.commands.empty() || !options.users.empty() ||
                         !options.excluded_pids.empty() || !options.cgroups.empty();
    if (filters && options.files.empty())
      return "--comm, --uid, --exclude-pid and --cgroup go with --all FILE";
    if (options.silence_mcount && !options.has_command())
      return "--silence-mcount goes with -- COMMAND";
    if (options.by_pid && options.files.empty() && !options.follow_children)
      return "--by goes with --all FILE, or --children=follow";
    if (options.follow_children && verb == "top")
      return "top does not follow children; count, hist and latency do";
    if (options.follow_children && (options.follow_exec || !options.files.empty()))
      return "--children=follow includes --follow-exec, and goes with -p or -- COMMAND";
    if (options.follow_children && means_spans(options))
      return "--children=follow measures calls; a span (START..END) goes without it";
    if (!options.files.empty() && options.follow_exec)
      return "--follow-exec goes with -p or -- COMMAND; --all follows the file";
    if (!options.files.empty() && means_spans(options))
      return "--all measures calls; a span (START..END) goes with -p or -- COMMAND";
  }
  if (options.file.starts_with('-'))
    return fmt::format("--file takes the ELF right after it, not {}", options.file);
  if (options.together && (options.summary.empty() || !options.instructions))
    return "--together goes with --summary ELF --instructions";
  if (options.entry_sites && options.instructions)
    return "--entry-sites means entries of functions; --instructions goes without it";
  if (!options.symbols.empty() && options.pids.size() != 1) return "--symbols needs one -p PID";
  if (options.top != 0 && options.json) return "--top is for tables; --json has all functions";
  if (verb == "measure")
    for (const std::string& text : options.patterns)
      if (!parse_measure(text))
        return fmt::format("'{}' is no measure: say count, latency or hist, and a PATTERN", text);
  if (watches && verb != "top" && options.patterns.empty())
    return verb == "measure" ? "no MEASURE: say what to measure"
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

ParseOutcome parse_command_line(int argc, char** argv) {
  Options options;
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
  if (options.verb == "top" && options.interval_s == 0) options.interval_s = 1;
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
  if (has_separator && options.command.empty())
    return {std::nullopt, complain("no COMMAND after --", options.verb)};
  if (auto text = contradiction(options)) return {std::nullopt, complain(*text, options.verb)};
  forget_repetitions(options.pids);
  return {options, kOk};
}

}  // namespace pinprick::cli
