// The least and the greatest of some numbers, as hits keep them. Pure; plain values.
//
// A number is mapped to a word without a sign that has the same order. `high` is the largest such
// word, and `low` the largest complement of one, so that both only grow, and memory full of zeros
// stands for no number: no number makes both 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "layout/runtime_offsets.h"

namespace pinprick::layout {

// How numbers of 64 bits are ordered.
enum class NumberOrder : uint8_t {
  without_sign = PP_ORDER_WITHOUT_SIGN,
  with_sign = PP_ORDER_WITH_SIGN,
  real = PP_ORDER_REAL,  // floating-point numbers; NaN is none of them
};

// Adds two sums, or takes one from the other: integers that wrap, or the bits of floating-point
// numbers.
inline uint64_t added(uint64_t a, uint64_t b, bool are_real) {
  if (!are_real) return a + b;
  return std::bit_cast<uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
}
inline uint64_t subtracted(uint64_t a, uint64_t b, bool are_real) {
  if (!are_real) return a - b;
  return std::bit_cast<uint64_t>(std::bit_cast<double>(a) - std::bit_cast<double>(b));
}

class Extremes {
 public:
  Extremes() = default;
  Extremes(uint64_t low, uint64_t high) : low_(low), high_(high) {}
  static Extremes of(uint64_t number, NumberOrder order) {
    const uint64_t word = in_order(number, order);
    return {~word, word};
  }

  bool empty() const { return low_ == 0 && high_ == 0; }
  void add(const Extremes& other) {
    low_ = std::max(low_, other.low_);
    high_ = std::max(high_, other.high_);
  }
  // These are the bits of numbers in that order. Not to be called if it is empty.
  uint64_t least(NumberOrder order) const { return number_of(~low_, order); }
  uint64_t greatest(NumberOrder order) const { return number_of(high_, order); }
  friend bool operator==(const Extremes&, const Extremes&) = default;

 private:
  static constexpr uint64_t kSignBit = uint64_t{1} << 63;

  static uint64_t in_order(uint64_t number, NumberOrder order) {
    if (order == NumberOrder::without_sign) return number;
    const bool is_negative_real = order == NumberOrder::real && (number & kSignBit) != 0;
    return is_negative_real ? ~number : number ^ kSignBit;
  }
  static uint64_t number_of(uint64_t word, NumberOrder order) {
    if (order == NumberOrder::without_sign) return word;
    const bool is_negative_real = order == NumberOrder::real && (word & kSignBit) == 0;
    return is_negative_real ? ~word : word ^ kSignBit;
  }

  uint64_t low_ = 0;
  uint64_t high_ = 0;
};

static_assert(sizeof(Extremes) == 1 << PP_EXTREMES_SIZE_LOG2);

}  // namespace pinprick::layout
