// What the verbs have to say, apart from how it looks. text.h and json.h say it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/messages.h"
#include "engine/disarm.h"
#include "engine/session.h"
#include "image/match.h"
#include "placement/probe_set.h"
#include "placement/summary.h"
#include "plan/tactic.h"
#include "stats/histogram.h"

namespace pinprick::cli {

struct ProcessName {
  pid_t pid = 0;
  std::string command;
};

// A function, or an instruction of one. There may be millions: so rows keep no names of their own;
// these live as long as what the rows are of.
using engine::ProbeName;
inline std::string text_of(const ProbeName& name) {
  return image::name_at(name.function, name.offset);
}

struct CountRow {
  ProbeName name;
  uint64_t hits = 0;
  bool has_calls() const { return hits != 0; }
};

// A function's calls; or a span.
struct LatencyRow {
  ProbeName name;
  stats::Histogram histogram;
  uint64_t missed = 0;          // calls that found no free slot
  uint64_t unwound = 0;         // calls that were left by an exception, or by cancellation
  uint64_t abandoned = 0;       // calls that were left otherwise: by longjmp, or with their thread
  uint64_t from_generated = 0;  // calls that generated code made: not timed
  // Of a span.
  bool is_span = false;
  uint64_t repeated = 0;   // starts, when it had begun
  uint64_t unmatched = 0;  // ends, when it had not
  bool has_calls() const {
    return histogram.count() + missed + unwound + abandoned + from_generated + repeated +
               unmatched !=
           0;
  }
};

// Values that hits recorded.
struct ValueRow {
  ProbeName name;
  stats::Histogram histogram;
  uint64_t missed = 0;  // hits that found no memory for their histogram
  bool has_calls() const { return histogram.count() + missed != 0; }
};

// Of one process. An interval, or the whole time.
template <class Row>
struct Report {
  ProcessName process;
  double seconds = 0;
  bool is_final = false;
  std::vector<Row> rows;
  uint64_t slots_to_ask_for = 0;  // 0: no call was missed for want of a slot
  size_t idle = 0;                // functions without a hit that have no row
  bool has_spans = false;         // in place of functions
};

struct ListRow {
  std::string object;
  std::string function;
  Address address = 0;  // as in the file
  std::optional<plan::Tactic> tactic;
  std::optional<plan::Reason> refusal;         // without a tactic
  std::optional<plan::Reason> return_refusal;  // can be counted, but not timed
};

struct SummaryRow {
  std::string object;
  std::string sites;  // of which kind: "entries", "instructions", "instructions together"
  placement::Summary summary;
};

// Of timed calls.
struct SlotFigures {
  size_t in_use = 0;     // calls that will return
  size_t abandoned = 0;  // left by longjmp, or on a stack that was moved to where we do not see it
  size_t most = 0;       // that were needed at once
  uint64_t room = 0;     // that there can be
};

struct SessionRow {
  ProcessName process;
  std::string file;
  enum class State : uint8_t { live, orphaned, left_behind, target_gone } state = State::live;
  pid_t controller = 0;  // that owns it; it may be gone
  double age_s = 0;
  size_t sites = 0;
  std::optional<SlotFigures> slots;  // while the target lives
  std::vector<CountRow> counts;
  std::vector<LatencyRow> latencies;
  std::vector<ValueRow> values;
};

enum class Health : uint8_t { ok, note, bad };
struct CheckRow {
  std::string name;
  Health health = Health::ok;
  std::string finding;
  std::string remedy;
};

class Renderer {
 public:
  virtual ~Renderer() = default;

  virtual void error(const Message& message) = 0;
  virtual void warning(const std::string& text) = 0;

  virtual void armed(const ProcessName& process, const engine::ArmReport& report,
                     uint64_t elapsed_ns, bool until_interrupt) = 0;
  // Objects that were loaded, or unloaded, while we watched; where there is something to probe.
  virtual void loaded(const ProcessName& process, const std::vector<std::string>& objects,
                      const engine::ArmReport& report, uint64_t elapsed_ns) = 0;
  virtual void unloaded(const ProcessName& process, const std::vector<std::string>& objects) = 0;
  // The process runs another program.
  virtual void executed(const ProcessName& process) = 0;
  // Probes whose pinprick is gone are looked after.
  virtual void kept(pid_t pid, size_t probes) = 0;
  // Are rows without a hit of any use, where there are so many functions?
  virtual bool shows_idle(size_t functions) const = 0;
  virtual void counts(const Report<CountRow>& report) = 0;
  virtual void latencies(const Report<LatencyRow>& report) = 0;
  virtual void values(const Report<ValueRow>& report) = 0;
  virtual void detached(const ProcessName& process, const engine::DisarmReport& report) = 0;

  virtual void functions(const std::vector<ListRow>& rows) = 0;
  virtual void summary(const SummaryRow& row) = 0;
  virtual void sessions(const std::vector<SessionRow>& rows) = 0;
  virtual void checks(const std::vector<CheckRow>& rows) = 0;

  virtual bool is_broken() const = 0;
  virtual void flush() = 0;
};

}  // namespace pinprick::cli
