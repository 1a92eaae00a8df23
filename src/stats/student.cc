#include "stats/student.h"

#include <algorithm>
#include <cmath>

namespace pinprick::stats {
namespace {

// From here on the normal distribution is as good, and the continued fraction is slow: it takes
// about as many steps as the root of its larger parameter.
constexpr double kNearlyNormal = 1e6;

double normal_above(double z) {
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method as
// Thompson and Barnett have modified it (J. Comput. Phys. 64, 1986). It converges fast for
// x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300, kPrecise = 1e-14;
  constexpr int kMostSteps = 10000;
  const auto not_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int i = 1; i < kMostSteps; ++i) {
    const double m = i;
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double step : {even, odd}) {
      d = 1 / not_zero(1 + step * d);
      c = not_zero(1 + step / c);
      factor = c * d;
      fraction *= factor;
    }
    if (std::abs(factor - 1) < kPrecise) break;
  }
  return fraction;
}

// The regularised incomplete beta function I_x(a, b), for a and b above 0 (DLMF 8.17.2). Where the
// fraction converges slowly, it is 1 - I_{1-x}(b, a) (DLMF 8.17.4).
double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a
                                   : 1 - front * beta_fraction(1 - x, b, a) / b;
}

}  // namespace

// DLMF 8.17.2 and Abramowitz and Stegun 26.7.1.
double two_sided_probability(double t, double degrees) {
  if (std::isnan(t) || !(degrees > 0)) return 1;
  if (degrees > kNearlyNormal) return 2 * normal_above(std::abs(t));
  if (std::isinf(t)) return 0;
  return std::clamp(incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5), 0.0, 1.0);
}

// The probability falls as t grows, so bisection finds it.
double two_sided_quantile(double p, double degrees) {
  constexpr int kBits = 60;
  double low = 0, high = 1;
  while (two_sided_probability(high, degrees) > p && high < 1e30) high *= 2;
  for (int i = 0; i < kBits; ++i) {
    const double middle = (low + high) / 2;
    (two_sided_probability(middle, degrees) > p ? low : high) = middle;
  }
  return high;
}

// Abramowitz and Stegun 26.5.24.
double binomial_at_least(double least, double trials, double success) {
  if (!(least > 0)) return 1;
  if (!(least <= trials)) return 0;
  if (trials > kNearlyNormal) {
    const double spread = std::sqrt(trials * success * (1 - success));
    return spread > 0 ? normal_above((least - 0.5 - trials * success) / spread) : 1;
  }
  return std::clamp(incomplete_beta(success, least, trials - least + 1), 0.0, 1.0);
}

}  // namespace pinprick::stats
