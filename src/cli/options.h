// The parsed command line. There is one struct for all verbs; each verb uses the options that it
// has.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "action/value_layout.h"
#include "cli/measure/limits.h"
#include "cli/render/sum_figures.h"
#include "placement/ends.h"
#include "select/function_filter.h"
#include "stats/histogram.h"

namespace pinprick::cli {

// The output of `trace`: lines for people, JSON, or lines as the kernel's tracing prints them. Its
// tracers of functions print the last two (`ftrace`).
enum class EventFormat : unsigned char { text, json, ftrace, function, function_graph };
enum class Color : unsigned char { automatic, always, never };

struct Options {
  std::string verb;  // empty: there were no arguments at all
  std::vector<pid_t> pids;
  pid_t owner = 0;                   // detach: only this controller's probes; 0 for all
  std::vector<std::string> command;  // after --
  std::vector<std::string> patterns;
  std::vector<std::string> excluded;
  std::vector<std::string> excluded_in;        // files with such patterns, one in each line
  std::vector<std::string> measures_in;        // files with measures, one in each line
  std::vector<std::string> event_files;        // trace: files with lines of the kernel's tracing
  std::vector<std::string> files;              // --all FILE: every process that has it mapped
  std::vector<std::string> commands, cgroups;  // with --all: only these
  std::vector<uid_t> users;
  std::vector<pid_t> excluded_pids;
  std::string file;       // list: an ELF file instead of a process
  std::string summary;    // list: an ELF file to summarise
  std::string recording;  // report: a file that `record` has written
  // report: what the recording says of itself.
  struct Recorded {
    bool has_until = false;
    std::optional<uint64_t> ns_multiplier = {};
  } recorded;
  bool functions = false;  // report: how long functions take, instead of events
  std::string graph;       // report: a pattern; what calls such functions, and what they call
  std::vector<std::string> words;  // the whole command line, as it was given
  std::string output;
  std::string symbols;                     // status: a file to write
  std::string folder;                      // mount
  std::string address = "127.0.0.1:9467";  // serve
  std::vector<std::string> before, after;  // diff: files of records
  std::string shell;                       // completion: a shell, or `words`
  double duration_s = 0;                   // 0: until Ctrl-C or the end of the target
  double interval_s = 0;                   // 0: report only at the end
  // As a fraction: diff: the smallest change that counts; report: the smallest part of the time
  // that a graph shows.
  std::optional<double> least;
  double budget = 0;  // share of the CPU time of a process that probes may add; 0: any
  unsigned bits = stats::kDefaultFractionBits;
  unsigned serve_bits = 2;  // serve: 2^serve_bits buckets for each power of two
  uint64_t slots = 0;
  uint64_t older_ns = 0;      // calls, and blocks of leaks: only those that are as old
  bool names_older = false;   // --older was given
  bool self_time = false;     // latency and top: also without the calls within
  Limits limits;              // latency and top: of the calls that are recorded
  size_t top = 0;             // maximum number of rows of a table; 0 for all
  size_t limit = 0;           // trace: maximum number of events; 0 for all
  uint32_t every = 1;         // trace: record only each Nth hit
  uint64_t buffer_bytes = 0;  // trace: of each CPU's ring; 0: as usual
  bool overwrite = false;     // trace: rings keep the newest events, which are printed at the end
  std::vector<std::string> until;  // trace: points of which a hit ends it
  uint64_t after_ns = 0;           // trace: how long after that hit
  uint64_t repeat = 0;             // trace: how many hits make dumps; 0: the first one ends it
  bool collect = false;            // trace: print what a killed recorder has left, and no more
  bool regex = false;
  bool json = false;
  bool dry_run = false;     // say what would be probed, and probe nothing
  bool probe_rate = false;  // and count for a moment how often that is hit
  bool allow_missing = false;
  bool trap = false;
  bool force = false;
  placement::Ends ends = placement::Ends::automatic;
  bool fail_on_loss = false;
  bool all = false;
  bool by_pid = false;         // of many processes: results of each one, too
  std::string key;             // count: an expression by whose value hits are counted
  std::string sum;             // count: an expression whose values are added up
  SumFigures figures_of_sums;  // count: which figures of the sums are shown
  uint64_t keys = 0;           // how many values there is room for; 0: as usual
  bool budget_once = false;    // what was taken out to keep it does not come back
  bool follow_exec = false;
  bool count_children = true;
  bool names_children = false;   // --children was given
  bool follow_children = false;  // what they execute is measured, too
  bool silence_mcount = false;   // of the command
  bool instructions = false;
  bool once = false;         // count: coverage; a probe is taken out when it was hit
  bool entry_sites = false;  // only functions with an entry site of the compiler
  bool together = false;
  bool density = false;                   // kstats show: a drawing instead of kstats' lines
  bool arguments = false;                 // list: those of SDT points
  bool variables = false;                 // list: those that debug information knows
  bool lines = false;                     // list: of source
  action::ValueLimits value_limits = {};  // trace: of structures, containers and texts
  bool types = false;                     // list: the patterns name structures
  uint32_t stack_frames = 0;              // trace, leaks, locks: how many frames each event tells
  std::vector<std::string> allocators, releasers;  // leaks: functions instead of malloc and free
  std::vector<std::string> lockers, unlockers;     // locks: instead of those of POSIX threads
  bool by_holding = false;                         // locks: the longest held first
  bool now = false;                                // locks: who waits right now, without a probe
  uint64_t min_size = 0;                           // of the blocks that are followed
  uint32_t sample = 1;                             // N: one block of N is followed
  uint64_t blocks = 0;                             // how many there is room for
  bool tree = false;                               // trace: which calls lie within which
  uint32_t depth = 0;                              // of the tree; 0: all
  std::vector<std::string> tree_in, tree_not_in;   // patterns of functions' names
  // ftrace: which functions are traced, and in which threads; null, and empty: all.
  std::shared_ptr<select::TracedFunctions> functions_traced = {};
  std::vector<pid_t> tids;
  bool profile = false;  // ftrace: a table of their times, as the kernel's function profile
  bool cache = true;
  EventFormat event_format = EventFormat::text;
  Color color = Color::automatic;

  bool has_command() const { return !command.empty(); }
};

struct ParseOutcome {
  std::optional<Options> options;  // nullopt: the message was printed; exit with `exit_code`
  int exit_code = 0;
};

ParseOutcome parse_command_line(int argc, char** argv);

// What the command line may consist of, for completions: in the order of `--help`, from the same
// declarations.
struct VerbDescription {
  std::string name;
  std::string what;
};
std::vector<VerbDescription> verbs();

struct OptionDescription {
  std::vector<std::string> names;  // such as -p and --pid
  std::string what;
  std::string value;  // a word for what follows it, such as PID; empty if nothing does
};
// The options of the verb; with an empty one, those before a verb. Empty if there is no such verb.
std::vector<OptionDescription> options_of(const std::string& verb);

}  // namespace pinprick::cli
