// All runs before the change, or all after it.
//
// Pure.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compare/change.h"
#include "compare/run.h"
#include "stats/comparison.h"

namespace pinprick::compare {

// A figure of one run or one interval; nullopt if that does not have it.
using FigureOf = std::function<std::optional<double>(const Observation&)>;

class Side {
 public:
  // The runs, of which there is at least one, must outlive this.
  explicit Side(const std::vector<Run>& runs);

  const SideSummary& summary() const { return summary_; }
  const std::vector<Run>& runs() const { return runs_; }
  // The fewest fraction bits of its histograms; nullopt if it has none.
  std::optional<unsigned> bits() const { return bits_; }
  // Are they all of programs from start to end?
  bool is_of_programs() const;
  // Figures are per run from now on; without this, per second.
  void set_per_run() { summary_.exposure = static_cast<double>(runs_.size()); }

  // Histograms have at most `bits` fraction bits.
  SideFigures figures_of(const RowName& name, unsigned bits) const;

  struct Observations {
    std::vector<double> values;
    stats::Order order = stats::Order::none;
  };
  // One value for each run, or for each interval if the noise is that of intervals. A run without
  // intervals is one of them then.
  Observations observations_of(const RowName& name, Noise noise, const FigureOf& figure) const;
  // How far rates spread although what is counted happens at fixed times, such as ten times a
  // second: it happens once more in some intervals than in others.
  double variance_of_regular_rates(Noise noise) const;

 private:
  const std::vector<Run>& runs_;
  SideSummary summary_;
  std::optional<unsigned> bits_;
};

}  // namespace pinprick::compare
