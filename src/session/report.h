// What the probes of one owner have recorded in one process, as rows: one per function,
// instruction, value or span. There may be millions of rows, so they do not own their names, which
// live as long as the probes' sessions.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "stats/histogram.h"

namespace pinprick::session {

struct ProcessName {
  pid_t pid = 0;
  std::string command;
};

// Hits of a function, or of one of its instructions.
struct CountRow {
  engine::ProbeName name;
  uint64_t hits = 0;

  bool has_calls() const { return hits != 0; }
  void add(const CountRow& other) { hits += other.hits; }
};

// Calls of a function, or passes through a span.
struct LatencyRow {
  engine::ProbeName name;
  stats::Histogram histogram;
  uint64_t missed = 0;          // calls that found no free slot
  uint64_t unwound = 0;         // calls that an exception, or a cancellation, ended
  uint64_t abandoned = 0;       // calls abandoned by longjmp
  uint64_t ended = 0;           // calls whose thread ended in them; known in the final report
  uint64_t from_generated = 0;  // calls by generated code, which are not timed
  bool is_span = false;
  uint64_t repeated = 0;   // starts of a span that had started already
  uint64_t unmatched = 0;  // ends of a span that had not started

  bool has_calls() const {
    return histogram.count() + missed + unwound + abandoned + ended + from_generated + repeated +
               unmatched !=
           0;
  }
  void add(const LatencyRow& other) {
    histogram.merge(other.histogram);
    missed += other.missed;
    unwound += other.unwound;
    abandoned += other.abandoned;
    ended += other.ended;
    from_generated += other.from_generated;
    repeated += other.repeated;
    unmatched += other.unmatched;
  }
};

// Values that hits have recorded.
struct ValueRow {
  engine::ProbeName name;
  stats::Histogram histogram;  // of those that are not negative
  uint64_t missed = 0;         // hits that found no memory for their histogram
  uint64_t negative = 0;       // values below 0, and numbers that are none (NaN)

  // Takes what was recorded. Not to be called twice.
  void set(stats::Histogram recorded) {
    negative = name.is_signed ? recorded.take_negative() : 0;
    histogram = std::move(recorded);
  }
  uint64_t count() const { return histogram.count() + negative; }
  // Returns the value below which the fraction p (0..1) of all values lies; nullopt if that is
  // negative.
  std::optional<uint64_t> quantile(double p) const;
  bool has_calls() const { return count() + missed != 0; }
  void add(const ValueRow& other) {
    histogram.merge(other.histogram);
    missed += other.missed;
    negative += other.negative;
  }
};

inline std::optional<uint64_t> ValueRow::quantile(double p) const {
  const auto positive = static_cast<double>(histogram.count());
  const auto below = static_cast<double>(negative);
  const double rank = p * (positive + below);
  if (negative != 0 && rank <= below) return std::nullopt;
  return histogram.quantile(positive == 0 ? p : std::min(1.0, (rank - below) / positive));
}

// The report of one process.
template <class Row>
struct Report {
  ProcessName process;
  double seconds = 0;
  bool is_final = false;  // covers the whole time; otherwise an interval
  std::vector<Row> rows;
  uint64_t slots_to_ask_for = 0;  // 0 if no call was missed for lack of a slot
  size_t idle = 0;                // functions without a hit that have no row
  bool has_spans = false;         // the rows are spans, not functions
};

// Takes reports. The kind of the probes decides which of the functions is called.
class ReportSink {
 public:
  virtual ~ReportSink() = default;

  // Are rows without a hit wanted if there are this many functions?
  virtual bool shows_idle(size_t functions) const = 0;
  virtual void counts(const Report<CountRow>& report) = 0;
  virtual void latencies(const Report<LatencyRow>& report) = 0;
  virtual void values(const Report<ValueRow>& report) = 0;
};

}  // namespace pinprick::session
