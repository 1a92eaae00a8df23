// Where the tables, counters and blocks of a session's file lie.
#include <gtest/gtest.h>

#include <algorithm>

#include "layout/sample_session.h"

namespace pinprick::layout {
namespace {

std::vector<Range> table_ranges(const FileHeader& header) {
  const auto range = [](const Section& section, uint64_t size) {
    return Range{section.offset, section.offset + section.count * size};
  };
  return {{0, sizeof(FileHeader)},
          range(header.mappings, sizeof(MappingEntry)),
          range(header.objects, sizeof(ObjectEntry)),
          range(header.sites, sizeof(SiteEntry)),
          range(header.probes, sizeof(ProbeEntry)),
          range(header.functions, sizeof(FunctionEntry)),
          range(header.spans, sizeof(SpanEntry)),
          range(header.switches, sizeof(SwitchEntry)),
          range(header.semaphores, sizeof(SemaphoreEntry)),
          range(header.point_sites, sizeof(PointSiteEntry)),
          range(header.names, 1),
          {header.areas_offset, header.file_size}};
}

TEST(LayOut, PlacesTablesInOrderWithoutOverlap) {
  for (uint64_t probes : {0u, 1u, 127u, 40'000u}) {
    SessionCounts counts = kCounts;
    counts.sites = counts.probes = counts.counters = counts.histograms = probes;
    counts.switches = probes;
    counts.spans = std::min(probes, kMostSpans);
    const FileHeader header = lay_out(counts);
    const auto ranges = table_ranges(header);
    for (size_t i = 1; i < ranges.size(); ++i) {
      EXPECT_LE(ranges[i - 1].end, ranges[i].begin) << "table " << i << ", " << probes << " probes";
      EXPECT_LE(ranges[i].begin, ranges[i].end);
    }
  }
}

TEST(LayOut, GivesEveryTableTheRequestedRoom) {
  const FileHeader header = lay_out(kCounts);
  EXPECT_EQ(header.mappings.count, kCounts.mappings);
  EXPECT_EQ(header.objects.count, kCounts.objects);
  EXPECT_EQ(header.sites.count, kCounts.sites);
  EXPECT_EQ(header.probes.count, kCounts.probes);
  EXPECT_EQ(header.functions.count, kCounts.functions);
  EXPECT_EQ(header.spans.count, kCounts.spans);
  EXPECT_EQ(header.switches.count, kCounts.switches);
  EXPECT_EQ(header.names.count, kCounts.name_bytes);
  EXPECT_EQ(header.histogram_count, kCounts.histograms);
  EXPECT_EQ(header.cpu_count, kCounts.cpus);
  EXPECT_EQ(header.fraction_bits, kCounts.fraction_bits);
  EXPECT_EQ(header.header_size, sizeof(FileHeader));
}

TEST(LayOut, MakesHeadersThatPassTheCheck) {
  for (uint32_t bits = stats::kMinFractionBits; bits <= stats::kMaxFractionBits; ++bits)
    for (uint32_t cpus : {1u, 2u, 512u})
      for (uint64_t probes : {0u, 1u, 1000u}) {
        const SessionCounts counts = {.mappings = 6,
                                      .objects = 3,
                                      .sites = probes,
                                      .probes = probes,
                                      .counters = probes,
                                      .histograms = probes,
                                      .pool_size = probes * (cpus + 1) * kBlock,
                                      .name_bytes = probes * 20,
                                      .cpus = cpus,
                                      .fraction_bits = bits};
        const FileHeader header = lay_out(counts);
        EXPECT_EQ(check_header(header, header.file_size), std::nullopt)
            << bits << " bits, " << cpus << " CPUs, " << probes << " probes";
      }
}

// The target maps the tables read-only and the areas read-write, so no page may have both. Only
// controllers read names.
TEST(LayOut, SeparatesByPagesWhatTheTargetMayWriteFromWhatItMayOnlyRead) {
  const FileHeader header = lay_out(kCounts);
  EXPECT_EQ(header.areas_offset % kPageSize, 0u);
  EXPECT_EQ(header.area_size % kPageSize, 0u);
  EXPECT_EQ(tables_size(header) % kPageSize, 0u);
  EXPECT_LE(tables_size(header), header.names.offset);
  EXPECT_LE(header.probes.offset + header.probes.count * sizeof(ProbeEntry), tables_size(header));
}

TEST(LayOut, HasAnAreaForEachCpuAndOneForThreadsThatLock) {
  const FileHeader header = lay_out(kCounts);
  EXPECT_EQ(area_offset(header, 0), header.areas_offset);
  EXPECT_EQ(area_offset(header, kCounts.cpus) + header.area_size, header.pool_offset);
}

TEST(LayOut, PutsBlocksAfterEverythingElseEachInItsOwnCacheLines) {
  for (bool loader_handshake : {false, true}) {
    SessionCounts counts = kCounts;
    counts.loader_handshake = loader_handshake;
    const FileHeader header = lay_out(counts);
    EXPECT_GT(header.pool_offset, header.loader_handshake_offset);
    EXPECT_EQ(end_of_blocks(header, 0), header.pool_offset + kPageSize);
    EXPECT_EQ(end_of_blocks(header, kBlock) % 64, 0u);
    EXPECT_GE(kBlock, stats::slot_count(counts.fraction_bits) * sizeof(stats::Cell));
    EXPECT_LE(end_of_blocks(header, counts.pool_size), header.file_size);
    EXPECT_LT(header.file_size - end_of_blocks(header, counts.pool_size), kPageSize);
  }
}

TEST(LayOut, PutsTheEndBeforeGapsAfterTheCountersOfEachArea) {
  for (const uint64_t histograms : {1, 2, 102}) {  // 102 take 4,080 bytes
    SessionCounts counts = kCounts;
    counts.counters = 0;
    counts.histograms = histograms;
    counts.gap = Gap::cpu;
    const FileHeader header = lay_out(counts);
    EXPECT_EQ(gap_word_offset(header), time_counters_offset(header, histograms - 1) + PP_GAP_BEGAN);
    EXPECT_LE(gap_word_offset(header) + sizeof(uint64_t), header.area_size);
    EXPECT_EQ(metric_count(header), histograms - 1) << "the last one is that of the gaps";
  }
}

// The target maps all of the file up to its size, and may write its areas.
TEST(BaselineOffset, LeadsToTwoPlacesInTurnThatLieAfterWhatTheTargetMaps) {
  for (uint32_t bits = stats::kMinFractionBits; bits <= stats::kMaxFractionBits; ++bits) {
    SessionCounts counts = kCounts;
    counts.fraction_bits = bits;
    const FileHeader header = lay_out(counts);
    const uint64_t one = baseline_offset(header, 1), two = baseline_offset(header, 2);
    EXPECT_GE(std::min(one, two), header.file_size);
    EXPECT_EQ(one % kPageSize + two % kPageSize, 0u);
    EXPECT_EQ(std::max(one, two) - std::min(one, two), baseline_size(header));
    EXPECT_EQ(baseline_offset(header, 3), one);
    EXPECT_EQ(baseline_offset(header, 4), two);
    const uint64_t entry = baseline_entry_size(header);
    EXPECT_GE(entry, sizeof(BaselineEntry) + stats::slot_count(bits) * sizeof(stats::Cell));
    EXPECT_GE(baseline_size(header), (counts.cpus + 1) * counts.histograms * entry);
  }
}

TEST(BlockAt, ReturnsOnlyBlocksOfThePool) {
  const FileHeader header = lay_out(kCounts);
  for (unsigned bits = stats::kMinFractionBits; bits <= stats::kMaxFractionBits; ++bits) {
    const uint64_t size = histogram_size(bits);
    for (uint64_t from = 0; from + size <= kCounts.pool_size; from += size) {
      const uint64_t offset = end_of_blocks(header, from) - header.pool_offset;
      EXPECT_EQ(block_at(header, offset, bits), end_of_blocks(header, from));
      EXPECT_EQ(block_at(header, offset + 8, bits), std::nullopt);
      EXPECT_EQ(block_at(header, offset - 1, bits), std::nullopt);
    }
    const uint64_t end = end_of_blocks(header, kCounts.pool_size) - header.pool_offset;
    for (uint64_t offset : {uint64_t{0}, uint64_t{8}, PP_POOL_BLOCKS - size, end - size + 64, end,
                            end + size, UINT64_MAX, UINT64_MAX - size + 1, UINT64_MAX / 64 * 64})
      EXPECT_EQ(block_at(header, offset, bits), std::nullopt) << offset;
  }
  EXPECT_EQ(block_at(lay_out({.cpus = 1}), PP_POOL_BLOCKS, 3), std::nullopt) << "no pool";
}

TEST(LayOut, CountersAndTimeCountersOfAnAreaDoNotOverlap) {
  for (uint32_t bits : {0u, 3u, 5u}) {
    SessionCounts counts = kCounts;
    counts.counters = 17;
    counts.histograms = 17;
    counts.fraction_bits = bits;
    const FileHeader header = lay_out(counts);
    Address end = 0;
    for (uint64_t probe = 0; probe < counts.counters; ++probe) {
      EXPECT_GE(counter_offset(probe), end);
      end = counter_offset(probe) + sizeof(uint64_t);
    }
    for (uint64_t histogram = 0; histogram < counts.histograms; ++histogram) {
      EXPECT_GE(time_counters_offset(header, histogram), end);
      end = time_counters_offset(header, histogram) + sizeof(TimeCounters);
    }
    EXPECT_LE(end, header.area_size);
  }
}

}  // namespace
}  // namespace pinprick::layout
