// Takes all probes out of the text, and puts them back, whatever the state of each one is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "library/callers.h"
#include "library/functions.h"
#include "library/in_child.h"
#include "library/place.h"
#include "library/trap_signal.h"
#include "library/write_text.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

PINPRICK_INTEGER_ONLY void count(Registers&, void* user) noexcept {
  __atomic_fetch_add(static_cast<uint64_t*>(user), 1, __ATOMIC_RELAXED);
}

ProbeSpec counting(Where where, uint64_t& hits) {
  return {.where = std::move(where), .pre = integer_only<&count>(&hits)};
}

template <class F>
std::vector<uint8_t> text_of(F* function) {
  const auto* const bytes = reinterpret_cast<const volatile uint8_t*>(function);
  return {bytes, bytes + 16};
}

class Arming : public testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(arm_all().ok()); }
};

TEST_F(Arming, TakesAllProbesOutOfTheTextAndPutsThemBack) {
  const auto text = text_of(&self_window);
  const auto text_of_short = text_of(&self_short);
  uint64_t before = 0, after = 0, returns = 0, traps = 0;
  const Probe probe = place({.where = self_window,
                             .pre = integer_only<&count>(&before),
                             .post = integer_only<&count>(&after)});
  const ReturnProbe other =
      place(ReturnProbeSpec{.where = self_window, .on_return = integer_only<&count>(&returns)});
  const Counter counter = must(Counter::place(self_window));
  const Latency latency = must(Latency::place(self_window));
  const Span span = must(Span::place({.from = self_window, .to = self_window}));
  const Probe breakpoint = place({.where = inside(self_short, 2),
                                  .pre = integer_only<&count>(&traps),
                                  .allow_breakpoint = true});
  const auto armed_text = text_of(&self_window);
  const auto call = [] {
    EXPECT_EQ(self_window(10, 7), 37);
    EXPECT_EQ(self_short(5), 8);
  };
  const auto expect_hits = [&](uint64_t number) {
    for (uint64_t hits : {before, after, returns, traps, counter.value(),
                          latency.snapshot().count(), span.snapshot().count() + 1})
      EXPECT_EQ(hits, number);
    EXPECT_EQ(probe.missed(), 0u);
    EXPECT_EQ(other.missed(), 0u);
  };
  call();
  expect_hits(1);
  for (uint64_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(disarm_all().ok());
    EXPECT_EQ(text_of(&self_window), text);
    EXPECT_EQ(text_of(&self_short), text_of_short);
    EXPECT_EQ(probe.placement(), Placement::disabled);
    EXPECT_THAT(list_probes(), Not(HasSubstr("OPTIMIZED")));
    EXPECT_THAT(list_probes(), Not(HasSubstr("DISABLED")));
    call();
    expect_hits(round);
    ASSERT_TRUE(arm_all().ok());
    EXPECT_EQ(text_of(&self_window), armed_text);
    EXPECT_EQ(probe.placement(), Placement::jump);
    EXPECT_EQ(breakpoint.placement(), Placement::breakpoint);
    call();
    expect_hits(round + 1);
  }
}

TEST_F(Arming, CanBeRepeated) {
  uint64_t hits = 0;
  const Probe probe = place(counting(self_insn, hits));
  ASSERT_TRUE(arm_all().ok());
  self_insn(1);
  EXPECT_EQ(hits, 1u);
  ASSERT_TRUE(disarm_all().ok());
  ASSERT_TRUE(disarm_all().ok());
  self_insn(1);
  EXPECT_EQ(hits, 1u);
  ASSERT_TRUE(arm_all().ok());
  self_insn(1);
  EXPECT_EQ(hits, 2u);
}

TEST_F(Arming, LeavesEachProbeEnabledOrDisabled) {
  uint64_t enabled_hits = 0, disabled_hits = 0;
  const Probe enabled = place(counting(self_insn, enabled_hits));
  Probe disabled = place(counting(self_nop, disabled_hits));
  ASSERT_TRUE(disabled.disable().ok());
  ASSERT_TRUE(disarm_all().ok());
  EXPECT_THAT(list_probes(), HasSubstr("self_nop+0x0  library_test [DISABLED]\n"));
  ASSERT_TRUE(arm_all().ok());
  self_insn(1);
  self_nop(1);
  EXPECT_EQ(enabled_hits, 1u);
  EXPECT_EQ(disabled_hits, 0u);
}

TEST_F(Arming, AppliesChangesMadeWhileDisarmed) {
  uint64_t hits[4] = {};
  long (*const functions[])(long) = {self_insn, self_nop, self_marked, self_pushes};
  std::vector<Probe> probes;
  for (size_t i = 0; i < 4; ++i) probes.push_back(place(counting(functions[i], hits[i])));
  const auto call = [&] {
    for (auto* function : functions) function(1);
  };
  ASSERT_TRUE(probes[0].disable().ok());
  ASSERT_TRUE(probes[1].disable().ok());
  ASSERT_TRUE(disarm_all().ok());
  ASSERT_TRUE(probes[1].enable().ok());
  ASSERT_TRUE(Probe::disable(std::span(probes).subspan(2, 2)).ok());
  ASSERT_TRUE(probes[3].enable().ok());
  call();
  EXPECT_THAT(hits, Each(0u));
  ASSERT_TRUE(arm_all().ok());
  call();
  EXPECT_THAT(hits, testing::ElementsAre(0u, 1u, 0u, 1u));
}

TEST_F(Arming, ArmsProbesPlacedWhileDisarmed) {
  const auto text = text_of(&self_insn);
  ASSERT_TRUE(disarm_all().ok());
  uint64_t hits = 0, returns = 0;
  {
    const Probe probe = place(counting(self_insn, hits));
    const ReturnProbe other =
        place(ReturnProbeSpec{.where = self_insn, .on_return = integer_only<&count>(&returns)});
    const Counter counter = must(Counter::place(self_insn));
    const Latency latency = must(Latency::place(self_insn));
    const auto expect_hits = [&](uint64_t number) {
      for (uint64_t some : {hits, returns, counter.value(), latency.snapshot().count()})
        EXPECT_EQ(some, number);
    };
    EXPECT_EQ(probe.placement(), Placement::disabled);
    self_insn(1);
    expect_hits(0);
    ASSERT_TRUE(arm_all().ok());
    self_insn(1);
    expect_hits(1);
    ASSERT_TRUE(disarm_all().ok());
  }
  ASSERT_TRUE(arm_all().ok());
  EXPECT_EQ(self_insn(1), 1001);
  EXPECT_EQ(hits, 1u);
  EXPECT_EQ(text_of(&self_insn), text);
}

TEST_F(Arming, PlacesANeighbourThatWasAddedWhileDisarmed) {
  uint64_t outer_hits = 0, inner_hits = 0;
  ProbeSpec outer_spec = counting(self_window, outer_hits);
  outer_spec.allow_breakpoint = true;
  const Probe outer = place(outer_spec);
  ASSERT_TRUE(disarm_all().ok());
  {
    const Probe inner = place(counting(inside(self_window, kSecondOfWindow), inner_hits));
    ASSERT_TRUE(arm_all().ok());
    EXPECT_EQ(outer.placement(), Placement::breakpoint);
    EXPECT_EQ(self_window(10, 7), 37);
    ASSERT_TRUE(disarm_all().ok());
  }
  ASSERT_TRUE(arm_all().ok());
  EXPECT_EQ(outer.placement(), Placement::jump);
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(outer_hits, 2u);
  EXPECT_EQ(inner_hits, 1u);
}

TEST_F(Arming, AppliesTheOptimisersSwitch) {
  uint64_t hits = 0;
  const Probe probe = place(counting(self_window, hits));
  ASSERT_TRUE(disarm_all().ok());
  const auto text = text_of(&self_window);
  ASSERT_TRUE(optimise(false).ok());
  EXPECT_EQ(text_of(&self_window), text);
  ASSERT_TRUE(arm_all().ok());
  EXPECT_EQ(probe.placement(), Placement::breakpoint);
  ASSERT_TRUE(disarm_all().ok());
  ASSERT_TRUE(optimise(true).ok());
  ASSERT_TRUE(arm_all().ok());
  EXPECT_EQ(probe.placement(), Placement::jump);
  self_window(1, 1);
  EXPECT_EQ(hits, 1u);
}

TEST_F(Arming, KeepsTheCountsOfMissedHits) {
  uint64_t hits = 0;
  const Probe inner = place(counting(self_insn, hits));
  const Probe outer = place({.where = self_window, .pre = [](Registers&) { self_insn(1); }});
  self_window(1, 1);
  ASSERT_TRUE(disarm_all().ok());
  self_window(1, 1);
  EXPECT_EQ(inner.missed(), 1u);
  ASSERT_TRUE(arm_all().ok());
  self_window(1, 1);
  EXPECT_EQ(inner.missed(), 2u);
  EXPECT_EQ(hits, 0u);
}

TEST_F(Arming, MeasuresCallsInFlightToTheirEnd) {
  uint64_t returns = 0;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_waits, .on_return = integer_only<&count>(&returns)});
  std::atomic<long> flag{0};
  const auto wait = [&] { self_waits(reinterpret_cast<long>(&flag)); };
  std::thread caller(wait);
  while (flag != 1) std::this_thread::yield();
  ASSERT_TRUE(disarm_all().ok());
  flag = 2;
  caller.join();
  EXPECT_EQ(returns, 1u);
  flag = 0;
  std::thread later(wait);
  while (flag != 1) std::this_thread::yield();
  ASSERT_TRUE(arm_all().ok());
  flag = 2;
  later.join();
  EXPECT_EQ(returns, 1u);
}

// ------------------------------------------------------------------------------------- refusals

TEST_F(Arming, CannotChangeWhileAThreadBlocksTheTrapSignal) {
  uint64_t hits = 0;
  const Probe probe = place(counting(self_window, hits));
  const Counter counter = must(Counter::place(self_insn));
  {
    const BlockedTrapSignal blocked;
    const auto disarmed = disarm_all();
    ASSERT_FALSE(disarmed.ok());
    EXPECT_EQ(disarmed.error().cause, Cause::signal_blocked);
    self_window(1, 1);
    self_insn(1);
  }
  EXPECT_EQ(hits, 1u);
  EXPECT_EQ(counter.value(), 1u);
  ASSERT_TRUE(disarm_all().ok());
  {
    const BlockedTrapSignal blocked;
    const auto armed = arm_all();
    ASSERT_FALSE(armed.ok());
    EXPECT_EQ(armed.error().cause, Cause::signal_blocked);
  }
  self_window(1, 1);
  self_insn(1);
  EXPECT_EQ(hits, 1u);
  EXPECT_EQ(counter.value(), 1u);
  ASSERT_TRUE(arm_all().ok());
  self_window(1, 1);
  self_insn(1);
  EXPECT_EQ(hits, 2u);
  EXPECT_EQ(counter.value(), 2u);
}

TEST_F(Arming, PlacesAProbeThatWasEnabledWhileTheTrapSignalWasBlocked) {
  uint64_t hits = 0;
  Probe probe = place(counting(self_window, hits));
  ASSERT_TRUE(probe.disable().ok());
  ASSERT_TRUE(disarm_all().ok());
  {
    const BlockedTrapSignal blocked;
    EXPECT_TRUE(probe.enable().ok());
  }
  ASSERT_TRUE(arm_all().ok());
  self_window(1, 1);
  EXPECT_EQ(hits, 1u);
}

// Otherwise arm_all() would fail for all of them because of one.
TEST_F(Arming, DoesNotRefuseAProbeThatEnablingCouldHaveRefused) {
  uint64_t hits = 0, other_hits = 0;
  Probe probe = place(counting(self_insn, hits));
  const Probe other = place(counting(self_window, other_hits));
  ASSERT_TRUE(probe.disable().ok());
  ASSERT_TRUE(disarm_all().ok());
  const void* const operand = inside(self_insn, 1);
  const uint8_t original = *static_cast<const volatile uint8_t*>(operand);
  write_text(operand, static_cast<uint8_t>(original + 1));
  const auto enabled = probe.enable();
  ASSERT_FALSE(enabled.ok());
  EXPECT_EQ(enabled.error().cause, Cause::refused);
  EXPECT_TRUE(arm_all().ok());
  self_insn(1);
  self_window(1, 1);
  EXPECT_EQ(hits, 0u);
  EXPECT_EQ(other_hits, 1u);
  write_text(operand, original);
}

TEST_F(Arming, ArmsNoneIfOneCannotBeArmed) {
  uint64_t hits = 0, other_hits = 0;
  std::optional<Probe> probe = place(counting(self_insn, hits));
  const Probe other = place(counting(self_window, other_hits));
  ASSERT_TRUE(disarm_all().ok());
  const void* const operand = inside(self_insn, 1);
  const uint8_t original = *static_cast<const volatile uint8_t*>(operand);
  write_text(operand, static_cast<uint8_t>(original + 1));
  const auto armed = arm_all();
  ASSERT_FALSE(armed.ok());
  EXPECT_THAT(armed.error().message(), HasSubstr("self_insn"));
  self_window(1, 1);
  EXPECT_EQ(other_hits, 0u);
  write_text(operand, original);
  ASSERT_TRUE(arm_all().ok());
  self_insn(1);
  self_window(1, 1);
  EXPECT_EQ(hits, 1u);
  EXPECT_EQ(other_hits, 1u);
}

// -------------------------------------------------------------------- under threads, in handlers

thread_local bool is_measured;

PINPRICK_INTEGER_ONLY void count_if_measured(Registers&, void* user) noexcept {
  if (is_measured) ++*static_cast<uint64_t*>(user);
}

TEST_F(Arming, TakesEffectAtOnceWhileThreadsCall) {
  std::vector<uint64_t> hits(kStressFunctions);
  std::vector<ProbeSpec> specs;
  for (size_t i = 0; i < kStressFunctions; ++i)
    specs.push_back({.where = stress_functions[i],
                     .pre = integer_only<&count_if_measured>(&hits[i]),
                     .allow_breakpoint = true});
  const auto probes = must(Probe::place(std::move(specs)));
  const auto call_all = [] {
    is_measured = true;
    for (size_t i = 0; i < kStressFunctions; ++i) EXPECT_TRUE(call_stress_function(i, 7));
    is_measured = false;
  };
  Callers callers;
  for (uint64_t round = 1; round <= 100; ++round) {
    ASSERT_TRUE(arm_all().ok());
    call_all();
    ASSERT_TRUE(disarm_all().ok());
    call_all();
    ASSERT_THAT(hits, Each(round));
  }
  callers.stop();
  EXPECT_EQ(callers.wrong(), 0u);
}

// The handler goes on until the text is the program's own again, and a while longer.
TEST_F(Arming, ReturnsFromDisarmingWhenNoHandlerRunsAnyMore) {
  const auto text = text_of(&self_window);
  std::atomic<bool> runs{false}, is_over{false};
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) {
                               runs = true;
                               while (text_of(&self_window) != text) std::this_thread::yield();
                               for (int i = 0; i < 1000; ++i) std::this_thread::yield();
                               is_over = true;
                             }});
  for (int round = 0; round < 10; ++round) {
    runs = is_over = false;
    std::thread caller([] { self_window(1, 1); });
    while (!runs) std::this_thread::yield();
    EXPECT_TRUE(disarm_all().ok());
    EXPECT_TRUE(is_over);
    caller.join();
    ASSERT_TRUE(arm_all().ok());
  }
}

TEST_F(Arming, CanBeChangedByAHandlerThatIsDisarmedWithIt) {
  int hits = 0;
  uint64_t other_hits = 0;
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) {
                               ++hits;
                               EXPECT_TRUE(disarm_all().ok());
                             }});
  const Probe other = place(counting(self_insn, other_hits));
  for (int round = 1; round <= 10; ++round) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(self_window(10, 7), 37);
      EXPECT_EQ(self_insn(1), 1001);
    }
    EXPECT_EQ(hits, round);
    EXPECT_EQ(other_hits, 0u);
    ASSERT_TRUE(arm_all().ok());
  }
}

TEST_F(Arming, CanBeChangedByHandlersOfManyThreadsAtOnce) {
  std::atomic<uint64_t> hits{0};
  std::vector<ProbeSpec> specs;
  for (size_t i = 0; i < kStressFunctions; i += 16)
    specs.push_back({.where = stress_functions[i],
                     .pre =
                         [&](Registers&) {
                           ++hits;
                           EXPECT_TRUE(disarm_all().ok());
                           EXPECT_TRUE(arm_all().ok());
                         },
                     .allow_breakpoint = true});
  const auto probes = must(Probe::place(std::move(specs)));
  Callers callers;
  while (hits < 300) std::this_thread::yield();
  ASSERT_TRUE(disarm_all().ok());
  callers.stop();
  EXPECT_EQ(callers.wrong(), 0u);
}

TEST_F(Arming, IsSeparateInAForkedChild) {
  uint64_t hits = 0;
  const Probe probe = place(counting(self_insn, hits));
  ASSERT_TRUE(disarm_all().ok());
  in_child([&] {
    self_insn(1);
    EXPECT_EQ(hits, 0u);
    EXPECT_TRUE(arm_all().ok());
    self_insn(1);
    EXPECT_EQ(hits, 1u);
  });
  self_insn(1);
  EXPECT_EQ(hits, 0u);
}

}  // namespace
}  // namespace pinprick
