#include "stats/typical.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pinprick::stats {
namespace {

TEST(Typical, IsTheMeanOfTheMiddleNinetyPercent) {
  Histogram histogram(5);
  for (uint64_t value = 0; value < 20; ++value) histogram.record(value);
  EXPECT_DOUBLE_EQ(typical(histogram)->mean, 9.5);
  Histogram with_outlier = histogram;
  with_outlier.record(1'000'000'000);
  EXPECT_LT(typical(with_outlier)->mean, 10.5);
}

TEST(Typical, SeesAShiftWithinOneSlot) {
  Histogram before(3), after(3);
  for (int i = 0; i < 1000; ++i) {
    before.record(1'050'000);
    after.record(1'102'500);
  }
  ASSERT_EQ(slot_of(1'050'000, 3), slot_of(1'102'500, 3));
  EXPECT_NEAR(typical(after)->mean / typical(before)->mean, 1.05, 1e-4);
}

TEST(Typical, NeedsTwoValues) {
  Histogram histogram(3);
  EXPECT_FALSE(typical(histogram));
  histogram.record(5);
  EXPECT_FALSE(typical(histogram));
  histogram.record(5);
  EXPECT_TRUE(typical(histogram));
}

// Yuen's test holds its level for distributions with long tails. Slots only add to the spread.
TEST(Typical, OfEqualDistributionsDiffersNoMoreThanTheProbabilityAllows) {
  std::mt19937_64 random(6);
  std::lognormal_distribution<double> times(10, 0.7);
  constexpr int kTrials = 2000;
  int found = 0;
  for (int i = 0; i < kTrials; ++i) {
    Histogram before(3), after(3);
    for (int call = 0; call < 300; ++call) before.record(static_cast<uint64_t>(times(random)));
    for (int call = 0; call < 500; ++call) after.record(static_cast<uint64_t>(times(random)));
    if (compare(*typical(before), *typical(after))->p < 0.05) ++found;
  }
  EXPECT_LT(found, kTrials * 0.065);
  EXPECT_GT(found, kTrials * 0.02);
}

TEST(Coarser, HistogramsAreThoseOfTheSameValues) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> times(14, 3);
  Histogram fine(5), coarse(1);
  for (int i = 0; i < 10000; ++i) {
    const auto value = static_cast<uint64_t>(times(random));
    fine.record(value);
    coarse.record(value);
  }
  const Histogram made = coarser(fine, 1);
  for (uint32_t slot = 0; slot < slot_count(1); ++slot)
    EXPECT_EQ(made.cells()[slot].count, coarse.cells()[slot].count) << slot;
  EXPECT_NEAR(made.sum() / coarse.sum(), 1, 1e-3);
}

TEST(CountFrom, HasTheSlotItself) {
  Histogram histogram(0);
  for (const uint64_t value : {1, 2, 4, 8}) histogram.record(value);
  EXPECT_EQ(count_from(histogram, slot_of(4, 0)), 2);
  EXPECT_EQ(count_from(histogram, 0), 4);
  EXPECT_EQ(count_from(Histogram(0), 0), 0);
}

}  // namespace
}  // namespace pinprick::stats
