#include "samples.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace pinprick::bench {

double median(std::vector<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double mean(const std::vector<double>& values) {
  assert(!values.empty());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// The number of values below the true median is binomial with p = 1/2: mean n / 2, standard
// deviation sqrt(n) / 2. 95% of it lies within 1.96 standard deviations. The half corrects for that
// it is an integer.
Estimate estimate(std::vector<double> values) {
  assert(!values.empty());
  constexpr double kDeviations = 1.96;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const double below = (count - kDeviations * std::sqrt(count)) / 2 - 0.5;
  const size_t skipped = below > 0 ? static_cast<size_t>(below) : 0;
  return {values[skipped], median(values), values[values.size() - 1 - skipped]};
}

std::vector<double> Samples::differences() const {
  std::vector<double> all = with;
  for (size_t i = 0; i < std::min(base.size(), all.size()); ++i) all[i] -= base[i];
  return all;
}

bool scatters(const Estimate& added, double base, double least) {
  constexpr double kPartOfBase = 0.02;
  return added.high - added.low > std::max({std::fabs(added.middle), kPartOfBase * base, least});
}

}  // namespace pinprick::bench
