// The interface through which verbs show their results. text.h and json.h implement it.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/messages/messages.h"
#include "cli/render/call_tree.h"
#include "cli/render/dry_run_row.h"
#include "cli/render/event_spans.h"
#include "cli/render/leak_report.h"
#include "cli/render/lock_report.h"
#include "cli/render/text_width.h"
#include "compare/change.h"
#include "debug/type_layout.h"
#include "engine/disarm.h"
#include "engine/session.h"
#include "export/perfetto.h"
#include "http/address.h"
#include "image/match.h"
#include "placement/probe_set.h"
#include "placement/summary.h"
#include "plan/tactic.h"
#include "recording/call_graph.h"
#include "recording/call_paths.h"
#include "recording/function_times.h"
#include "recording/writer.h"
#include "select/prototypes.h"
#include "select/spec.h"
#include "session/budget_keeper.h"
#include "session/events.h"
#include "session/lock_waits.h"
#include "session/report.h"
#include "session/statistics.h"
#include "session/timed_calls.h"
#include "stats/histogram.h"

namespace pinprick::cli {

using session::ProcessName;
using session::Report;
using session::Row;

using engine::ProbeName;
inline std::string text_of(const ProbeName& name) {
  return image::name_at(name.function, name.offset);
}
// Returns the name that the user gave the event, or else that of the place that was hit.
inline std::string event_name(const ProbeName& name) {
  return name.event.empty() ? text_of(name) : std::string(name.event);
}
// For people: as users write it, `f $arg3 if $arg1==1`. If another function has the name, it says
// where this one is: `f (m+0x1139)`.
inline std::string label_of(const ProbeName& name) {
  std::string label = text_of(name);
  if (name.at_return) label += select::kReturnMark;
  if (name.is_shared) label += fmt::format(" ({})", image::name_at(name.object, name.address));
  if (!name.value.empty()) label += fmt::format(" {}", name.value);
  if (!name.condition.empty()) label += fmt::format(" if {}", name.condition);
  return label;
}

// Returns the key of a row that has one: a number, a text, `?` for texts that could not be read,
// `(other)`, or nothing if there was no hit. Of a list, all parts but stacks.
std::string key_text(const Row& row);
// Returns the parts of its key one by one. A stack is one of them: it starts with the outermost
// frame, and has semicolons between frames.
std::vector<std::string> key_texts(const Row& row);
// Has its key a stack? And the names of its frames, one a line, the innermost first.
bool has_stack(const Row& row);
std::vector<std::string> frames_of(const Row& row);
// `f [$arg1: 3]` if the row has a key that is more than a stack.
inline std::string label_of(const Row& row) {
  std::string label = label_of(row.name);
  if (!row.key) return label;
  if (const std::string key = key_text(row); !key.empty() || !has_stack(row))
    label += fmt::format(" [{}: {}]", row.name.key, key);
  return label;
}

struct ListRow {
  std::string object;
  std::string function;
  Address address = 0;  // as in the file
  std::optional<plan::Tactic> tactic;
  std::optional<plan::Reason> refusal;         // set if there is no tactic
  std::optional<plan::Reason> return_refusal;  // set if it can be counted, but not timed
  std::optional<bool> is_timed_by_exits;       // and not by slots; set if it can be timed
  bool ends_at_tail_jumps = false;             // its calls end where it jumps to another function
  std::optional<image::EntryKind> entry;       // what the compiler left at the function's entry
  // The arguments of an SDT point's site, as its note describes them; only if they were asked for.
  std::optional<std::string> arguments;
  // The parameters of a function, if these were asked for, and if they are known.
  bool wants_prototype = false;
  std::optional<select::Prototype> prototype;
  // What debug information says of the place, if it was asked for; nullopt: it says nothing.
  struct Variable {
    std::string type, name, where;
    bool is_parameter = false;
  };
  bool wants_variables = false;
  std::optional<std::vector<Variable>> variables;
  struct Line {
    Address address = 0;  // as in the file
    std::string name;     // FILE:LINE
  };
  bool wants_lines = false;
  std::vector<Line> lines;
  // At how many places it was inlined besides, and the pattern that means these; 0: none is known.
  size_t inlined_places = 0;
  std::string inlined;
};

struct LayoutRow {
  std::string object;  // whose debug information has it
  debug::TypeLayout layout;
};

struct SummaryRow {
  std::string object;
  std::string sites;  // their kind: "entries", "instructions", "instructions together"
  placement::Summary summary;
};

// The slots of timed calls.
struct SlotFigures {
  size_t in_use = 0;     // by calls that will return
  size_t abandoned = 0;  // by calls abandoned by longjmp, or made on a stack that was moved since
  size_t most = 0;       // how many were needed at once
  uint64_t room = 0;     // how many there can be
};

struct SessionRow {
  ProcessName process;
  std::string file;
  enum class State : uint8_t {
    live,
    orphaned,
    kept,
    left_behind,
    target_gone,  // or it runs another program
    own,          // the program's own, by libpinprick: it has no file, and only names are known
  } state = State::live;
  std::string statistic;     // what a kept one is called, also if the program has ended
  bool is_replaced = false;  // the process runs another program
  pid_t controller = 0;      // which owns the session, and may be gone
  double age_s = 0;
  double measured_s = 0;    // how long the figures took to come together; 0: not known
  bool is_stopped = false;  // a kept one
  size_t sites = 0;
  size_t forked = 0;  // processes that have the probes by a fork, of one that has ended
  std::optional<SlotFigures> slots;  // only while the target lives
  std::vector<Row> rows;
  std::vector<std::vector<ledger::ReadText>> texts;    // that keys are,
  std::vector<std::deque<std::string>> names_of_keys;  // or stand for
  std::vector<std::string> own_probes;
  bool has_events = false;  // its recorder is gone, and its rings keep the newest ones
};

enum class Health : uint8_t { ok, note, bad };
struct CheckRow {
  std::string name;
  Health health = Health::ok;
  std::string finding;
  std::string remedy;
};

// Identifies the program and the machine in a report of a bug.
struct MachineRow {
  std::string version;
  std::string commit;
  std::string build_id;  // empty: none
  std::string kernel;    // its release and its build
  std::string system;    // as /etc/os-release names it
  std::string cpu;
  uint32_t cpus = 0;  // that are possible
  uint32_t user = 0;  // effective
};

// How the figures of a statistic are shown as text.
struct StatisticForm {
  bool with_name = false;  // as one of several
  bool density = false;    // drawn, instead of kstats' lines
};

// The figures of a rule by file.
struct FilesFigures {
  std::vector<std::string> files;
  size_t functions = 0;  // armed in a process, at most
  size_t present = 0;    // measured when it began
  uint64_t elapsed_ns = 0;
  std::string why_not_followed;  // empty: later executions of the files are
  bool by_loader = false;        // they are caught when their loader opens the C library
  size_t processes = 0;          // measured in all
  size_t ended = 0;
  size_t caught = 0;                           // those that executed a file since
  size_t late = 0;                             // of executions: some of the program had run before
  uint64_t let_through = 0;                    // of these: not measured at all
  uint64_t refused = 0;                        // calls for which there was no memory
  std::map<std::string, uint64_t> left_alone;  // processes, by the cause
};

// All calls of a recording, by their paths.
struct RecordedPaths {
  const recording::CallPaths& paths;
  uint64_t started_ns = 0;  // by CLOCK_REALTIME
  double seconds = 0;
};

// What rings that keep the newest events held at one time: when a hit or the user asked for it
// (--repeat, SIGUSR1, Enter), or when a killed recorder's events are collected (--collect).
struct Dump {
  size_t number = 0;  // from 1 on
  enum class Cause : uint8_t { hit, request, key, end, left } cause = Cause::hit;
  pid_t recorder = 0;    // of Cause::left: the pinprick that was killed
  uint64_t time_ns = 0;  // when it began, by CLOCK_REALTIME
  std::string file;      // which has its events; empty: they are among the others
  // The hit of --until; nullopt if there was none, or if its event was lost.
  struct Trigger {
    uint64_t tsc = 0, time_ns = 0;
    std::string point;
    pid_t pid = 0, tid = 0;
    std::string command;  // of the thread
  };
  std::optional<Trigger> trigger = {};
  uint64_t events = 0;
  uint64_t dropped = 0;  // since the last dump, for lack of room
  bool lacks_older_events = false;
  // For how long nothing was recorded, until the rings went on; nullopt: they did not.
  std::optional<uint64_t> pause_ns = {};
};

class Renderer : public session::ReportSink {
 public:
  virtual void error(const Message& message) = 0;
  virtual void warning(const std::string& text) = 0;

  virtual void armed(const ProcessName& process, const engine::ArmReport& report,
                     uint64_t elapsed_ns, bool until_interrupt) = 0;
  virtual void files_armed(const FilesFigures& figures, bool until_interrupt) = 0;
  virtual void files_detached(const FilesFigures& figures, const engine::DisarmReport& report) = 0;
  // Objects were loaded, or unloaded, in which there is something to probe.
  virtual void loaded(const ProcessName& process, const std::vector<std::string>& objects,
                      const engine::ArmReport& report, uint64_t elapsed_ns) = 0;
  virtual void unloaded(const ProcessName& process, const std::vector<std::string>& objects) = 0;
  // So many calls of mcount and __fentry__ in the command are nops now.
  virtual void silenced(size_t calls) = 0;
  // The process runs another program.
  virtual void executed(const ProcessName& process) = 0;
  // Probes whose controller is gone are looked after.
  // `seconds`: for how long; 0: until Ctrl-C.
  virtual void kept(pid_t pid, size_t probes, double seconds) = 0;
  // The files of statistics are there.
  virtual void mounted(const std::string& folder) = 0;
  // Metrics are at this path of the address.
  virtual void serving(const http::Address& address, const std::string& path) = 0;
  virtual void detached(const ProcessName& process, const engine::DisarmReport& report) = 0;
  // With --budget: probes were taken out, or are back.
  virtual void budget_changed(const ProcessName& process, const session::BudgetEvent& event) = 0;

  // An event, as what event_lines() prints.
  virtual std::string line_of(const session::Event& event) const = 0;
  // Does it show trees of calls? If so, part_of_tree() returns an event as part of one.
  virtual bool shows_trees() const { return false; }
  virtual CallTree::Event part_of_tree(const session::Event&) const { return {}; }
  // Does it write a timeline? If so, part_of_timeline() returns an event as part of one, and
  // timeline() what is written of it, to be called in the order of time.
  virtual bool writes_timelines() const { return false; }
  virtual exports::TraceEvent part_of_timeline(const session::Event&) const { return {}; }
  virtual std::string timeline(const exports::TraceEvent&) { return {}; }
  // Does it record events as they are? If so, they are added to this, in the order in which they
  // are read, and what the file gets is event_lines().
  virtual recording::Writer* recorder() { return nullptr; }
  // The events to come are those of a dump. dumped() follows them, and knows all about it.
  virtual void begin_dump(const Dump& dump) = 0;
  virtual void dumped(const Dump& dump) = 0;
  // The events to come are those of a recording.
  virtual void replays(const recording::Header&) {}
  // The functions of a recording, and how many others are left out.
  virtual void function_times(const std::vector<recording::FunctionTime>& functions,
                              size_t others) = 0;
  // A function of a recording, with its callers and callees.
  virtual void call_graph(const recording::CallGraph& graph) = 0;
  // Only some files for other tools have these.
  virtual void call_paths(const RecordedPaths&) {}
  // A start or an end of a span as what line_of_span() prints once both are known.
  virtual EventSpans::Event part_of_span(const session::Event& event) const = 0;
  virtual std::string line_of_span(const EventSpans::Ended& span) const = 0;
  // Tells how many starts and ends belong to no span, and how many spans have not ended.
  virtual void span_figures(const EventSpans::Figures& figures) = 0;
  virtual void event_lines(const std::string& lines) = 0;
  // How many bytes of lines the output takes now without waiting for its reader; 0: none.
  virtual size_t room() const = 0;
  // Prints no result any more, as if the reader were gone.
  virtual void give_up() = 0;

  virtual void leaks(const LeakReport& report) = 0;
  virtual void locks(const LockReport& report) = 0;
  // Shows all waits, and which of them are deadlocks; deadlocks() shows these alone.
  virtual void lock_waits(const session::LockWaits& waits) = 0;
  virtual void deadlocks(const session::LockWaits& waits) = 0;
  virtual void dry_run(const DryRunRow& row) = 0;
  virtual void functions(const std::vector<ListRow>& rows) = 0;
  virtual void summary(const SummaryRow& row) = 0;
  virtual void layouts(const std::vector<LayoutRow>& rows) = 0;
  virtual void sessions(const std::vector<SessionRow>& rows) = 0;
  // The calls in flight of a process, at least so old, the oldest first.
  virtual void calls(const ProcessName& process, const std::vector<session::TimedCall>& calls,
                     uint64_t least_age_ns) = 0;
  virtual void checks(const MachineRow& machine, const std::vector<CheckRow>& rows) = 0;

  // The statistics of a process, as `kstats list` names them.
  virtual void statistic_names(pid_t pid,
                               const std::vector<session::StatisticFigures>& statistics) = 0;
  virtual void statistic(pid_t pid, const session::StatisticFigures& statistic,
                         StatisticForm form) = 0;

  // Shows what has changed between two measurements.
  virtual void comparison(const compare::Comparison& comparison) = 0;

  // Writes what has waited for all reports. To be called once they have come; another call does
  // nothing.
  virtual void conclude() {}
  // The errno with which writing the results has failed first; 0: it has not.
  virtual int error_of_writing() const = 0;
  bool is_broken() const { return error_of_writing() != 0; }
  virtual void flush() = 0;
};

}  // namespace pinprick::cli
