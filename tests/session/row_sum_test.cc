#include "session/row_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "session/report.h"

namespace pinprick::session {
namespace {

using testing::ElementsAre;

Row row(std::string_view object, std::string_view function, uint64_t hits, uint64_t offset = 0) {
  return {.name = {object, function, offset}, .hits = hits, .distribution = {}};
}

std::vector<std::string> sum_of(std::vector<std::vector<Row>> batches) {
  RowSum sum;
  for (auto& batch : batches) sum.add_all(std::move(batch));
  std::vector<std::string> rows;
  for (const Row& one : sum.take())
    rows.push_back(std::string(one.name.object) + ":" + std::string(one.name.function) + "+" +
                   std::to_string(one.name.offset) + " " + std::to_string(one.hits));
  return rows;
}

TEST(RowSum, AddsTheRowsOfAFunctionInSeveralBatches) {
  EXPECT_THAT(sum_of({{row("a.so", "f", 1), row("a.so", "g", 10)},
                      {row("b.so", "f", 100)},
                      {row("a.so", "g", 5), row("a.so", "f", 2)}}),
              ElementsAre("a.so:f+0 3", "a.so:g+0 15", "b.so:f+0 100"));
}

TEST(RowSum, KeepsInstructionsOfAFunctionApart) {
  EXPECT_THAT(sum_of({{row("a.so", "f", 1), row("a.so", "f", 2, 4)}, {row("a.so", "f", 30, 4)}}),
              ElementsAre("a.so:f+0 1", "a.so:f+4 32"));
}

TEST(RowSum, TellsFunctionsWithTheSameNameApartByTheirOrder) {
  EXPECT_THAT(sum_of({{row("a.so", "init", 1), row("a.so", "init", 2)},
                      {row("a.so", "init", 10), row("a.so", "init", 20), row("a.so", "init", 40)}}),
              ElementsAre("a.so:init+0 11", "a.so:init+0 22", "a.so:init+0 40"));
}

TEST(RowSum, TellsFunctionsWithTheSameNameApartByTheirAddressInWhicheverOrder) {
  const auto at = [](Address address, uint64_t hits) {
    Row one = row("a.so", "init", hits);
    one.name.address = address;
    return one;
  };
  RowSum sum;
  sum.add_all({at(0x10, 1), at(0x20, 2)});
  sum.add_all({at(0x20, 20), at(0x30, 40), at(0x10, 10)});
  std::map<Address, uint64_t> hits;
  for (const Row& one : sum.take()) {
    hits[one.name.address] += one.hits;
    EXPECT_TRUE(one.name.is_shared);
  }
  EXPECT_EQ(hits, (std::map<Address, uint64_t>{{0x10, 11}, {0x20, 22}, {0x30, 40}}));
}

TEST(RowSum, MarksFunctionsOfSeveralObjectsThatShareAName) {
  RowSum sum;
  sum.add_all({row("a.so", "init", 1), row("a.so", "f", 1)});
  sum.add_all({row("b.so", "init", 1), row("a.so", "f", 1)});
  for (const Row& one : sum.take())
    EXPECT_EQ(one.name.is_shared, one.name.function == "init") << one.name.function;
}

TEST(RowSum, AddsTheSitesOfAnSdtPointInOneBatchAndInSeveral) {
  const auto site = [](std::string_view object, uint64_t hits) {
    Row one = row(object, "shop:order", hits);
    one.name.is_point = true;
    return one;
  };
  EXPECT_THAT(sum_of({{site("a.so", 1), row("a.so", "f", 5), site("a.so", 2), site("b.so", 7)}}),
              ElementsAre("a.so:shop:order+0 3", "a.so:f+0 5", "b.so:shop:order+0 7"));
  EXPECT_THAT(sum_of({{site("a.so", 1)}, {site("a.so", 10), site("a.so", 100)}}),
              ElementsAre("a.so:shop:order+0 111"));
}

TEST(RowSum, IsEmptyWithoutRows) {
  EXPECT_TRUE(sum_of({{}, {}}).empty());
  EXPECT_THAT(sum_of({{}, {row("a.so", "f", 1)}}), ElementsAre("a.so:f+0 1"));
}

TEST(RowSum, AddsTimesAndEachKindOfLoss) {
  stats::Histogram recorded;
  recorded.record(100);
  layout::Losses losses;
  for (size_t i = 0; i < layout::kLosses; ++i) losses[static_cast<layout::Loss>(i)] = i + 1;
  const Row some = Row::of_times({"a.so", "f"}, placement::Kind::latency, recorded, losses);
  RowSum sum;
  sum.add_all({some});
  sum.add_all({some});
  const auto rows = sum.take();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].count(), 2u);
  for (size_t i = 0; i < layout::kLosses; ++i)
    EXPECT_EQ(rows[0].lost(static_cast<layout::Loss>(i)), 2 * (i + 1)) << i;
}

TEST(RowSum, KeepsHitsTimesAndValuesOfOneFunctionApart) {
  const Row hits = row("a.so", "f", 3);
  const Row times = Row::of_times({"a.so", "f"}, placement::Kind::latency, stats::Histogram(), {});
  const Row values = Row::of_values({"a.so", "f"}, stats::Histogram(), {});
  RowSum sum;
  sum.add_all({hits, times, values});
  sum.add_all({values, hits, times});
  const auto rows = sum.take();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].hits, 6u);
}

TEST(Losses, ADifferenceIsNeverBelowZero) {
  layout::Losses before, now;
  before[layout::Loss::missed] = 5;
  before[layout::Loss::unwound] = 1;
  now[layout::Loss::missed] = 2;
  now[layout::Loss::unwound] = 4;
  const layout::Losses later = now.since(before);
  EXPECT_EQ(later[layout::Loss::missed], 0u);
  EXPECT_EQ(later[layout::Loss::unwound], 3u);
  EXPECT_EQ(later.total(), 3u);
}

// They may come from files that any user has written.
TEST(RowSum, KeepsHistogramsWithDifferentBitsApart) {
  const auto row_with = [](unsigned bits) {
    stats::Histogram recorded(bits);
    recorded.record(100);
    return Row::of_times({"a.so", "f"}, placement::Kind::latency, recorded, {});
  };
  RowSum sum;
  for (const unsigned bits : {3, 0, 3, 5}) sum.add_all({row_with(bits)});
  const auto rows = sum.take();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].count(), 2u);
}

TEST(RowSum, KeepsValuesWithAndWithoutASignApart) {
  stats::Histogram recorded;
  recorded.record(7);
  recorded.record(static_cast<uint64_t>(-7));
  const Row with = Row::of_values(
      {.object = "a", .function = "p", .value = "$arg1", .is_point = true, .is_signed = true},
      recorded, {});
  const Row without = Row::of_values(
      {.object = "a", .function = "p", .value = "$arg1", .is_point = true}, recorded, {});
  RowSum sum;
  sum.add_all({with, without, with});
  const auto rows = sum.take();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].negative(), 2u);
  EXPECT_EQ(rows[0].count(), 4u);
  EXPECT_EQ(rows[1].negative(), 0u);
  EXPECT_EQ(rows[1].count(), 2u);
}

TEST(Row, HasItsNegativeValuesBelowTheOthers) {
  stats::Histogram recorded;
  for (const int value : {-100, -1, 4, 6}) recorded.record(static_cast<uint64_t>(int64_t{value}));
  const Row row = Row::of_values({.object = {}, .function = {}, .is_signed = true}, recorded, {});
  EXPECT_EQ(row.negative(), 2u);
  EXPECT_EQ(row.quantile(0.25), std::nullopt);
  EXPECT_EQ(row.quantile(0.5), std::nullopt);
  EXPECT_EQ(row.quantile(0.75), row.histogram().quantile(0.5));
  EXPECT_EQ(row.quantile(1), 6u);
}

}  // namespace
}  // namespace pinprick::session
