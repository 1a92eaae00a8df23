#include "samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pinprick::bench {
namespace {

TEST(Estimate, OfFewValuesGoesFromTheLeastToTheGreatest) {
  const Estimate one = estimate({3}), five = estimate({5, 1, 4, 2, 30});
  EXPECT_EQ(one.low, 3);
  EXPECT_EQ(one.middle, 3);
  EXPECT_EQ(one.high, 3);
  EXPECT_EQ(five.low, 1);
  EXPECT_EQ(five.middle, 4);
  EXPECT_EQ(five.high, 30);
}

// The median of an exponential distribution is ln 2, whereas its mean is 1.
TEST(Estimate, HasTheTrueMedianInSome95Of100Cases) {
  constexpr int kCases = 4000;
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  std::exponential_distribution<double> values(1);
  for (const size_t count : {9, 21, 101}) {
    int right = 0;
    for (int i = 0; i < kCases; ++i) {
      std::vector<double> some(count);
      for (double& value : some) value = values(random);
      const Estimate one = estimate(some);
      right += one.low <= std::log(2) && std::log(2) <= one.high;
    }
    EXPECT_GE(right, 0.94 * kCases) << count;
    EXPECT_LE(right, 0.99 * kCases) << count;
  }
}

TEST(Samples, DifferencesAreThoseOfEachRoundHoweverFastTheMachineIsInIt) {
  const Samples slowing = {{10, 20, 40, 80}, {11, 21, 41, 81}};
  EXPECT_EQ(slowing.differences(), (std::vector<double>{1, 1, 1, 1}));
  EXPECT_EQ((Samples{{}, {3, 4}}.differences()), (std::vector<double>{3, 4}));
}

TEST(Figure, ScattersIfItIsLessThanWhatItIsUncertainBy) {
  EXPECT_TRUE(scatters({-3, 0.5, 4}, 100, 0));
  EXPECT_TRUE(scatters({1, 5, 7}, 100, 0));
  EXPECT_FALSE(scatters({4, 5, 7}, 100, 0));
}

TEST(Figure, DoesNotScatterIfAllItCouldBeIsAsGoodAsNothing) {
  EXPECT_FALSE(scatters({-0.5, 0.1, 0.6}, 100, 0));   // of 2% of the base
  EXPECT_FALSE(scatters({-0.02, 0, 0.02}, 1, 0.05));  // of the clock's resolution
  EXPECT_TRUE(scatters({-0.02, 0, 0.02}, 1, 0));
}

}  // namespace
}  // namespace pinprick::bench
