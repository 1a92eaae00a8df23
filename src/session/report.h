// What the probes of one owner have recorded in one process, as rows: one per function,
// instruction, value or span. There may be millions of rows, so they do not own their names, which
// live as long as the probes' sessions.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rare.h"
#include "engine/session.h"
#include "layout/losses.h"
#include "placement/probe_set.h"
#include "stats/histogram.h"

namespace pinprick::session {

struct ProcessName {
  pid_t pid = 0;
  std::string command;
};

// The distribution of times or values, and the hits that are not in it.
struct Distribution {
  stats::Histogram histogram;  // of values: those that are not negative
  uint64_t negative = 0;       // values below 0, and numbers that are none (NaN)
  layout::Losses losses;
};

// When the probes of a row were out, in seconds since the process was armed, as they would have
// cost too much (--budget). Its figures lack what happened then.
struct Absence {
  double from_s = 0;
  std::optional<double> until_s;  // nullopt: they still are
};

// What the probes of a process have added to it, as far as that is computed (--budget).
struct BudgetFigures {
  double limit = 0;     // of the process's own CPU time: 0.02 is 2%
  double added_ns = 0;  // CPU time
  double own_ns = 0;
  size_t partial = 0;  // rows, with or without a hit, whose probes were out for a time
};

// The key of hits that are counted or recorded by one: a number, negative from 2^63 on if the row's
// name says so, or a text, which an address of code has as well. nullopt: of all keys that the
// tables had no room for.
struct RowKey {
  // The values of texts: of a whole one, of one that goes on, and of all that could not be read.
  static constexpr uint64_t kText = 0, kCut = 1, kUnread = 2;
  std::optional<uint64_t> value;
  std::string_view text = {};
  friend auto operator<=>(const RowKey&, const RowKey&) = default;
};

// A part of a key: `by a, b` has two.
struct KeyPart {
  enum class Kind : uint8_t {
    number,
    words,   // a text, or an address in code
    cut,     // a text that goes on
    unread,  // a text that could not be read
    other,   // a text or stack that there was no room for
    stack,   // the names of its frames, the innermost first, with a line end after each
  } kind = Kind::number;
  int64_t number = 0;  // its sign is that of the part (layout::KeyParts)
  std::string words = {};
};
// A list is kept as the text of a row's key, so that it outlives the process.
std::string as_text(const std::vector<KeyPart>& parts);
std::vector<KeyPart> parts_of(std::string_view text);

// Hits of which only each Nth was recorded on each CPU.
struct Sample {
  uint32_t every = 1;
  uint64_t hits = 0;  // all of them
};

// Hits of a function or of one of its instructions, calls of a function, passes through a span, or
// values that hits have recorded.
struct Row {
  engine::ProbeName name;
  uint32_t measure = 0;  // its number in the selection
  placement::Kind kind = placement::Kind::count;
  uint64_t hits = 0;                // of Kind::count, and events
  Rare<Distribution> distribution;  // of all other kinds, and of returns
  // Of calls: how long each took without the calls within it, if that was asked for.
  Rare<stats::Histogram> self_time = {};
  Rare<std::vector<Absence>> absences = {};
  std::optional<RowKey> key = {};  // of hits that are told apart by keys
  std::optional<uint64_t> sum =
      {};  // of what is added up; negative from 2^63 on if the name says so

  Rare<layout::Extremes> extremes = {};  // of what is added up, if they are kept
  std::optional<Sample> sample = {};     // of events, if they are not of all hits
  bool lacks_older_events = false;       // newer ones of this or of other probes overwrote them

  static Row of_times(const engine::ProbeName& name, placement::Kind kind,
                      stats::Histogram recorded, const layout::Losses& losses) {
    return {name, 0, kind, 0, Distribution{std::move(recorded), 0, losses}};
  }
  static Row of_values(const engine::ProbeName& name, stats::Histogram recorded,
                       const layout::Losses& losses) {
    Row row = {name, 0, placement::Kind::value, 0, Distribution{std::move(recorded), 0, losses}};
    row.tell_negative();
    return row;
  }
  // Tells negative values from others, if the name says that there may be some.
  void tell_negative() {
    if (distribution && name.is_signed)
      distribution->negative += distribution->histogram.take_negative();
  }

  // The number of the recorded times alone.
  static Row of_returns(const engine::ProbeName& name, stats::Histogram recorded,
                        const layout::Losses& losses) {
    const uint64_t hits = recorded.count();
    return {name, 0, placement::Kind::count, hits, Distribution{std::move(recorded), 0, losses}};
  }

  bool is_span() const { return kind == placement::Kind::span; }
  // Has it hits alone, and no histogram?
  bool only_counts() const {
    return kind == placement::Kind::count || kind == placement::Kind::event;
  }
  // These are not to be called if it only counts.
  const stats::Histogram& histogram() const { return distribution->histogram; }
  uint64_t negative() const { return distribution->negative; }
  uint64_t lost(layout::Loss loss) const { return distribution->losses[loss]; }
  // Returns the value below which the fraction p (0..1) of all values lies; nullopt if that is
  // negative.
  std::optional<uint64_t> quantile(double p) const;

  uint64_t count() const { return only_counts() ? hits : histogram().count() + negative(); }
  bool has_calls() const {
    return count() != 0 || (distribution && distribution->losses.total() != 0);
  }
  // Was anything recorded, or lost, besides hits of which something could not be read?
  bool has_others() const {
    return count() != 0 ||
           (distribution && distribution->losses.total() != lost(layout::Loss::unread));
  }
  // Adds what a row of the same kind has.
  void add(const Row& other) {
    hits += other.hits;
    lacks_older_events = lacks_older_events || other.lacks_older_events;
    if (other.sum) sum = layout::added(sum.value_or(0), *other.sum, other.name.is_sum_real);
    if (other.extremes && !extremes) extremes = layout::Extremes();
    if (other.extremes) extremes->add(*other.extremes);
    if (other.sample)
      sample = Sample{other.sample->every, (sample ? sample->hits : 0) + other.sample->hits};
    if (!absences)
      absences = other.absences;
    else if (other.absences)
      absences->insert(absences->end(), other.absences->begin(), other.absences->end());
    if (!self_time)
      self_time = other.self_time;
    else if (other.self_time)
      self_time->merge(*other.self_time);
    if (!distribution)
      distribution = other.distribution;
    else if (other.distribution)
      add_distribution(*other.distribution);
  }
  // A row that only counts has losses alone then.
  void add_unread(uint64_t hits_unread) {
    if (hits_unread == 0) return;
    if (!distribution) distribution = Distribution{stats::Histogram(0), 0, {}};
    distribution->losses[layout::Loss::unread] += hits_unread;
  }
  uint64_t take_unread() {
    return distribution ? std::exchange(distribution->losses[layout::Loss::unread], 0) : 0;
  }
  void add_distribution(const Distribution& other) {
    distribution->histogram.merge(other.histogram);
    distribution->negative += other.negative;
    distribution->losses += other.losses;
  }
};

inline std::optional<uint64_t> Row::quantile(double p) const {
  const auto positive = static_cast<double>(histogram().count());
  const auto below = static_cast<double>(negative());
  const double rank = p * (positive + below);
  if (negative() != 0 && rank <= below) return std::nullopt;
  return histogram().quantile(positive == 0 ? p : std::min(1.0, (rank - below) / positive));
}

// Calls `f` with each text of the row that it does not own, to be replaced by one that lives
// longer.
template <class F>
void for_each_text(Row& row, F&& f) {
  engine::ProbeName& name = row.name;
  for (std::string_view* const text : {&name.object, &name.function, &name.value, &name.condition,
                                       &name.sum, &name.key, &name.file, &name.build_id})
    f(*text);
  if (row.key) f(row.key->text);
}

// Returns the losses of all rows together.
inline layout::Losses losses_of(const std::vector<Row>& rows) {
  layout::Losses sum;
  for (const Row& row : rows)
    if (row.distribution) sum += row.distribution->losses;
  return sum;
}

// What was executed, with MeasurementSpec::once.
struct Coverage {
  size_t executed = 0;  // until the report
  size_t all = 0;
};

// The report of one process and one measure.
struct Report {
  ProcessName process;
  uint32_t measure = 0;  // its number in the selection
  std::string name;      // empty: it has none
  placement::Kind kind = placement::Kind::count;
  double seconds = 0;
  bool is_final = false;  // covers the whole time; otherwise an interval
  std::vector<Row> rows;
  uint64_t slots_to_ask_for = 0;  // 0 if no call was missed for lack of a slot
  size_t idle = 0;                // functions without a hit that have no row
  // If it is of coverage: then hits say only whether something was executed, and rows are in the
  // order of objects and addresses.
  std::optional<Coverage> coverage = {};
  std::optional<BudgetFigures> budget = {};  // of the whole time, in the first measure's report

  // Could a call of any row have been missed for lack of a slot?
  bool times_calls() const {
    return kind == placement::Kind::latency ||
           std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.name.at_return; });
  }
};

class ReportSink {
 public:
  virtual ~ReportSink() = default;

  // Are rows without a hit wanted if there are this many functions?
  virtual bool shows_idle(size_t functions) const = 0;
  virtual void report(const Report& report) = 0;
};

}  // namespace pinprick::session
