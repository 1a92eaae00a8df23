// The least and the greatest of some numbers, as hits keep them. Pure; plain values.
//
// A number is mapped to a word without a sign that has the same order. `high` is the largest such
// word, and `low` the largest complement of one, so that both only grow, and memory full of zeros
// stands for no number: no number makes both 0.
#pragma once

#include <algorithm>
#include <cstdint>

#include "layout/runtime_offsets.h"

namespace pinprick::layout {

// How numbers of 64 bits are ordered.
enum class NumberOrder : uint8_t {
  without_sign = PP_ORDER_WITHOUT_SIGN,
  with_sign = PP_ORDER_WITH_SIGN,
};

class Extremes {
 public:
  Extremes() = default;
  Extremes(uint64_t low, uint64_t high) : low_(low), high_(high) {}
  static Extremes of(uint64_t number, NumberOrder order) {
    const uint64_t word = number ^ mask(order);
    return {~word, word};
  }

  bool empty() const { return low_ == 0 && high_ == 0; }
  void add(const Extremes& other) {
    low_ = std::max(low_, other.low_);
    high_ = std::max(high_, other.high_);
  }
  // These are the bits of numbers in that order. Not to be called if it is empty.
  uint64_t least(NumberOrder order) const { return ~low_ ^ mask(order); }
  uint64_t greatest(NumberOrder order) const { return high_ ^ mask(order); }
  friend bool operator==(const Extremes&, const Extremes&) = default;

 private:
  static uint64_t mask(NumberOrder order) {
    return order == NumberOrder::with_sign ? uint64_t{1} << 63 : 0;
  }

  uint64_t low_ = 0;
  uint64_t high_ = 0;
};

static_assert(sizeof(Extremes) == 1 << PP_EXTREMES_SIZE_LOG2);

}  // namespace pinprick::layout
