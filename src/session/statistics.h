// Statistics: named distributions of times that stay in a process (docs/kstats.md). Each is a
// session of its own, which any controller can look at, change or take out, from its file alone:
//
//     trace    a controller arms it and leaves it there
//     stop     its probes are switched off (engine/switches.h); start switches them on
//     reset    what it has recorded becomes a baseline (engine/reset.h)
//     remove   it is taken out, as any session whose controller is gone
//
// Besides these there are statistics that the program records itself (pinprick/kstats.h). They can
// be looked at, stopped and reset, too; they come and go as the program wants.
//
// Changes wait for the process's turn. One thread at a time uses an object.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "image/store/object_store.h"
#include "ledger/discovery.h"
#include "ledger/recorded_statistics.h"
#include "session/measurement_error.h"
#include "session/planning.h"
#include "session/report.h"
#include "session/selection.h"
#include "stats/cpu_histogram.h"

namespace pinprick::session {

struct StatisticSpec {
  std::string name;
  unsigned bits = stats::kDefaultFractionBits;
  std::string start;
  std::string end;  // empty: the times of the calls of `start`
  layout::Gap gap = layout::Gap::cpu;
  bool force = false;  // time calls although an exception that passes one may end the program
};

// No statistic can have this name (layout/recorded_file.h).
struct BadName {
  std::string name;
};
// There is a statistic of this name already.
struct NameTaken {
  std::string name;
};
// There is none.
struct NoStatistic {
  std::string name;
};
// The function that is to be timed cannot be.
struct NotTimed {
  std::string function;
  plan::Refusal refusal;
};
// Some of its probes have no switch, so that it cannot be stopped or started as a whole.
struct NotSwitched {
  std::string name;
};

// The program records it itself, so only the program can remove it.
struct OfProgram {
  std::string name;
};

// A point in the code has no return, so times from it need an end.
struct NoEnd {
  std::string point;
};

using StatisticError =
    std::variant<SelectionError, MeasurementError, ledger::RecordedError, BadName, NameTaken,
                 NoStatistic, NotTimed, NotSwitched, OfProgram, NoEnd>;

// What a statistic has recorded, at one moment. `GAP-NAME` is a statistic of its own here.
struct StatisticFigures {
  std::string name;
  std::string what;     // the function, or the two ends of the span, as they are named; else empty
  std::string object;   // the name of its object; else empty
  std::string file;     // in which the function, or the start of the span, is; else empty
  Address address = 0;  // there
  unsigned bits = stats::kDefaultFractionBits;
  enum class Kind : uint8_t { calls, span, gaps, recorded } kind = Kind::calls;
  bool of_thread = false;  // gaps: between the starts and ends of a thread, not of a CPU
  bool is_running = true;
  // The process lives, and a point of it has lost its probe: its library was unloaded, and perhaps
  // loaded again. Unknown, and false, if another owner has a probe there, or memory is not
  // readable.
  bool is_gone = false;
  uint64_t created_ns = 0;  // CLOCK_REALTIME
  uint64_t resets = 0;      // another number after each reset
  std::vector<stats::CpuHistogram> by_cpu;
  // Of gaps, Loss::unmatched counts the starts that followed no end: with Loss::missed and what is
  // recorded they are all starts.
  layout::Losses losses;
  uint64_t refused = 0;  // of the missed ones: for lack of memory for histograms
};

struct StatisticState {
  std::string name;
  bool is_running = true;
  uint64_t created_ns = 0;  // CLOCK_REALTIME
  uint64_t changed_ns = 0;  // when it was stopped last; 0 if it runs
  bool is_recorded = false;
};

class Statistics {
 public:
  Statistics(pid_t pid, image::ObjectStore& store) : pid_(pid), store_(&store) {}

  Result<engine::ArmReport, StatisticError> trace(const StatisticSpec& spec);
  Result<void, StatisticError> remove(const std::string& name);
  // A statistic and its gaps go together here: either name means both.
  Result<void, StatisticError> start(const std::string& name);
  Result<void, StatisticError> stop(const std::string& name);
  Result<void, StatisticError> reset(const std::string& name);

  // All traced ones, oldest first, each followed by its gaps; then those that the program records.
  std::vector<StatisticState> list() const;
  // The figures of one, or of its gaps. Also of a process that has ended.
  Result<StatisticFigures, StatisticError> read(const std::string& name) const;
  std::vector<StatisticFigures> read_all() const;

 private:
  Result<engine::ArmReport, StatisticError> try_to_trace(const StatisticSpec& statistic);
  // Those of the process, not of an older one that had its PID.
  std::vector<ledger::FoundSession> all() const;
  std::optional<ledger::FoundSession> find(const std::string& name) const;
  // By its own name, or by that of its gaps.
  std::optional<ledger::FoundSession> find_either(const std::string& name) const;
  // Returns the statistics that the program itself records: the one of this name, or all.
  std::vector<ledger::RecordedStatistic> recorded(const std::string* name = nullptr) const;
  using ChangeRecorded = std::function<Result<void, ledger::RecordedError>(ledger::RecordedFile&)>;
  Result<void, StatisticError> change_recorded(const std::string& name,
                                               const ChangeRecorded& change);
  using Change = std::function<Result<void, StatisticError>(
      const target::RemoteTarget&, ledger::SessionFile&, layout::Session&)>;
  Result<void, StatisticError> change(const std::string& name, const Change& change);
  Result<void, StatisticError> switch_to(const std::string& name, engine::Switched to);

  pid_t pid_;
  image::ObjectStore* store_;
};

// The processes that live and have statistics that this user can read, traced or recorded.
std::vector<pid_t> processes_with_statistics();

// Calls `take` for each process that lives and has statistics, with what Statistics::read_all()
// returns, in any order. One look at the files of the machine is enough for all processes.
void read_statistics(
    std::span<const ledger::FoundSession> sessions,
    std::span<const ledger::RecordedFile> recordings,
    const std::function<void(const ProcessName&, std::vector<StatisticFigures>)>& take);

inline constexpr std::string_view kGapPrefix = "GAP-";

}  // namespace pinprick::session
