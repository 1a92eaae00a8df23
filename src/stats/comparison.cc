#include "stats/comparison.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/student.h"

namespace pinprick::stats {
namespace {

constexpr double kDoubt = 0.05;  // of confidence intervals

// Returns the correlation of neighbours, if it is above 0. With fewer observations it is chance.
double correlation_of_neighbours(std::span<const double> observations, double mean,
                                 double squares) {
  constexpr size_t kFew = 8;
  if (observations.size() < kFew || squares <= 0) return 0;
  double products = 0;
  for (size_t i = 1; i < observations.size(); ++i)
    products += (observations[i] - mean) * (observations[i - 1] - mean);
  return std::max(0.0, products / squares);
}

double squared_error(const Estimate& of) {
  return of.variance / of.count;
}

Difference with_interval(const Estimate& before, const Estimate& after, double error,
                         double degrees) {
  const double difference = after.mean - before.mean;
  Difference result = {before.mean, after.mean, difference, difference, 1};
  if (error > 0) {
    const double reach = error * two_sided_quantile(kDoubt, degrees);
    result.low -= reach;
    result.high += reach;
    result.p = two_sided_probability(difference / error, degrees);
  } else {
    result.p = difference == 0 ? 1 : 0;
  }
  return result;
}

// Satterthwaite, Biometrics Bulletin 2, 1946.
double degrees_of_sum(const Estimate& a, const Estimate& b) {
  const double of_a = squared_error(a), of_b = squared_error(b);
  const double sum = of_a + of_b;
  return sum == 0 ? a.degrees + b.degrees
                  : sum * sum / (of_a * of_a / a.degrees + of_b * of_b / b.degrees);
}

}  // namespace

std::optional<Estimate> estimate(std::span<const double> observations, Order order) {
  if (observations.empty()) return std::nullopt;
  const auto count = static_cast<double>(observations.size());
  const double mean = std::accumulate(observations.begin(), observations.end(), 0.0) / count;
  if (observations.size() == 1) return Estimate{mean, 0, 1, 0};
  double squares = 0;
  for (const double one : observations) squares += (one - mean) * (one - mean);
  const double r =
      order == Order::of_time ? correlation_of_neighbours(observations, mean, squares) : 0;
  const double independent = std::max(2.0, count * (1 - r) / (1 + r));
  return Estimate{mean, squares / (count - 1), independent, independent - 1};
}

std::optional<Difference> compare(const Estimate& before, const Estimate& after) {
  if (before.degrees > 0 && after.degrees > 0)
    return with_interval(before, after, std::sqrt(squared_error(before) + squared_error(after)),
                         degrees_of_sum(before, after));
  const Estimate& known = before.degrees > 0 ? before : after;
  if (!(known.degrees > 0)) return std::nullopt;
  return with_interval(before, after, std::sqrt(known.variance * (1 + 1 / known.count)),
                       known.degrees);
}

std::optional<Difference> compare(const Events& before, const Events& after) {
  const double all = before.count + after.count, exposure = before.exposure + after.exposure;
  if (!(all > 0) || !(before.exposure > 0) || !(after.exposure > 0)) return std::nullopt;
  const double share = after.exposure / exposure;
  const double at_least = binomial_at_least(after.count, all, share);
  const double at_most = binomial_at_least(before.count, all, 1 - share);
  Difference result;
  result.before = before.count / before.exposure;
  result.after = after.count / after.exposure;
  const double error = std::sqrt(before.count / before.exposure / before.exposure +
                                 after.count / after.exposure / after.exposure);
  const double reach = error * two_sided_quantile(kDoubt, INFINITY);
  result.low = result.after - result.before - reach;
  result.high = result.after - result.before + reach;
  result.p = std::min(1.0, 2 * std::min(at_least, at_most));
  return result;
}

std::vector<bool> discoveries(std::span<const double> p, double rate) {
  std::vector<double> sorted(p.begin(), p.end());
  std::sort(sorted.begin(), sorted.end());
  double largest = -1;
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] <= rate * static_cast<double>(i + 1) / static_cast<double>(sorted.size()))
      largest = sorted[i];
  std::vector<bool> rejected;
  for (const double one : p) rejected.push_back(one <= largest);
  return rejected;
}

}  // namespace pinprick::stats
