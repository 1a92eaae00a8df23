#include "compare/side.h"

#include <algorithm>

#include "stats/typical.h"

namespace pinprick::compare {

Side::Side(const std::vector<Run>& runs) : runs_(runs) {
  for (const Run& run : runs) {
    summary_.paths.push_back(run.path);
    if (summary_.command.empty()) summary_.command = run.command;
    summary_.seconds += run.seconds;
    summary_.intervals += run.compared_intervals();
    summary_.losses += run.losses;
    summary_.partial_rows += run.partial_rows;
    for (const auto& [name, row] : run.rows)
      if (!row.histogram.cells().empty())
        bits_ = std::min(bits_.value_or(stats::kMaxFractionBits), row.histogram.bits());
  }
  summary_.exposure = summary_.seconds;
}

bool Side::is_of_programs() const {
  return std::all_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.is_program; });
}

SideFigures Side::figures_of(const RowName& name, unsigned bits) const {
  SideFigures result;
  for (const Run& run : runs_) {
    if (run.skipped.contains({name.object, name.function})) result.is_skipped = true;
    const auto found = run.rows.find(name);
    if (found == run.rows.end()) continue;
    result.is_probed = true;
    result.figures.add(found->second);
  }
  RowFigures& figures = result.figures;
  if (figures.histogram.bits() > bits && !figures.histogram.cells().empty())
    figures.histogram = stats::coarser(figures.histogram, bits);
  if (summary_.exposure > 0) {
    result.per_exposure = static_cast<double>(figures.calls) / summary_.exposure;
    result.sum_per_exposure = figures.sum / summary_.exposure;
    result.total_per_exposure = figures.total / summary_.exposure;
  }
  const Observation whole = observation_of(figures, summary_.seconds);
  result.mean = whole.mean;
  result.typical = whole.typical;
  result.p50 = quantile(figures, 0.5);
  result.p90 = quantile(figures, 0.9);
  result.p99 = quantile(figures, 0.99);
  return result;
}

Side::Observations Side::observations_of(const RowName& name, Noise noise,
                                         const FigureOf& figure) const {
  static const RowFigures kNone;
  Observations result;
  const auto add = [&](const Observation& one) {
    if (const auto value = figure(one)) result.values.push_back(*value);
  };
  for (const Run& run : runs_) {
    const auto found = run.rows.find(name);
    const RowFigures& row = found == run.rows.end() ? kNone : found->second;
    const size_t rounds = run.compared_intervals();
    if (noise == Noise::runs || rounds == 0) {
      add(observation_of(row, run.seconds));
      continue;
    }
    result.order = stats::Order::of_time;
    auto next = row.intervals.begin();
    for (size_t round = 0; round < rounds; ++round)
      add(next != row.intervals.end() && next->round == round ? *next++ : Observation());
  }
  return result;
}

// The number of calls in a time is off by half a call.
double Side::variance_of_regular_rates(Noise noise) const {
  constexpr double kHalfACall = 0.5;
  const size_t intervals = noise == Noise::runs ? 0 : summary_.intervals;
  const auto observations = static_cast<double>(std::max(intervals, runs_.size()));
  if (summary_.seconds <= 0) return 0;
  const double of_one = kHalfACall * observations / summary_.seconds;
  return of_one * of_one;
}

}  // namespace pinprick::compare
