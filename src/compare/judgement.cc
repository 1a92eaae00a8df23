#include "compare/judgement.h"

#include <algorithm>
#include <cmath>

#include "stats/student.h"

namespace pinprick::compare {
namespace {

using stats::Difference;

// At most this share of what is told may be noise; if nothing has changed, it is the probability
// that anything is told.
constexpr double kFalseDiscoveries = 0.01;

// With fewer rows, they do not tell how far one run is from another; then it is taken to be this.
constexpr size_t kEnoughRows = 6;
constexpr double kUsualDistance = 0.04;

// A difference on a scale on which twice as much is as far as half as much.
struct LogRatio {
  double value = 0, error = 0;
};

std::optional<LogRatio> log_ratio(const Difference& difference) {
  constexpr double kReach = 1.96;  // of the interval, in standard errors
  if (!(difference.before > 0) || !(difference.after > 0)) return std::nullopt;
  const double error = (difference.high - difference.low) / 2 / kReach;
  return LogRatio{std::log(difference.after / difference.before), error / difference.after};
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// How far rows that are the same are from each other in two runs.
struct Distances {
  double center = 0, spread = kUsualDistance;
  size_t rows = 0;  // from which they come; 0: they are taken for granted
};

// The spread is that of the middle half, as if it were normal: the others may have changed. What
// the errors of the ratios explain of it is not taken twice.
// Ratios with larger errors than `precise` do not count.
Distances distances_of(const std::vector<const Difference*>& differences, double precise) {
  constexpr double kOfNormal = 1.4826;
  std::vector<double> ratios, errors;
  for (const Difference* difference : differences)
    if (const auto ratio = log_ratio(*difference); ratio && ratio->error <= precise) {
      ratios.push_back(ratio->value);
      errors.push_back(ratio->error);
    }
  if (ratios.size() < kEnoughRows) return {};
  Distances result;
  result.rows = ratios.size();
  result.center = median(ratios);
  for (double& ratio : ratios) ratio = std::abs(ratio - result.center);
  const double spread = kOfNormal * median(ratios), error = median(errors);
  result.spread = std::sqrt(std::max(0.0, spread * spread - error * error));
  return result;
}

// Makes the interval and the probability of a difference those of a ratio that is `error` off, of
// rows that have all moved by `center`.
void set_doubt(Difference& difference, double center, double error, double degrees) {
  constexpr double kDoubt = 0.05, kAnything = 20;
  const double value = std::log(difference.after / difference.before);
  const double reach = std::min(kAnything, error * stats::two_sided_quantile(kDoubt, degrees));
  difference.low = difference.before * (std::exp(value - reach) - 1);
  difference.high = difference.before * (std::exp(value + reach) - 1);
  const double from_center = value - center;
  difference.p = error > 0          ? stats::two_sided_probability(from_center / error, degrees)
                 : from_center == 0 ? 1
                                    : 0;
}

// Only the spread is estimated from few numbers (Satterthwaite, Biometrics Bulletin 2, 1946).
void add_distance(Difference& difference, const Distances& distances) {
  const auto ratio = log_ratio(difference);
  if (!ratio) return;
  const double error = std::hypot(ratio->error, distances.spread);
  const double share = error > 0 ? distances.spread / error : 0;
  const double degrees = distances.rows == 0 || share == 0
                             ? INFINITY
                             : (static_cast<double>(distances.rows) - 1) / std::pow(share, 4);
  const double by_itself = difference.p;
  set_doubt(difference, distances.center, error, degrees);
  difference.p = std::max(difference.p, by_itself);
}

bool is_large(const Finding& finding, const Least& least) {
  const Difference& difference = finding.difference;
  if (difference.before == 0) return difference.after != 0;
  const double smallest = finding.figure == Figure::typical ? least.typical
                          : finding.figure == Figure::mean  ? least.mean
                          : finding.figure == Figure::tail  ? least.tail
                                                            : least.calls;
  return std::abs(difference.change()) >= smallest;
}

// All findings that may have moved together.
struct Family {
  Kind kind;
  Figure figure;
  std::vector<Finding*> findings;
};

std::vector<Family> families_of(std::vector<Change>& rows) {
  std::vector<Family> families;
  for (Change& row : rows)
    for (Finding& finding : row.findings) {
      const auto found = std::find_if(families.begin(), families.end(), [&](const Family& family) {
        return family.kind == row.name.kind && family.figure == finding.figure;
      });
      if (found != families.end())
        found->findings.push_back(&finding);
      else
        families.push_back({row.name.kind, finding.figure, {&finding}});
    }
  return families;
}

// Values that were recorded do not depend on the machine's speed, and numbers of calls of few rows
// on no usual distance.
Distances distances_of(const Family& family) {
  constexpr double kPrecise = 0.05, kPreciseTail = 0.2;
  std::vector<const Difference*> differences;
  for (const Finding* finding : family.findings) differences.push_back(&finding->difference);
  Distances distances = distances_of(
      differences,
      family.figure == Figure::tail || family.figure == Figure::mean ? kPreciseTail : kPrecise);
  const bool is_time = family.kind == Kind::latency && family.figure != Figure::calls;
  if (distances.rows == 0 && !is_time) distances.spread = 0;
  return distances;
}

// Three runs say little of their spread, so that of all rows is taken as well. What was exactly the
// same in all runs of both sides has none, and needs none.
void judge_by_runs(Family& family) {
  std::vector<stats::RelativeSpread> spreads;
  for (const Finding* finding : family.findings)
    if (finding->spread) spreads.push_back(*finding->spread);
  const stats::UsualSpread usual = stats::usual_spread(spreads);
  for (Finding* finding : family.findings) {
    if (!finding->spread || finding->spread->variance == 0) continue;
    const stats::RelativeSpread spread = stats::moderated(*finding->spread, usual);
    set_doubt(finding->difference, 0, std::sqrt(spread.variance * spread.per_mean), spread.degrees);
  }
}

std::optional<Shift> judge_by_rows(Family& family, double least) {
  const Distances distances = distances_of(family);
  for (Finding* finding : family.findings) add_distance(finding->difference, distances);
  const double together = std::exp(distances.center) - 1;
  if (std::abs(together) < least) return std::nullopt;
  return Shift{family.kind, family.figure, together, distances.rows};
}

}  // namespace

std::vector<Shift> judge(std::vector<Change>& rows, Noise noise, const Least& least) {
  std::vector<Shift> shifts;
  std::vector<Finding*> all;
  std::vector<double> p;
  std::vector<Family> families = families_of(rows);
  for (Family& family : families) {
    if (noise == Noise::runs)
      judge_by_runs(family);
    else if (const auto shift = judge_by_rows(family, least.typical))
      shifts.push_back(*shift);
    for (Finding* finding : family.findings) {
      all.push_back(finding);
      p.push_back(finding->difference.p);
    }
  }
  const std::vector<bool> are_discoveries = stats::discoveries(p, kFalseDiscoveries);
  for (size_t i = 0; i < all.size(); ++i)
    all[i]->is_change = are_discoveries[i] && is_large(*all[i], least);
  return shifts;
}

}  // namespace pinprick::compare
