// The typical value of a histogram: the mean of the middle values, which the few largest ones do
// not move. Pure.
#pragma once

#include <optional>

#include "stats/comparison.h"
#include "stats/histogram.h"

namespace pinprick::stats {

// The fraction of the values that is left out at each end.
inline constexpr double kTrimmed = 0.05;

// Returns the trimmed mean, with the spread of single values from which it comes (Yuen, Biometrika
// 61, 1974). Within a slot the values may spread as much as its average allows (Bhatia and Davis,
// Am. Math. Mon. 107, 2000). Returns nullopt if there are fewer than two values.
std::optional<Estimate> typical(const Histogram& histogram);

// Returns the same values in 2^bits slots for each power of two; `bits` is at most what it has.
Histogram coarser(const Histogram& histogram, unsigned bits);

// Returns how many values are in this slot or above.
double count_from(const Histogram& histogram, uint32_t slot);

}  // namespace pinprick::stats
