#include "layout/extremes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace pinprick::layout {
namespace {

constexpr uint64_t kMost = UINT64_MAX, kMiddle = uint64_t{1} << 63;

Extremes of(const std::vector<uint64_t>& numbers, NumberOrder order) {
  Extremes all;
  for (const uint64_t one : numbers) all.add(Extremes::of(one, order));
  return all;
}

TEST(Extremes, OfNoNumberAreEmptyAndChangeNoOthers) {
  EXPECT_TRUE(Extremes().empty());
  Extremes seven = Extremes::of(7, NumberOrder::with_sign);
  seven.add(Extremes());
  EXPECT_EQ(seven, Extremes::of(7, NumberOrder::with_sign));
}

TEST(Extremes, OfAnySingleNumberAreThatNumberAndNotEmpty) {
  for (const NumberOrder order : {NumberOrder::with_sign, NumberOrder::without_sign})
    for (const uint64_t number : {uint64_t{0}, uint64_t{1}, kMiddle - 1, kMiddle, kMost}) {
      const Extremes one = Extremes::of(number, order);
      EXPECT_FALSE(one.empty());
      EXPECT_EQ(one.least(order), number);
      EXPECT_EQ(one.greatest(order), number);
    }
}

TEST(Extremes, OfSeveralNumbersDependOnTheirSign) {
  const std::vector<uint64_t> numbers = {5, kMost, kMiddle, 0};
  const Extremes with = of(numbers, NumberOrder::with_sign);
  EXPECT_EQ(with.least(NumberOrder::with_sign), kMiddle);
  EXPECT_EQ(with.greatest(NumberOrder::with_sign), 5u);
  const Extremes without = of(numbers, NumberOrder::without_sign);
  EXPECT_EQ(without.least(NumberOrder::without_sign), 0u);
  EXPECT_EQ(without.greatest(NumberOrder::without_sign), kMost);
}

}  // namespace
}  // namespace pinprick::layout
