// Whether two measurements of one thing differ by more than noise.
//
// Pure. Figures may be any finite numbers, and samples may be empty: what cannot be compared is
// nullopt.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pinprick::stats {

// A mean, and how far it may be off.
struct Estimate {
  double mean = 0;
  double variance = 0;  // of one observation; not known if `degrees` is 0
  double count = 0;     // of independent observations
  double degrees = 0;   // of freedom of `variance`
};

// Were the observations made one after the other? Then each is like the one before it, and a
// number of them says less than as many independent ones.
enum class Order : bool { none, of_time };

// Returns the mean of the observations with their own spread. With Order::of_time, the number of
// independent observations is n (1 - r) / (1 + r), where r is the correlation of neighbours, if
// that is above 0 (Bayley and Hammersley, J. R. Stat. Soc. Suppl. 8, 1946).
std::optional<Estimate> estimate(std::span<const double> observations, Order order);

struct Difference {
  double before = 0, after = 0;
  double low = 0, high = 0;  // `after` minus `before` is between these with 95% confidence
  double p = 1;              // of a difference at least as large, if there is none

  // All are of `before`; if that is 0, so are they.
  double change() const { return of_before(after - before); }
  double least_change() const { return of_before(low); }
  double most_change() const { return of_before(high); }

 private:
  double of_before(double difference) const { return before == 0 ? 0 : difference / before; }
};

// Welch's t-test (Biometrika 34, 1947), which lets the two have different spreads. If one of them
// has a single observation, it is taken to spread as the other does (Crawford and Howell, Clin.
// Neuropsychol. 12, 1998). Returns nullopt if no spread is known.
std::optional<Difference> compare(const Estimate& before, const Estimate& after);

// Compares two numbers of independent events, by the binomial distribution that one of them has if
// their sum is known (Przyborowski and Wilenski, Biometrika 31, 1940). `exposure` is the time, or
// the number of chances, that each had. The result is events per exposure. Returns nullopt if there
// is no event, or no exposure.
struct Events {
  double count = 0, exposure = 0;
};
std::optional<Difference> compare(const Events& before, const Events& after);

// Returns which of the hypotheses with these p are rejected if at most the fraction `rate` of the
// rejected ones may be true ones (Benjamini and Hochberg, J. R. Stat. Soc. B 57, 1995). If all are
// true, this is the probability that any is rejected.
std::vector<bool> discoveries(std::span<const double> p, double rate);

}  // namespace pinprick::stats
