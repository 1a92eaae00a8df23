#include "stats/student.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pinprick::stats {
namespace {

// Any table of the distribution has these.
TEST(Student, HasTheProbabilitiesOfTheTables) {
  EXPECT_NEAR(two_sided_probability(12.7062, 1), 0.05, 1e-6);
  EXPECT_NEAR(two_sided_probability(-2.2281, 10), 0.05, 1e-5);
  EXPECT_NEAR(two_sided_probability(3.7469, 4), 0.02, 1e-6);
  EXPECT_NEAR(two_sided_probability(2.5758, INFINITY), 0.01, 1e-5);
}

TEST(Student, NearsTheNormalDistributionWithManyDegrees) {
  for (const double degrees : {1e5, 0.99e6, 1.01e6, 1e12})
    EXPECT_NEAR(two_sided_probability(1.959964, degrees), 0.05, 1e-5) << degrees;
}

TEST(Student, QuantilesAreTheInverseOfProbabilities) {
  for (const double degrees : {1.0, 2.5, 30.0, 1e7})
    for (const double p : {0.5, 0.05, 1e-6})
      EXPECT_NEAR(two_sided_probability(two_sided_quantile(p, degrees), degrees), p, 1e-9 + p / 1e6)
          << degrees;
}

TEST(Student, WhatMakesNoSenseIsNoEvidence) {
  EXPECT_EQ(two_sided_probability(NAN, 10), 1);
  EXPECT_EQ(two_sided_probability(5, 0), 1);
  EXPECT_EQ(two_sided_probability(5, NAN), 1);
  EXPECT_EQ(two_sided_probability(INFINITY, 3), 0);
}

TEST(Binomial, AddsUpTheLargerNumbersOfSuccesses) {
  EXPECT_NEAR(binomial_at_least(8, 10, 0.5), 56.0 / 1024, 1e-12);
  EXPECT_NEAR(binomial_at_least(1, 3, 0.25), 1 - 0.75 * 0.75 * 0.75, 1e-12);
  EXPECT_EQ(binomial_at_least(0, 10, 0.5), 1);
  EXPECT_EQ(binomial_at_least(11, 10, 0.5), 0);
}

TEST(Binomial, OfMillionsOfTrialsIsNormal) {
  EXPECT_NEAR(binomial_at_least(2e6, 4e6, 0.5), 0.5, 1e-3);
  EXPECT_NEAR(binomial_at_least(2e6 + 1.959964e3, 4e6, 0.5), 0.025, 1e-4);
}

}  // namespace
}  // namespace pinprick::stats
