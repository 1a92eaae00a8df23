#include "stats/moderation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "stats/student.h"

namespace pinprick::stats {
namespace {

TEST(Moderation, PoolsTheSpreadsOfBothSidesAsFractionsOfTheirMeans) {
  // Variances of 4 around 10 and of 9 around 30: 0.04 with 2 degrees, 0.01 with 4.
  const auto spread = common_spread({10, 4, 3, 2}, {30, 9, 5, 4});
  EXPECT_NEAR(spread->variance, (2 * 0.04 + 4 * 0.01) / 6, 1e-12);
  EXPECT_DOUBLE_EQ(spread->degrees, 6);
  EXPECT_NEAR(spread->per_mean, 1.0 / 3 + 1.0 / 5, 1e-12);
  EXPECT_FALSE(common_spread({0, 4, 3, 2}, {30, 9, 5, 4}));
  EXPECT_FALSE(common_spread({10, 0, 1, 0}, {30, 0, 1, 0}));
}

std::vector<RelativeSpread> spreads(std::mt19937_64& random, size_t rows, double degrees,
                                    double usual, double usual_degrees) {
  std::chi_squared_distribution<double> chance(degrees), among_rows(usual_degrees);
  std::vector<RelativeSpread> all;
  for (size_t i = 0; i < rows; ++i) {
    const double real = usual * usual_degrees / among_rows(random);
    all.push_back({real * chance(random) / degrees, degrees, 1});
  }
  return all;
}

TEST(Moderation, FindsWhatIsUsual) {
  std::mt19937_64 random(1);
  const UsualSpread usual = usual_spread(spreads(random, 4000, 4, 0.01, 6));
  EXPECT_NEAR(usual.variance, 0.01, 0.001);
  EXPECT_NEAR(usual.degrees, 6, 1);
}

TEST(Moderation, NeedsThreeSpreads) {
  EXPECT_EQ(usual_spread({}).degrees, 0);
  const std::vector<RelativeSpread> rows = {{0.01, 4, 1}, {0, 4, 1}, {0, 4, 1}, {0.02, 4, 1}};
  EXPECT_EQ(usual_spread(rows).degrees, 0) << "without any spread there is nothing to learn";
}

TEST(Moderation, MovesASpreadTowardsTheUsualOne) {
  const RelativeSpread of_row = {0.04, 4, 1};
  EXPECT_DOUBLE_EQ(moderated(of_row, {}).variance, 0.04);
  EXPECT_NEAR(moderated(of_row, {0.01, 8}).variance, (4 * 0.04 + 8 * 0.01) / 12, 1e-12);
  EXPECT_DOUBLE_EQ(moderated(of_row, {0.01, 8}).degrees, 12);
  EXPECT_DOUBLE_EQ(moderated(of_row, {0.01, INFINITY}).variance, 0.01);
}

// Of rows that are the same, three runs on each side.
TEST(Moderation, HoldsTheLevelOfTheTest) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal(0, 1);
  std::chi_squared_distribution<double> among_rows(6);
  constexpr size_t kRows = 4000, kRuns = 3;
  std::vector<RelativeSpread> all;
  std::vector<double> differences;
  for (size_t row = 0; row < kRows; ++row) {
    const double spread = 0.02 * std::sqrt(6 / among_rows(random));
    std::vector<double> sides[2];
    for (auto& side : sides)
      for (size_t i = 0; i < kRuns; ++i) side.push_back(1 + spread * normal(random));
    const auto before = *estimate(sides[0], Order::none), after = *estimate(sides[1], Order::none);
    all.push_back(*common_spread(before, after));
    differences.push_back(after.mean - before.mean);
  }
  const UsualSpread usual = usual_spread(all);
  size_t found = 0;
  for (size_t row = 0; row < kRows; ++row) {
    const RelativeSpread spread = moderated(all[row], usual);
    const double t = differences[row] / std::sqrt(spread.variance * spread.per_mean);
    if (two_sided_probability(t, spread.degrees) < 0.01) ++found;
  }
  EXPECT_NEAR(static_cast<double>(found), kRows * 0.01, kRows * 0.006);
}

}  // namespace
}  // namespace pinprick::stats
