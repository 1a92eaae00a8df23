#include "layout/recorded_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace pinprick::layout {
namespace {

constexpr uint32_t kCpus = 4, kBits = 3;

RecordedHeader header_for(uint64_t statistics) {
  RecordedHeader header;
  header.pid = 42;
  header.cpu_count = kCpus;
  header.end = kPageSize + statistics * statistic_size(kBits, kCpus);
  return header;
}

StatisticHeader statistic_named(const std::string& name) {
  StatisticHeader statistic;
  statistic.size = statistic_size(kBits, kCpus);
  statistic.state = StatisticHeader::State::used;
  statistic.fraction_bits = kBits;
  statistic.control = make_control(true, 0, 0);
  std::memcpy(statistic.name, name.data(), name.size());
  return statistic;
}

TEST(RecordedFile, PartsOfAStatisticDoNotOverlap) {
  for (uint32_t bits = 0; bits <= stats::kMaxFractionBits; ++bits)
    for (uint32_t cpus : {0u, 1u, 2u, 64u, kMaxCpus}) {
      const uint64_t values = values_size(bits, cpus);
      EXPECT_GE(recorded_area_size(bits), stats::slot_count(bits) * sizeof(stats::Cell));
      EXPECT_GE(values, (cpus + 1) * recorded_area_size(bits) + sizeof(StatisticCounts));
      EXPECT_GE(live_size(bits, cpus), sizeof(StatisticHeader) + values);
      EXPECT_EQ(baseline_offset(bits, cpus, 1), live_size(bits, cpus));
      EXPECT_GE(baseline_offset(bits, cpus, 2), baseline_offset(bits, cpus, 1) + values);
      EXPECT_GE(statistic_size(bits, cpus), baseline_offset(bits, cpus, 2) + values);
      EXPECT_EQ(statistic_size(bits, cpus) % kPageSize, 0u);
    }
}

TEST(RecordedFile, NamesAreThoseThatACommandLineCanTake) {
  for (const char* name : {"a", "reads", "GAP", "_controls", "...", ".a", "x:y", "\xc3\xa4"})
    EXPECT_TRUE(is_statistic_name(name)) << name;
  EXPECT_TRUE(is_statistic_name(std::string(63, 'x')));
  for (const char* name : {"", ".", "..", "a b", "a/b", "a\n", "\x1b[m", "\x7f",
                           "\xc2\x9b"
                           "m",
                           "_control", "GAP-"})
    EXPECT_FALSE(is_statistic_name(name)) << name;
  EXPECT_FALSE(is_statistic_name(std::string(64, 'x')));
}

TEST(RecordedFile, HeadersThatClaimMoreThanThereIsAreRefused) {
  const RecordedHeader good = header_for(2);
  EXPECT_TRUE(is_valid(good, good.end));
  EXPECT_FALSE(is_valid(good, good.end - 1));
  const auto refused = [&](auto&& change) {
    RecordedHeader bad = good;
    change(bad);
    return !is_valid(bad, UINT64_MAX);
  };
  EXPECT_TRUE(refused([](RecordedHeader& bad) { bad.magic ^= 1; }));
  EXPECT_TRUE(refused([](RecordedHeader& bad) { bad.version += 1; }));
  EXPECT_TRUE(refused([](RecordedHeader& bad) { bad.header_size -= 8; }));
  EXPECT_TRUE(refused([](RecordedHeader& bad) { bad.pid = 0; }));
  EXPECT_TRUE(refused([](RecordedHeader& bad) { bad.cpu_count = kMaxCpus + 1; }));
  EXPECT_TRUE(refused([](RecordedHeader& bad) { bad.end = 0; }));
  EXPECT_TRUE(refused([](RecordedHeader& bad) { bad.end += 1; }));
}

TEST(RecordedFile, StatisticsThatReachBeyondTheFileAreRefused) {
  const RecordedHeader header = header_for(1);
  const StatisticHeader good = statistic_named("good");
  EXPECT_TRUE(is_valid(good, header, kPageSize));
  EXPECT_FALSE(is_valid(good, header, kPageSize + 1));
  EXPECT_FALSE(is_valid(good, header, header.end));
  EXPECT_FALSE(is_valid(good, header, UINT64_MAX));
  const auto refused = [&](auto&& change) {
    StatisticHeader bad = good;
    change(bad);
    return !is_valid(bad, header, kPageSize);
  };
  EXPECT_TRUE(refused([](StatisticHeader& bad) { bad.size = 0; }));
  EXPECT_TRUE(refused([](StatisticHeader& bad) { bad.size -= kPageSize; }));
  EXPECT_TRUE(refused([](StatisticHeader& bad) { bad.fraction_bits = 6; }));
  EXPECT_TRUE(refused([](StatisticHeader& bad) { bad.fraction_bits = 2; }));
  EXPECT_TRUE(refused([](StatisticHeader& bad) { bad.control |= 6; }));
  EXPECT_TRUE(refused([](StatisticHeader& bad) { bad.name[0] = '\0'; }));
  EXPECT_TRUE(refused([](StatisticHeader& bad) { std::memset(bad.name, 'x', sizeof bad.name); }));
  EXPECT_TRUE(
      refused([](StatisticHeader& bad) { bad.state = static_cast<StatisticHeader::State>(2); }));
}

TEST(ControlWord, AllThatRecordingDependsOnIsInItsFirstByte) {
  const uint64_t control = make_control(true, 2, UINT64_MAX >> 8);
  EXPECT_TRUE(is_running(control & 0xff));
  EXPECT_EQ(baseline_of(control & 0xff), 2u);
}

TEST(ControlWord, ResetsUseTheBaselinesInTurnAndDropStarts) {
  uint64_t control = make_control(true, 0, 5);
  for (unsigned expected : {1u, 2u, 1u, 2u}) {
    const uint64_t before = control;
    EXPECT_EQ(next_baseline(control), expected);
    control = after_reset(control);
    EXPECT_EQ(baseline_of(control), expected);
    EXPECT_NE(generation_of(control), generation_of(before));
    EXPECT_TRUE(is_running(control));
  }
}

TEST(ControlWord, OnlyAResumptionOfAStoppedStatisticDropsStarts) {
  const uint64_t running = make_control(true, 1, 5), stopped = with_running(running, false);
  EXPECT_FALSE(is_running(stopped));
  EXPECT_EQ(baseline_of(stopped), 1u);
  EXPECT_EQ(with_running(running, true), running);
  EXPECT_EQ(with_running(stopped, false), stopped);
  EXPECT_NE(generation_of(with_running(stopped, true)), generation_of(running));
}

}  // namespace
}  // namespace pinprick::layout
