#include "cli/render/density.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/render/text_width.h"

namespace pinprick::cli {
namespace {

DensityStyle style_of(size_t lines, size_t width, bool unicode = false) {
  DensityStyle style;
  style.lines = lines;
  style.width = width;
  style.unicode = unicode;
  return style;
}

// Each value of [from, to) equally often.
stats::Histogram uniform(uint64_t from, uint64_t to, uint64_t step = 1, unsigned bits = 3) {
  stats::Histogram histogram(bits);
  for (uint64_t value = from; value < to; value += step) histogram.record(value);
  return histogram;
}

TEST(Density, OfAUniformDistributionIsFlatOverManySlotsOfDifferentWidths) {
  for (const unsigned bits : {0u, 1u, 3u, 5u}) {
    // From a power of two to another, so that no slot is cut.
    const auto lines = density_lines(uniform(1 << 6, 1 << 16, 1, bits), style_of(2000, 50));
    ASSERT_GE(lines.size(), 10u << bits);
    for (const DensityLine& line : lines) {
      EXPECT_DOUBLE_EQ(line.density, 1);
      EXPECT_EQ(line.bar, std::string(50, '#'));
    }
  }
}

TEST(Density, IsFlatAsWellWhereALineHasManySlots) {
  const auto lines = density_lines(uniform(1 << 6, 1 << 16), style_of(7, 40));
  ASSERT_LE(lines.size(), 7u);
  ASSERT_GE(lines.size(), 4u);
  for (const DensityLine& line : lines) EXPECT_EQ(line.bar_width, 40u) << line.label;
}

TEST(Density, FractionsAreOfAllValues) {
  double sum = 0;
  for (const DensityLine& line : density_lines(uniform(100, 5000, 7), style_of(9, 40)))
    sum += line.fraction;
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(Density, HasAsManyLinesAsWereAllowedAtMost) {
  for (const size_t most : {3, 4, 5, 10, 17, 60}) {
    stats::Histogram histogram = uniform(1000, 3000);
    for (const uint64_t outlier : {1ull, 2ull, 1ull << 30, 1ull << 40}) histogram.record(outlier);
    EXPECT_LE(density_lines(histogram, style_of(most, 40)).size(), most);
  }
}

TEST(Density, OutliersDoNotTakeTheResolutionOfTheOthers) {
  stats::Histogram histogram = uniform(1024, 2048);
  histogram.record(uint64_t{1} << 40);
  const auto lines = density_lines(histogram, style_of(10, 40));
  size_t within = 0;
  for (const DensityLine& line : lines) within += line.floor >= 1024 && line.floor < 2048 ? 1 : 0;
  EXPECT_EQ(within, 8u);  // as many as there are slots
}

TEST(Density, OfOneValueIsOneFullLine) {
  stats::Histogram histogram;
  histogram.record(1000);
  const auto lines = density_lines(histogram, style_of(10, 12));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(text_of(lines[0], style_of(10, 12)), "     960ns |############  100.0%");
}

TEST(Density, OfNoValueHasNoLine) {
  EXPECT_TRUE(density_lines(stats::Histogram(), style_of(10, 40)).empty());
}

TEST(Density, TakesTheSmallestAndTheLargestValueThereIs) {
  stats::Histogram histogram;
  histogram.record(0);
  histogram.record(UINT64_MAX);
  for (const DensityLine& line : density_lines(histogram, style_of(10, 40)))
    EXPECT_GE(line.density, 0);
}

TEST(Density, AFewValuesBesideManyStillShow) {
  stats::Histogram histogram;
  for (int i = 0; i < 100000; ++i) histogram.record(8);
  histogram.record(9);
  const auto lines = density_lines(histogram, style_of(10, 40));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].bar, "#");
}

TEST(Density, BarsOfEighthsHaveTheWidthThatTheySay) {
  stats::Histogram histogram = uniform(64, 96);
  for (int i = 0; i < 10; ++i) histogram.record(65);
  for (const DensityLine& line : density_lines(histogram, style_of(10, 13, true)))
    EXPECT_EQ(width_of(line.bar), line.bar_width);
}

}  // namespace
}  // namespace pinprick::cli
