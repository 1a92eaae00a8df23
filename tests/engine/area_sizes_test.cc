// How many per-CPU areas a session has, on machines of all sizes.
#include "engine/memory/area_sizes.h"

#include <gtest/gtest.h>

namespace pinprick::engine {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr SpaceForAreas kPlenty = {1024 * kGiB, 512 * kGiB};

layout::SessionCounts counters(uint64_t count) {
  layout::SessionCounts counts;
  counts.mappings = counts.objects = counts.functions = 1;
  counts.sites = counts.probes = counts.counters = count;
  return counts;
}

layout::SessionCounts histograms(uint64_t count) {
  layout::SessionCounts counts = counters(0);
  counts.histograms = count;
  counts.fraction_bits = stats::kDefaultFractionBits;
  return counts;
}

TEST(AreaSizes, GiveEachCpuAnAreaWhereThereIsRoom) {
  auto counts = counters(1000);
  choose_area_sizes(counts, 64, kPlenty);
  EXPECT_EQ(counts.cpus, 64u);
}

TEST(AreaSizes, GiveFewerAreasThanThreadsLockWhereMemoryIsShort) {
  auto counts = counters(1'000'000);
  choose_area_sizes(counts, 200, {4 * kGiB, UINT64_MAX});
  EXPECT_LT(counts.cpus, layout::kLockedStripes);
  EXPECT_GE(counts.cpus, 1u);
}

TEST(AreaSizes, TakeNoMoreThanHalfOfWhatIsLeftInTheFolder) {
  auto counts = counters(1'000'000);
  constexpr uint64_t kLeft = 200 << 20;
  choose_area_sizes(counts, 64, {1024 * kGiB, kLeft});
  EXPECT_LT(counts.cpus, 64u);
  EXPECT_LE(layout::lay_out(counts).file_size, kLeft / 2);
}

TEST(AreaSizes, HaveOneAreaHoweverLittleThereIs) {
  auto counts = counters(1'000'000);
  choose_area_sizes(counts, 64, {kGiB, 4096});
  EXPECT_EQ(counts.cpus, 1u);
}

TEST(AreaSizes, HaveABlockForEachHistogramHoweverLittleThereIs) {
  auto counts = histograms(1000);
  choose_area_sizes(counts, 8, {kGiB, 4096});
  EXPECT_GE(counts.pool_size, 1000 * layout::histogram_size(counts.fraction_bits));
}

TEST(AreaSizes, HaveABlockForEachHistogramAndCpuWhereThereIsRoom) {
  auto counts = histograms(10);
  choose_area_sizes(counts, 8, kPlenty);
  EXPECT_EQ(counts.pool_size, 10 * (8 + 1) * layout::histogram_size(counts.fraction_bits));
}

TEST(KeyLog2, LeavesHalfOfTheTableFree) {
  EXPECT_EQ(key_log2(0, false), 13u) << "4,096 keys";
  EXPECT_EQ(key_log2(4096, false), 13u);
  EXPECT_EQ(key_log2(4097, false), 14u);
  EXPECT_EQ(key_log2(1, false), 7u) << "no fewer than 64";
  EXPECT_EQ(key_log2(1'000'000, false), 21u);
  EXPECT_EQ(key_log2(UINT64_MAX / 2, false), layout::kMostKeyLog2);
  EXPECT_EQ(key_log2(0, true), 9u) << "256 keys with histograms";
  EXPECT_EQ(key_log2(4096, true), 13u);
}

}  // namespace
}  // namespace pinprick::engine
