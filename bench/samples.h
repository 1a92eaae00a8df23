// Samples of two things that took turns, and how well these tell the two apart. Pure.
#pragma once

#include <vector>

namespace pinprick::bench {

double median(std::vector<double> values);
double mean(const std::vector<double>& values);
// Of a sample; 0 if there is only one value.
double standard_deviation(const std::vector<double>& values);

// A median, and where it would be found again: with other samples of the same thing, it lies
// between `low` and `high` in some 95 of 100 cases.
struct Estimate {
  double low = 0, middle = 0, high = 0;
};

// `values` must not be empty. The interval goes from one of the ordered values to another one, by
// the binomial distribution of how many lie below the true median; so it holds whatever the values'
// distribution. With five values or fewer it goes from the least to the greatest.
Estimate estimate(std::vector<double> values);

// Values of one round after the other. In each, the base was measured, and what is compared with
// it. Without a base, `base` is empty.
struct Samples {
  std::vector<double> base, with;

  // Returns what the one adds to the other, round by round.
  std::vector<double> differences() const;
};

// Returns whether a figure of these would say more than is known: the interval is wider than the
// median itself, and than 2% of the base. `least` is what does not matter in any case.
bool scatters(const Estimate& added, double base, double least);

}  // namespace pinprick::bench
