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

CountRow row(std::string_view object, std::string_view function, uint64_t hits,
             uint64_t offset = 0) {
  return {{object, function, offset}, hits};
}

std::vector<std::string> sum_of(std::vector<std::vector<CountRow>> batches) {
  RowSum<CountRow> sum;
  for (auto& batch : batches) sum.add_all(std::move(batch));
  std::vector<std::string> rows;
  for (const CountRow& one : sum.take())
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
    CountRow one = row("a.so", "init", hits);
    one.name.address = address;
    return one;
  };
  RowSum<CountRow> sum;
  sum.add_all({at(0x10, 1), at(0x20, 2)});
  sum.add_all({at(0x20, 20), at(0x30, 40), at(0x10, 10)});
  std::map<Address, uint64_t> hits;
  for (const CountRow& one : sum.take()) {
    hits[one.name.address] += one.hits;
    EXPECT_TRUE(one.name.is_shared);
  }
  EXPECT_EQ(hits, (std::map<Address, uint64_t>{{0x10, 11}, {0x20, 22}, {0x30, 40}}));
}

TEST(RowSum, MarksFunctionsOfSeveralObjectsThatShareAName) {
  RowSum<CountRow> sum;
  sum.add_all({row("a.so", "init", 1), row("a.so", "f", 1)});
  sum.add_all({row("b.so", "init", 1), row("a.so", "f", 1)});
  for (const CountRow& one : sum.take())
    EXPECT_EQ(one.name.is_shared, one.name.function == "init") << one.name.function;
}

TEST(RowSum, AddsTheSitesOfAnSdtPointInOneBatchAndInSeveral) {
  const auto site = [](std::string_view object, uint64_t hits) {
    CountRow one = row(object, "shop:order", hits);
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

TEST(RowSum, AddsAllFieldsOfLatencyRows) {
  LatencyRow some;
  some.name = {"a.so", "f"};
  some.histogram.record(100);
  some.missed = 1;
  some.unwound = 2;
  some.abandoned = 3;
  some.ended = 7;
  some.from_generated = 4;
  some.repeated = 5;
  some.unmatched = 6;
  RowSum<LatencyRow> sum;
  sum.add_all({some});
  sum.add_all({some});
  const auto rows = sum.take();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].histogram.count(), 2u);
  EXPECT_EQ(rows[0].missed, 2u);
  EXPECT_EQ(rows[0].unwound, 4u);
  EXPECT_EQ(rows[0].abandoned, 6u);
  EXPECT_EQ(rows[0].ended, 14u);
  EXPECT_EQ(rows[0].from_generated, 8u);
  EXPECT_EQ(rows[0].repeated, 10u);
  EXPECT_EQ(rows[0].unmatched, 12u);
}

// They may come from files that any user has written.
TEST(RowSum, KeepsHistogramsWithDifferentBitsApart) {
  const auto row_with = [](unsigned bits) {
    LatencyRow row;
    row.name = {"a.so", "f"};
    row.histogram = stats::Histogram(bits);
    row.histogram.record(100);
    return row;
  };
  RowSum<LatencyRow> sum;
  for (const unsigned bits : {3, 0, 3, 5}) sum.add_all({row_with(bits)});
  const auto rows = sum.take();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].histogram.count(), 2u);
}

TEST(RowSum, KeepsValuesWithAndWithoutASignApart) {
  ValueRow with, without;
  with.name = {"a", "p", 0, "$arg1", true, true};
  without.name = {"a", "p", 0, "$arg1", true, false};
  stats::Histogram recorded;
  recorded.record(7);
  recorded.record(static_cast<uint64_t>(-7));
  with.set(recorded);
  without.set(recorded);
  RowSum<ValueRow> sum;
  sum.add_all({with, without, with});
  const auto rows = sum.take();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].negative, 2u);
  EXPECT_EQ(rows[0].count(), 4u);
  EXPECT_EQ(rows[1].negative, 0u);
  EXPECT_EQ(rows[1].count(), 2u);
}

TEST(ValueRow, HasItsNegativeValuesBelowTheOthers) {
  ValueRow row;
  row.name.is_signed = true;
  stats::Histogram recorded;
  for (const int value : {-100, -1, 4, 6}) recorded.record(static_cast<uint64_t>(int64_t{value}));
  row.set(recorded);
  EXPECT_EQ(row.negative, 2u);
  EXPECT_EQ(row.quantile(0.25), std::nullopt);
  EXPECT_EQ(row.quantile(0.5), std::nullopt);
  EXPECT_EQ(row.quantile(0.75), row.histogram.quantile(0.5));
  EXPECT_EQ(row.quantile(1), 6u);
}

}  // namespace
}  // namespace pinprick::session
