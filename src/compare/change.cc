#include "compare/change.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include "compare/judgement.h"
#include "compare/side.h"
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

class Comparer {
 public:
  Comparer(const std::vector<Run>& before, const std::vector<Run>& after,
           std::optional<double> least)
      : before_(before), after_(after) {
    result_.is_per_run = before_.is_of_programs() && after_.is_of_programs();
    if (result_.is_per_run)
      for (Side* side : {&before_, &after_}) side->set_per_run();
    result_.noise = kind_of_noise();
    result_.is_rate_known = before_.summary().exposure > 0 && after_.summary().exposure > 0;
    result_.have_different_bits =
        before_.bits() && after_.bits() && before_.bits() != after_.bits();
    bits_ = std::min(before_.bits().value_or(stats::kMaxFractionBits),
                     after_.bits().value_or(stats::kMaxFractionBits));
    result_.least = least.value_or(has_repeats() ? kLeastWithRepeats : kLeastWithoutRepeats);
    least_of_calls_ = least || has_repeats() ? result_.least : kRatesVaryMore * result_.least;
  }

  Comparison compare() {
    std::set<RowName> names;
    for (const Side* side : {&before_, &after_})
      for (const Run& run : side->runs())
        for (const auto& [name, row] : run.rows) names.insert(name);
    for (const RowName& name : names) result_.rows.push_back(change_of(name));
    const double least_of_tail = has_repeats() ? kLeastOfTail : kLeastOfTailWithoutRepeats;
    result_.shifts = judge(result_.rows, result_.noise,
                           {.calls = least_of_calls_,
                            .typical = result_.least,
                            .mean = std::max(result_.least, kLeastOfMean),
                            .tail = std::max(result_.least, least_of_tail)});
    sort();
    result_.before = before_.summary();
    result_.after = after_.summary();
    return std::move(result_);
  }

 private:
  bool has_repeats() const { return result_.noise != Noise::calls; }
  // Runs differ by more than the intervals of one run do, so they come first.
  Noise kind_of_noise() const {
    constexpr size_t kEnough = 4;
    const size_t runs = before_.runs().size() + after_.runs().size();
    const size_t intervals = before_.summary().intervals + after_.summary().intervals;
    if (runs >= kEnough) return Noise::runs;
    return intervals >= kEnough ? Noise::intervals : Noise::calls;
  }

  Change change_of(const RowName& name) const {
    Change change;
    change.name = name;
    change.before = before_.figures_of(name, bits_);
    change.after = after_.figures_of(name, bits_);
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
    if (has_repeats_of_amounts()) return by_spread_of_rates(change.name);
    return found(stats::compare(
        Events{static_cast<double>(change.before.figures.calls), before_.summary().exposure},
        Events{static_cast<double>(change.after.figures.calls), after_.summary().exposure}));
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

  std::optional<Finding> by_spread(const RowName& name, const FigureOf& figure) const {
    return by_spread(name, figure, 0, 0);
  }
  std::optional<Finding> by_spread_of_rates(const RowName& name) const {
    return by_spread(
        name, [](const Observation& one) { return one.calls_per_second; },
        before_.variance_of_regular_rates(result_.noise),
        after_.variance_of_regular_rates(result_.noise));
  }
  // The last two are added to the variances.
  std::optional<Finding> by_spread(const RowName& name, const FigureOf& figure, double of_before,
                                   double of_after) const {
    constexpr size_t kEnough = 4;
    const auto a = before_.observations_of(name, result_.noise, figure);
    const auto b = after_.observations_of(name, result_.noise, figure);
    if (a.values.size() + b.values.size() < kEnough) return std::nullopt;
    auto before = stats::estimate(a.values, a.order);
    auto after = stats::estimate(b.values, b.order);
    if (!before || !after) return std::nullopt;
    before->variance += of_before;
    after->variance += of_after;
    auto finding = found(stats::compare(*before, *after));
    if (finding && result_.noise == Noise::runs)
      finding->spread = stats::common_spread(*before, *after);
    return finding;
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
  unsigned bits_ = 0;
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

// A row that only one side has is a change if it was called there.
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
