#include "stats/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pinprick::stats {
namespace {

using Random = std::mt19937_64;

std::vector<double> normal(Random& random, size_t n, double mean, double spread) {
  std::normal_distribution<double> distribution(mean, spread);
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(distribution(random));
  return values;
}

Difference compared(const std::vector<double>& before, const std::vector<double>& after,
                    Order order = Order::none) {
  return *compare(*estimate(before, order), *estimate(after, order));
}

// 10, 11, 12 has the variance 1; 20, 25, 27, 30 has 53/3. By hand, t = 6.6531 with 3.4405 degrees
// of freedom; a numerical integral of the density gives the probability.
TEST(Comparison, IsWelchsTest) {
  const Difference difference = compared({10, 12, 11}, {20, 30, 25, 27});
  EXPECT_DOUBLE_EQ(difference.after - difference.before, 14.5);
  EXPECT_NEAR(difference.p, 0.0044490, 1e-6);
  EXPECT_LT(difference.low, 14.5);
  EXPECT_NEAR(difference.high - 14.5, 14.5 - difference.low, 1e-9);
}

TEST(Comparison, OfEqualMeasurementsFindsNoMoreThanItsProbabilityAllows) {
  Random random(1);
  constexpr int kTrials = 4000;
  int found = 0;
  for (int i = 0; i < kTrials; ++i)
    if (compared(normal(random, 5, 100, 3), normal(random, 8, 100, 9)).p < 0.05) ++found;
  EXPECT_LT(found, kTrials * 0.065);
  EXPECT_GT(found, kTrials * 0.03);
}

TEST(Comparison, ConfidenceIntervalsHoldTheTruthNineteenTimesInTwenty) {
  Random random(2);
  constexpr int kTrials = 4000;
  int held = 0;
  for (int i = 0; i < kTrials; ++i) {
    const Difference difference = compared(normal(random, 6, 100, 4), normal(random, 6, 105, 2));
    if (difference.low <= 5 && 5 <= difference.high) ++held;
  }
  EXPECT_NEAR(held, kTrials * 0.95, kTrials * 0.015);
}

TEST(Comparison, OfOneMeasurementWithSeveralTakesTheirSpread) {
  Random random(3);
  constexpr int kTrials = 4000;
  int found = 0;
  for (int i = 0; i < kTrials; ++i)
    if (compared(normal(random, 6, 100, 5), normal(random, 1, 100, 5)).p < 0.05) ++found;
  EXPECT_NEAR(found, kTrials * 0.05, kTrials * 0.015);
  EXPECT_FALSE(
      compare(*estimate(std::vector{1.0}, Order::none), *estimate(std::vector{2.0}, Order::none)));
}

TEST(Comparison, WithoutAnySpreadEachDifferenceIsReal) {
  EXPECT_EQ(compared({7, 7}, {7, 7, 7}).p, 1);
  EXPECT_EQ(compared({7, 7}, {8, 8, 8}).p, 0);
}

// Each interval is much like the one before it, as when the machine is busier for a while.
TEST(Comparison, NeighboursThatAreAlikeCountLessThanIndependentOnes) {
  Random random(4);
  std::normal_distribution<double> step(0, 1);
  const auto drifting = [&] {
    std::vector<double> values;
    double value = step(random);
    for (int i = 0; i < 60; ++i) values.push_back(100 + (value = 0.8 * value + 0.6 * step(random)));
    return values;
  };
  constexpr int kTrials = 1000;
  int with_order = 0, without = 0;
  for (int i = 0; i < kTrials; ++i) {
    const auto before = drifting(), after = drifting();
    if (compared(before, after, Order::of_time).p < 0.01) ++with_order;
    if (compared(before, after, Order::none).p < 0.01) ++without;
  }
  EXPECT_GT(without, kTrials * 0.2) << "the trap that this is about";
  EXPECT_LT(with_order, kTrials * 0.05);
}

TEST(Events, AreComparedByTheirRates) {
  // 8 of 10 events in one of two equal times: 2 * 56 / 1024.
  const auto difference = compare(Events{2, 10}, Events{8, 10});
  EXPECT_NEAR(difference->p, 0.109375, 1e-9);
  EXPECT_DOUBLE_EQ(difference->before, 0.2);
  EXPECT_DOUBLE_EQ(difference->after, 0.8);
  EXPECT_NEAR(compare(Events{100, 1}, Events{1000, 10})->p, 1, 0.1) << "the same rate";
  EXPECT_FALSE(compare(Events{0, 1}, Events{0, 1}));
  EXPECT_FALSE(compare(Events{1, 0}, Events{1, 1}));
}

TEST(Events, OfEqualRatesDifferNoMoreThanTheProbabilityAllows) {
  Random random(5);
  std::poisson_distribution<int> few(20), more(60);
  constexpr int kTrials = 4000;
  int found = 0;
  for (int i = 0; i < kTrials; ++i)
    if (const auto one = compare(Events{double(few(random)), 1}, Events{double(more(random)), 3});
        one && one->p < 0.05)
      ++found;
  EXPECT_LT(found, kTrials * 0.06);
  EXPECT_GT(found, kTrials * 0.02);
}

// Benjamini and Hochberg's own example (1995, section 3.2): four of fifteen are rejected at 0.05.
TEST(Discoveries, AreThoseOfBenjaminiAndHochbergsExample) {
  const std::vector<double> p = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                                 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000};
  const auto rejected = discoveries(p, 0.05);
  for (size_t i = 0; i < p.size(); ++i) EXPECT_EQ(rejected[i], i < 4) << p[i];
  EXPECT_TRUE(discoveries({}, 0.05).empty());
}

}  // namespace
}  // namespace pinprick::stats
