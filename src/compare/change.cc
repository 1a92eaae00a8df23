#include "compare/change.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include "compare/judgement.h"
#include "stats/typical.h"

namespace pinprick::compare {
namespace {

using stats::Difference;
using stats::Events;

constexpr double kLeastWithRepeats = 0.03;
constexpr double kLeastWithoutRepeats = 0.1;
// Numbers of calls depend on who calls: without repeats, nothing says how much they vary.
constexpr double kRatesVaryMore = 2;
constexpr double kLeastOfMean = 0.1;
// A p99 is known within a slot, which is an eighth of it with the usual bits.
constexpr double kLeastOfTail = 0.2;
constexpr double kLeastOfTailWithoutRepeats = 0.5;

// By which the number of calls in an interval is off, if they come at fixed times.
constexpr double kHalfACall = 0.5;

// The observations of one figure, of one side.
struct Observations {
  std::vector<double> values;
  stats::Order order = stats::Order::none;
};

struct Side {
  const std::vector<Run>& runs;
  SideSummary summary;
  unsigned bits = stats::kMaxFractionBits;
};

SideSummary summary_of(const std::vector<Run>& runs) {
  SideSummary summary;
  for (const Run& run : runs) {
    summary.paths.push_back(run.path);
    if (summary.command.empty()) summary.command = run.command;
    summary.seconds += run.seconds;
    summary.intervals += run.compared_intervals();
    summary.losses += run.losses;
    summary.partial_rows += run.partial_rows;
  }
  return summary;
}

unsigned bits_of(const std::vector<Run>& runs) {
  unsigned bits = stats::kMaxFractionBits;
  for (const Run& run : runs)
    for (const auto& [name, row] : run.rows)
      if (!row.histogram.cells().empty()) bits = std::min(bits, row.histogram.bits());
  return bits;
}

class Comparer {
 public:
  Comparer(const std::vector<Run>& before, const std::vector<Run>& after,
           std::optional<double> least)
      : before_{before, summary_of(before), bits_of(before)},
        after_{after, summary_of(after), bits_of(after)} {
    result_.is_per_run = is_per_run();
    result_.noise = kind_of_noise();
    result_.is_rate_known =
        result_.is_per_run || (before_.summary.seconds > 0 && after_.summary.seconds > 0);
    for (Side* side : {&before_, &after_})
      side->summary.exposure =
          result_.is_per_run ? static_cast<double>(side->runs.size()) : side->summary.seconds;
    result_.have_different_bits =
        has_histograms(before_) && has_histograms(after_) && before_.bits != after_.bits;
    result_.least = least.value_or(has_repeats() ? kLeastWithRepeats : kLeastWithoutRepeats);
    least_of_calls_ = least || has_repeats() ? result_.least : kRatesVaryMore * result_.least;
  }

  Comparison compare() {
    std::set<RowName> names;
    for (const Side* side : {&before_, &after_})
      for (const Run& run : side->runs)
        for (const auto& [name, row] : run.rows) names.insert(name);
    for (const RowName& name : names) result_.rows.push_back(change_of(name));
    const double least_of_tail = has_repeats() ? kLeastOfTail : kLeastOfTailWithoutRepeats;
    result_.shifts = judge(result_.rows, result_.noise,
                           {.calls = least_of_calls_,
                            .typical = result_.least,
                            .mean = std::max(result_.least, kLeastOfMean),
                            .tail = std::max(result_.least, least_of_tail)});
    sort();
    result_.before = std::move(before_.summary);
    result_.after = std::move(after_.summary);
    return std::move(result_);
  }

 private:
  bool has_repeats() const { return result_.noise != Noise::calls; }
  static bool has_histograms(const Side& side) {
    for (const Run& run : side.runs)
      for (const auto& [name, row] : run.rows)
        if (!row.histogram.cells().empty()) return true;
    return false;
  }

  // If all of them are programs from start to end, their speed is not how often they do a thing.
  bool is_per_run() const {
    const auto is_program = [](const Run& run) { return run.is_program; };
    return std::all_of(before_.runs.begin(), before_.runs.end(), is_program) &&
           std::all_of(after_.runs.begin(), after_.runs.end(), is_program);
  }

  // Runs differ by more than the intervals of one run do, so they come first.
  Noise kind_of_noise() const {
    constexpr size_t kEnough = 4;
    const size_t runs = before_.runs.size() + after_.runs.size();
    const size_t intervals = before_.summary.intervals + after_.summary.intervals;
    if (runs >= kEnough) return Noise::runs;
    return intervals >= kEnough ? Noise::intervals : Noise::calls;
  }

  SideFigures figures_of(const Side& side, const RowName& name) const {
    SideFigures result;
    for (const Run& run : side.runs) {
      if (run.skipped.contains({name.object, name.function})) result.is_skipped = true;
      const auto found = run.rows.find(name);
      if (found == run.rows.end()) continue;
      result.is_probed = true;
      result.figures.add(found->second);
    }
    RowFigures& figures = result.figures;
    const unsigned bits = std::min(before_.bits, after_.bits);
    if (figures.histogram.bits() > bits && !figures.histogram.cells().empty())
      figures.histogram = stats::coarser(figures.histogram, bits);
    if (side.summary.exposure > 0) {
      result.per_exposure = static_cast<double>(figures.calls) / side.summary.exposure;
      result.sum_per_exposure = figures.sum / side.summary.exposure;
      result.total_per_exposure = figures.total / side.summary.exposure;
    }
    if (figures.histogram.count() == 0) return result;
    result.mean = figures.total / static_cast<double>(figures.histogram.count());
    result.typical = observation_of(figures, side.summary.seconds).typical;
    result.p50 = quantile(figures, 0.5);
    result.p90 = quantile(figures, 0.9);
    result.p99 = quantile(figures, 0.99);
    return result;
  }

  Change change_of(const RowName& name) const {
    Change change;
    change.name = name;
    change.before = figures_of(before_, name);
    change.after = figures_of(after_, name);
    // A row with a key is there if it was hit, so it says nothing of what is probed.
    if (name.by.empty() && !change.before.is_probed) change.presence = Presence::appeared;
    if (name.by.empty() && !change.after.is_probed) change.presence = Presence::disappeared;
    if (change.presence == Presence::both) change.findings = findings_of(change);
    change.weight = weight_of(change);
    return change;
  }

  static double weight_of(const Change& change) {
    const auto moved = [&](double SideFigures::*figure) {
      return std::abs(change.after.*figure - change.before.*figure);
    };
    if (!change.name.sum.empty()) return moved(&SideFigures::sum_per_exposure);
    if (change.name.kind == Kind::latency) return moved(&SideFigures::total_per_exposure);
    return moved(&SideFigures::per_exposure);
  }

  std::vector<Finding> findings_of(const Change& change) const {
    std::vector<Finding> findings;
    const auto add = [&](Figure figure, const std::optional<Finding>& finding) {
      if (!finding || (finding->difference.before == 0 && finding->difference.after == 0)) return;
      findings.push_back(*finding);
      findings.back().figure = figure;
    };
    add(Figure::calls, difference_of_calls(change));
    if (!change.name.sum.empty()) add(Figure::sum, difference_of_sums(change));
    if (change.name.kind == Kind::count) return findings;
    add(Figure::typical, difference_of_typical(change));
    // The slowest calls decide on the mean, so its spread is known only by repeats.
    if (has_repeats())
      add(Figure::mean, by_spread(change.name, [](const Observation& one) { return one.mean; }));
    if (!result_.have_different_bits) add(Figure::tail, difference_of_tails(change));
    return findings;
  }

  static std::optional<Finding> found(const std::optional<Difference>& difference) {
    if (!difference) return std::nullopt;
    Finding finding;
    finding.difference = *difference;
    return finding;
  }

  std::optional<Finding> difference_of_calls(const Change& change) const {
    if (!result_.is_rate_known) return std::nullopt;
    if (has_repeats_of_amounts() && result_.is_per_run)
      return by_spread(change.name, [](const Observation& one) { return one.calls; });
    if (has_repeats_of_amounts())
      return by_spread(
          change.name, [](const Observation& one) { return one.calls_per_second; }, kHalfACall);
    return found(stats::compare(
        Events{static_cast<double>(change.before.figures.calls), before_.summary.exposure},
        Events{static_cast<double>(change.after.figures.calls), after_.summary.exposure}));
  }

  // Nothing says how much single values of what was added up spread.
  std::optional<Finding> difference_of_sums(const Change& change) const {
    if (!result_.is_rate_known || !has_repeats_of_amounts()) return std::nullopt;
    return by_spread(change.name, [this](const Observation& one) {
      return result_.is_per_run ? one.sum_per_second * one.seconds : one.sum_per_second;
    });
  }

  // The intervals of a program from its start to its end are parts of it, and not repeats.
  bool has_repeats_of_amounts() const {
    return result_.is_per_run ? result_.noise == Noise::runs : has_repeats();
  }

  std::optional<Finding> difference_of_typical(const Change& change) const {
    if (has_repeats())
      return by_spread(change.name, [](const Observation& one) { return one.typical; });
    const auto a = stats::typical(change.before.figures.histogram);
    const auto b = stats::typical(change.after.figures.histogram);
    return a && b ? found(stats::compare(*a, *b)) : std::nullopt;
  }

  // Without repeats: how many calls are in or above the slot where the p99 of both together is.
  std::optional<Finding> difference_of_tails(const Change& change) const {
    if (has_repeats())
      return by_spread(change.name, [](const Observation& one) { return one.p99; });
    const auto p99 = [&](const SideFigures& side) { return observation_of(side.figures, 0).p99; };
    const auto a = p99(change.before), b = p99(change.after);
    if (!a || !b) return std::nullopt;
    const stats::Histogram &of_a = change.before.figures.histogram,
                           &of_b = change.after.figures.histogram;
    stats::Histogram both = of_a;
    both.merge(of_b);
    const uint32_t slot = stats::slot_of(both.quantile(0.99), both.bits());
    const auto beyond = [&](const stats::Histogram& of) {
      return Events{stats::count_from(of, slot), static_cast<double>(of.count())};
    };
    const auto difference = stats::compare(beyond(of_a), beyond(of_b));
    if (!difference) return std::nullopt;
    return found(Difference{*a, *b, *b - *a, *b - *a, difference->p});
  }

  template <class F>
  std::optional<Finding> by_spread(const RowName& name, F&& figure, double step = 0) const {
    const Observations a = observations_of(before_, name, figure);
    const Observations b = observations_of(after_, name, figure);
    constexpr size_t kEnough = 4;
    if (a.values.size() + b.values.size() < kEnough) return std::nullopt;
    auto before = stats::estimate(a.values, a.order);
    auto after = stats::estimate(b.values, b.order);
    if (!before || !after) return std::nullopt;
    before->variance += variance_of_steps(before_, step);
    after->variance += variance_of_steps(after_, step);
    auto finding = found(stats::compare(*before, *after));
    if (finding && result_.noise == Noise::runs)
      finding->spread = stats::common_spread(*before, *after);
    return finding;
  }

  // What happens at fixed times, such as ten times a second, happens once more in some intervals
  // than in others, and so does what happens as often in all of them.
  static double variance_of_steps(const Side& side, double step) {
    const size_t observations = std::max(side.summary.intervals, side.runs.size());
    if (side.summary.seconds <= 0) return 0;
    const double of_one = step * static_cast<double>(observations) / side.summary.seconds;
    return of_one * of_one;
  }

  // One value for each run, or for each interval if the noise is that of intervals. A run without
  // intervals is one of them.
  template <class F>
  Observations observations_of(const Side& side, const RowName& name, F&& figure) const {
    Observations result;
    const auto add = [&](const Observation& one) {
      const std::optional<double> value = figure(one);
      if (value) result.values.push_back(*value);
    };
    static const RowFigures kNone;
    for (const Run& run : side.runs) {
      const auto found = run.rows.find(name);
      const RowFigures& row = found == run.rows.end() ? kNone : found->second;
      const size_t rounds = run.compared_intervals();
      if (result_.noise == Noise::runs || rounds == 0) {
        add(observation_of(row, run.seconds));
        continue;
      }
      if (side.runs.size() == 1) result.order = stats::Order::of_time;
      auto next = row.intervals.begin();
      for (size_t round = 0; round < rounds; ++round)
        add(next != row.intervals.end() && next->round == round ? *next++
                                                                : observation_of(kNone, 0));
    }
    return result;
  }

  void sort() {
    const auto group = [](const Change& change) {
      return std::tuple(change.name.measure, change.name.kind);
    };
    std::stable_sort(result_.rows.begin(), result_.rows.end(),
                     [&](const Change& a, const Change& b) {
                       if (group(a) != group(b)) return group(a) < group(b);
                       if (a.is_change() != b.is_change()) return a.is_change();
                       return a.weight > b.weight;
                     });
  }

  Side before_, after_;
  double least_of_calls_ = 0;
  Comparison result_;
};

}  // namespace

const char* name(Figure figure) {
  switch (figure) {
    case Figure::calls:
      return "calls";
    case Figure::sum:
      return "sum";
    case Figure::typical:
      return "typical";
    case Figure::mean:
      return "mean";
    case Figure::tail:
      return "p99";
  }
  return "?";
}

// What is there on one side alone is a change if it was called.
bool Change::is_change() const {
  if (presence != Presence::both) return before.figures.calls + after.figures.calls != 0;
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.is_change; });
}

Comparison compare(const std::vector<Run>& before, const std::vector<Run>& after,
                   std::optional<double> least) {
  return Comparer(before, after, least).compare();
}

bool are_comparable(const std::vector<Run>& before, const std::vector<Run>& after) {
  const auto kinds = [](const std::vector<Run>& runs) {
    std::set<Kind> all;
    for (const Run& run : runs)
      for (const auto& [name, row] : run.rows) all.insert(name.kind);
    return all;
  };
  const auto a = kinds(before), b = kinds(after);
  return std::any_of(a.begin(), a.end(), [&](Kind kind) { return b.contains(kind); });
}

}  // namespace pinprick::compare
