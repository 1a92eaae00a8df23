#include "stats/moderation.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace pinprick::stats {
namespace {

// The logarithmic derivative of the gamma function for x > 0, and the derivative of that: by their
// recurrences up to 10, and from there on by their series (DLMF 5.5.2, 5.11.2, 5.15.8).
double digamma(double x) {
  double value = 0;
  while (x < 10) {
    value -= 1 / x;
    x += 1;
  }
  const double y = 1 / (x * x);
  return value + std::log(x) - 0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y / 252));
}

double trigamma(double x) {
  double value = 0;
  while (x < 10) {
    value += 1 / (x * x);
    x += 1;
  }
  const double y = 1 / (x * x);
  return value + 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y / 42));
}

// trigamma() falls, so bisection of the logarithm finds where it has this value.
double inverse_trigamma(double value) {
  double low = std::log(1e-3), high = std::log(1e8);
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (trigamma(std::exp(middle)) > value ? low : high) = middle;
  }
  return std::exp(high);
}

}  // namespace

std::optional<RelativeSpread> common_spread(const Estimate& before, const Estimate& after) {
  if (!(before.mean > 0) || !(after.mean > 0)) return std::nullopt;
  RelativeSpread spread;
  for (const Estimate* of : {&before, &after}) {
    spread.variance += of->degrees * of->variance / (of->mean * of->mean);
    spread.degrees += of->degrees;
    spread.per_mean += 1 / of->count;
  }
  if (!(spread.degrees > 0)) return std::nullopt;
  spread.variance /= spread.degrees;
  return spread;
}

// Smyth's section 6.2: the logarithm of each variance has a known distribution around the usual
// one.
UsualSpread usual_spread(std::span<const RelativeSpread> spreads) {
  constexpr size_t kFew = 3;
  std::vector<double> e;
  double chance = 0;
  for (const RelativeSpread& spread : spreads) {
    if (!(spread.variance > 0) || !(spread.degrees > 0)) continue;
    const double half = spread.degrees / 2;
    e.push_back(std::log(spread.variance) - digamma(half) + std::log(half));
    chance += trigamma(half);
  }
  if (e.size() < kFew) return {};
  const auto count = static_cast<double>(e.size());
  double mean = 0, squares = 0;
  for (const double one : e) mean += one / count;
  for (const double one : e) squares += (one - mean) * (one - mean);
  const double more_than_chance = squares / (count - 1) - chance / count;
  if (more_than_chance <= 0) return {std::exp(mean), INFINITY};
  const double half = inverse_trigamma(more_than_chance);
  return {std::exp(mean + digamma(half) - std::log(half)), 2 * half};
}

RelativeSpread moderated(const RelativeSpread& spread, const UsualSpread& usual) {
  RelativeSpread result = spread;
  result.degrees += usual.degrees;
  result.variance =
      std::isinf(usual.degrees)
          ? usual.variance
          : (spread.degrees * spread.variance + usual.degrees * usual.variance) / result.degrees;
  return result;
}

}  // namespace pinprick::stats
