// The hits that probes, counters and timers count while they are enabled, and while they are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "library/functions.h"
#include "library/place.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

const Handler kNothing = [](Registers&) {};

std::vector<uint8_t> text_of(long (*function)(long)) {
  const auto* const bytes = reinterpret_cast<const volatile uint8_t*>(function);
  return {bytes, bytes + 16};
}

TEST(Hits, OfAProbeAreThoseOfItsLifetime) {
  self_window(1, 1);
  const Probe probe = place({.where = self_window, .pre = kNothing, .count_hits = true});
  EXPECT_EQ(*probe.hits(), 0u);
  self_window(1, 1);
  self_window(1, 1);
  const Probe beside = place({.where = self_window, .post = kNothing, .count_hits = true});
  self_window(1, 1);
  EXPECT_EQ(*probe.hits(), 3u);
  EXPECT_EQ(*beside.hits(), 1u);
  const Probe other = place({.where = self_nop, .pre = kNothing, .count_hits = true});
  EXPECT_EQ(*other.hits(), 0u);
}

TEST(Hits, IncludeThoseThatWereMissed) {
  const Handler calls_again = [](Registers&) { EXPECT_EQ(self_window(2, 2), 8); };
  const Probe probe = place({.where = self_window, .pre = calls_again, .count_hits = true});
  self_window(1, 1);
  EXPECT_EQ(*probe.hits(), 2u);
  EXPECT_EQ(probe.missed(), 1u);
}

TEST(Hits, OfADisabledProbeAreNotCountedEvenIfAnotherProbeIsThere) {
  Probe probe =
      place({.where = self_window, .pre = kNothing, .enabled = false, .count_hits = true});
  const Probe beside = place({.where = self_window, .pre = kNothing, .count_hits = true});
  self_window(1, 1);
  EXPECT_EQ(*probe.hits(), 0u);
  ASSERT_TRUE(probe.enable().ok());
  self_window(1, 1);
  ASSERT_TRUE(probe.disable().ok());
  self_window(1, 1);
  ASSERT_TRUE(probe.enable().ok());
  self_window(1, 1);
  EXPECT_EQ(*probe.hits(), 2u);
  EXPECT_EQ(*beside.hits(), 4u);
}

TEST(Hits, OfABreakpointAreCounted) {
  const Probe probe =
      place({.where = self_short, .pre = kNothing, .allow_breakpoint = true, .count_hits = true});
  self_short(5);
  self_short(5);
  EXPECT_EQ(*probe.hits(), 2u);
}

TEST(Hits, AreThoseOfAllThreadsWhileAnotherEnablesAndDisables) {
  std::atomic<uint64_t> runs = 0;
  Probe probe = place({.where = self_nop, .pre = [&](Registers&) { ++runs; }, .count_hits = true});
  Counter counter = must(Counter::place(self_nop));
  constexpr uint64_t kCalls = 20000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([] {
      for (uint64_t call = 0; call < kCalls; ++call) self_nop(1);
    });
  constexpr uint64_t kThreads = 2, kChanges = 50;
  for (uint64_t i = 0; i < kChanges; ++i) {
    EXPECT_TRUE(probe.disable().ok());
    EXPECT_TRUE(probe.enable().ok());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 2 * kCalls);
  // A thread may count a hit before the probe is enabled, and find its handler afterwards.
  EXPECT_GE(*probe.hits() + kThreads * kChanges, runs);
  EXPECT_LE(*probe.hits(), counter.value());
}

TEST(Hits, AreUnknownIfTheyAreNotCounted) {
  const Probe probe = place({.where = self_window, .pre = kNothing});
  const Probe beside = place({.where = self_window, .pre = kNothing, .count_hits = true});
  self_window(1, 1);
  EXPECT_EQ(probe.hits(), std::nullopt);
  EXPECT_EQ(beside.hits(), 1u);
}

TEST(ACounter, CountsWhileItIsEnabled) {
  const auto before = text_of(self_insn);
  Counter counter = must(Counter::place(self_insn, {.enabled = false}));
  EXPECT_EQ(text_of(self_insn), before);
  EXPECT_EQ(counter.placement(), Placement::disabled);
  self_insn(1);
  ASSERT_TRUE(counter.enable().ok());
  EXPECT_EQ(counter.placement(), Placement::jump);
  self_insn(1);
  ASSERT_TRUE(counter.disable().ok());
  EXPECT_EQ(text_of(self_insn), before);
  self_insn(1);
  EXPECT_EQ(counter.value(), 1u);
  ASSERT_TRUE(counter.enable().ok());
  self_insn(1);
  EXPECT_EQ(counter.value(), 2u);
}

TEST(Counters, AreEnabledAndDisabledTogether) {
  std::vector<Counter> counters =
      must(Counter::place({self_insn, self_window, self_insn}, {.enabled = false}));
  ASSERT_TRUE(Counter::enable(counters).ok());
  self_insn(1);
  self_window(1, 1);
  ASSERT_TRUE(Counter::disable(std::span(counters).first(1)).ok());
  self_insn(1);
  ASSERT_TRUE(Counter::disable(counters).ok());
  self_insn(1);
  EXPECT_EQ(counters[0].value(), 1u);
  EXPECT_EQ(counters[1].value(), 1u);
  EXPECT_EQ(counters[2].value(), 2u);
}

TEST(ACounter, IsABreakpointWhereThatIsAllowed) {
  EXPECT_FALSE(Counter::place(self_short));
  const Counter counter = must(Counter::place(self_short, {.allow_breakpoint = true}));
  EXPECT_EQ(counter.placement(), Placement::breakpoint);
  EXPECT_EQ(counter.why_no_jump(), NoJump::too_short);
  EXPECT_EQ(counter.name(), "self_short");
  EXPECT_EQ(self_short(5), 8);
  EXPECT_EQ(counter.value(), 1u);
}

// Not so if it did not allow a breakpoint: then the probe under its jump is refused.
TEST(ACounter, GivesWayToAProbeUnderItsJumpIfItAllowsABreakpoint) {
  const void* const second = inside(self_window, kSecondOfWindow);
  const Counter counter = must(Counter::place(self_window, {.allow_breakpoint = true}));
  const Counter inner = must(Counter::place(second));
  EXPECT_EQ(counter.placement(), Placement::breakpoint);
  EXPECT_EQ(counter.why_no_jump(), NoJump::neighbour);
  EXPECT_EQ(self_window(1, 1), 4);
  EXPECT_EQ(counter.value(), 1u);
  EXPECT_EQ(inner.value(), 1u);
}

TEST(ALatency, TimesCallsWhileItIsEnabledEvenIfAnotherTimesThemAll) {
  const auto before = text_of(self_insn);
  Latency latency = must(Latency::place(self_insn, {.enabled = false}));
  EXPECT_EQ(text_of(self_insn), before);
  self_insn(1);
  {
    const Latency all = must(Latency::place(self_insn));
    self_insn(1);
    ASSERT_TRUE(latency.enable().ok());
    self_insn(1);
    self_insn(1);
    ASSERT_TRUE(latency.disable().ok());
    self_insn(1);
    EXPECT_EQ(all.snapshot().count(), 4u);
  }
  EXPECT_EQ(text_of(self_insn), before);
  EXPECT_EQ(latency.snapshot().count(), 2u);
  ASSERT_TRUE(latency.enable().ok());
  self_insn(1);
  EXPECT_EQ(latency.snapshot().count(), 3u);
  EXPECT_EQ(latency.placement(), Placement::jump);
}

TEST(ALatency, IsABreakpointWhereThatIsAllowed) {
  EXPECT_FALSE(Latency::place(self_short));
  const Latency latency = must(Latency::place(self_short, {.allow_breakpoint = true}));
  EXPECT_EQ(latency.placement(), Placement::breakpoint);
  EXPECT_EQ(latency.why_no_jump(), NoJump::too_short);
  EXPECT_EQ(self_short(5), 8);
  EXPECT_EQ(latency.snapshot().count(), 1u);
}

TEST(Latencies, AreEnabledAndDisabledTogether) {
  std::vector<Latency> all = must(Latency::place({self_insn, self_window}, {.enabled = false}));
  ASSERT_TRUE(Latency::enable(all).ok());
  self_insn(1);
  self_window(1, 1);
  ASSERT_TRUE(Latency::disable(all).ok());
  self_insn(1);
  EXPECT_EQ(all[0].snapshot().count(), 1u);
  EXPECT_EQ(all[1].snapshot().count(), 1u);
}

TEST(AReturnProbe, SaysHowItIsPlaced) {
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_short, .on_return = kNothing, .allow_breakpoint = true});
  EXPECT_EQ(probe.name(), "self_short");
  EXPECT_EQ(probe.placement(), Placement::breakpoint);
  EXPECT_EQ(probe.why_no_jump(), NoJump::too_short);
}

}  // namespace
}  // namespace pinprick
