#include "stats/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pinprick::stats {
namespace {

TEST(KstatsFormula, YieldsTheOriginalsCheckValuesWithThreeFractionBits) {
  EXPECT_EQ(slot_count(3), 497u);
  EXPECT_EQ(slot_of(12, 3), 12u);
  EXPECT_EQ(slot_of(480, 3), 55u);
  EXPECT_EQ(slot_of(20130, 3), 97u);
  EXPECT_EQ(slot_of(21360, 3), 98u);
  EXPECT_EQ(slot_of(1061896, 3), 144u);
  EXPECT_EQ(slot_of(1313664, 3), 146u);
  EXPECT_EQ(slot_of(UINT64_MAX, 3), 495u);
  EXPECT_EQ(slot_of(0, 3), 0u);
}

TEST(KstatsFormula, SlotFloorIsTheSmallestValueOfItsSlot) {
  for (unsigned bits = kMinFractionBits; bits <= kMaxFractionBits; ++bits) {
    for (uint32_t slot = 0; slot + 2 < slot_count(bits); ++slot) {
      const uint64_t floor = slot_floor(slot, bits);
      if (floor == UINT64_MAX) break;
      ASSERT_EQ(slot_of(floor, bits), slot) << "bits " << bits;
      if (floor > 0) {
        ASSERT_EQ(slot_of(floor - 1, bits), slot - 1) << "bits " << bits;
      }
    }
  }
}

TEST(KstatsFormula, SumsOfLargeValuesAreShiftedFromTheTwentiethBucketOn) {
  EXPECT_EQ(sum_shift(slot_of((uint64_t{1} << 22) - 1, 3), 3), 0u);  // bucket 19
  EXPECT_EQ(sum_shift(slot_of(uint64_t{1} << 22, 3), 3), 0u);        // bucket 20
  EXPECT_EQ(sum_shift(slot_of(uint64_t{1} << 23, 3), 3), 1u);        // bucket 21
}

TEST(Histogram, AverageOfASlotIsExactForSmallValuesAndCloseForLargeOnes) {
  Histogram histogram(3);
  histogram.record(480);
  histogram.record(490);
  EXPECT_EQ(histogram.average(slot_of(480, 3)), 485u);
  const uint64_t second = 1'000'000'000;
  histogram.record(second);
  const uint64_t average = histogram.average(slot_of(second, 3));
  EXPECT_LE(average, second);
  EXPECT_GT(average, second - second / 1000);
}

TEST(Histogram, QuantilesOfTheLargestValuesAreNumbers) {
  for (unsigned bits = kMinFractionBits; bits <= kMaxFractionBits; ++bits) {
    Histogram histogram(bits);
    for (int i = 0; i < 3; ++i) histogram.record(UINT64_MAX);
    const uint64_t largest_slot = slot_floor(slot_of(UINT64_MAX, bits), bits);
    for (double p : {0.5, 0.999999, 1.0}) EXPECT_GE(histogram.quantile(p), largest_slot) << bits;
    EXPECT_EQ(histogram.maximum(), UINT64_MAX) << bits;
    // The overflow slot, which only a hostile process fills.
    histogram.add(slot_count(bits) - 1, {5, 5});
    EXPECT_GE(histogram.quantile(1.0), largest_slot) << bits;
  }
}

TEST(Histogram, QuantilesAreWithinASlotsWidthOfTheTrueOnes) {
  for (unsigned bits : {0u, 3u, 5u}) {
    Histogram histogram(bits);
    std::mt19937_64 random(1);
    std::vector<uint64_t> values;
    for (int i = 0; i < 10000; ++i) values.push_back(100 + random() % 1'000'000);
    for (uint64_t value : values) histogram.record(value);
    std::sort(values.begin(), values.end());
    for (double p : {0.01, 0.5, 0.9, 0.99, 0.999}) {
      const auto truth = static_cast<double>(values[static_cast<size_t>(p * 9999)]);
      const double width = truth / std::ldexp(1, static_cast<int>(bits));
      EXPECT_NEAR(static_cast<double>(histogram.quantile(p)), truth, width + 1) << p;
    }
    EXPECT_GE(histogram.maximum(), values.back());
  }
}

// Sizes of buffers are mostly powers of two, the smallest values of their slots.
TEST(Histogram, QuantilesAndMaximumOfOneRepeatedValueAreThatValue) {
  for (unsigned bits = kMinFractionBits; bits <= kMaxFractionBits; ++bits) {
    Histogram histogram(bits);
    for (int i = 0; i < 1000; ++i) histogram.record(4096);
    for (double p : {0.0, 0.5, 0.99, 1.0}) EXPECT_EQ(histogram.quantile(p), 4096u) << bits;
    EXPECT_EQ(histogram.maximum(), 4096u) << bits;
    histogram.record(4100);
    EXPECT_EQ(histogram.maximum(), 4100u) << bits;
  }
}

// A reader may see the count of a value before its sum.
TEST(Histogram, AValueThatIsNotYetInTheSumIsAnywhereInItsSlot) {
  Histogram histogram;
  histogram.add(slot_of(4096, histogram.bits()), {2, 4096});
  EXPECT_GE(histogram.quantile(0.5), 4096u);
  EXPECT_EQ(histogram.maximum(), slot_floor(slot_of(4096, histogram.bits()) + 1, 3) - 1);
}

TEST(Histogram, ReturnsZeroEverywhereIfEmpty) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.quantile(0.5), 0u);
  EXPECT_EQ(histogram.maximum(), 0u);
  EXPECT_EQ(histogram.sum(), 0.0);
}

TEST(Histogram, MergingIsAdditionAndSinceUndoesIt) {
  Histogram a, b;
  a.record(10);
  a.record(1'000'000);
  b.record(10);
  Histogram merged = a;
  merged.merge(b);
  EXPECT_EQ(merged.count(), 3u);
  EXPECT_EQ(merged.cells()[10].count, 2u);
  const Histogram difference = merged.since(a);
  EXPECT_EQ(difference.count(), 1u);
  EXPECT_EQ(difference.cells()[10].sum, 10u);
}

// Any program of the user may write to the memory of a process's figures.
TEST(Histogram, HasRecordedNothingSinceAStateThatHasMore) {
  Histogram more, less;
  for (const uint64_t value : {10, 10, 20}) more.record(value);
  less.record(10);
  less.record(30);
  const Histogram difference = less.since(more);
  EXPECT_EQ(difference.count(), 1u);
  EXPECT_EQ(difference.sum(), 30.0);
  EXPECT_EQ(Histogram().since(more).count(), 0u);
  EXPECT_EQ(Histogram().since(more).sum(), 0.0);
}

TEST(Histogram, GivesTheNumbersFromTwoToTheSixtyThirdOnAway) {
  for (unsigned bits = kMinFractionBits; bits <= kMaxFractionBits; ++bits) {
    Histogram histogram(bits);
    const uint64_t half = uint64_t{1} << 63;
    for (const uint64_t value : {uint64_t{0}, uint64_t{5}, half - 1, half, half + 1, UINT64_MAX})
      histogram.record(value);
    EXPECT_EQ(histogram.take_negative(), 3u) << bits;
    EXPECT_EQ(histogram.count(), 3u) << bits;
    EXPECT_EQ(histogram.take_negative(), 0u) << bits;
  }
  EXPECT_EQ(Histogram().take_negative(), 0u);
}

TEST(Histogram, TakesNoMemoryWithoutValues) {
  const Histogram none(3);
  EXPECT_TRUE(none.cells().empty());
  EXPECT_EQ(none.count(), 0u);
  EXPECT_EQ(none.sum(), 0);
  EXPECT_EQ(none.quantile(0.5), 0u);
  EXPECT_EQ(none.maximum(), 0u);
  EXPECT_EQ(none.average(10), 0u);
  Histogram merged(3);
  merged.merge(none);
  merged.add(5, {0, 0});
  EXPECT_TRUE(merged.cells().empty());
}

TEST(Histogram, TakesNoMemoryForATimeWithoutValues) {
  Histogram histogram(3);
  histogram.record(480);
  const Histogram earlier = histogram;
  EXPECT_TRUE(histogram.since(earlier).cells().empty());
  EXPECT_EQ(histogram.since(Histogram(3)).count(), 1u);
  Histogram sum(3);
  sum.merge(histogram);
  EXPECT_EQ(sum.count(), 1u);
}

}  // namespace
}  // namespace pinprick::stats
