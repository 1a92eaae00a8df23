// Jumps that become breakpoints, and breakpoints that become jumps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "library/functions.h"
#include "library/place.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

using testing::HasSubstr;
using testing::Not;

template <class F>
std::vector<uint8_t> text_of(F* function) {
  const auto* const bytes = reinterpret_cast<const volatile uint8_t*>(function);
  return {bytes, bytes + 16};
}

Probe counting(Where where, int& hits) {
  return place({.where = std::move(where),
                .pre = [&hits](Registers&) { ++hits; },
                .allow_breakpoint = true});
}

class Optimiser : public testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(optimise(true).ok()); }
};

TEST_F(Optimiser, TurnsJumpsIntoBreakpointsAndBack) {
  const auto text = text_of(&self_window);
  {
    int hits = 0;
    const Probe probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
    const auto as_jump = text_of(&self_window);
    ASSERT_TRUE(optimise(false).ok());
    EXPECT_EQ(probe.placement(), Placement::breakpoint);
    EXPECT_EQ(probe.why_no_jump(), NoJump::switched_off);
    EXPECT_THAT(list_probes(), Not(HasSubstr("OPTIMIZED")));
    auto as_breakpoint = text;
    as_breakpoint[0] = 0xcc;
    EXPECT_EQ(text_of(&self_window), as_breakpoint);
    EXPECT_EQ(self_window(10, 7), 37);
    EXPECT_EQ(hits, 1);
    ASSERT_TRUE(optimise(true).ok());
    EXPECT_EQ(probe.placement(), Placement::jump);
    EXPECT_EQ(probe.why_no_jump(), NoJump::none);
    EXPECT_EQ(text_of(&self_window), as_jump);
    EXPECT_EQ(self_window(10, 7), 37);
    EXPECT_EQ(hits, 2);
  }
  EXPECT_EQ(text_of(&self_window), text);
}

TEST_F(Optimiser, LetsEverythingWorkByBreakpoints) {
  const auto text = text_of(&self_window);
  ASSERT_TRUE(optimise(false).ok());
  {
    int before = 0, after = 0, returns = 0;
    const Probe probe = place({.where = self_window,
                               .pre = [&](Registers&) { ++before; },
                               .post = [&](Registers&) { ++after; }});
    const ReturnProbe other =
        place(ReturnProbeSpec{.where = self_window, .on_return = [&](Registers&) { ++returns; }});
    const Latency latency = must(Latency::place(self_window));
    const Counter counter = must(Counter::place(self_window));
    EXPECT_EQ(probe.placement(), Placement::breakpoint);
    EXPECT_EQ(self_window(10, 7), 37);
    ASSERT_TRUE(optimise(true).ok());
    EXPECT_EQ(probe.placement(), Placement::jump);
    EXPECT_EQ(self_window(10, 7), 37);
    ASSERT_TRUE(optimise(false).ok());
    EXPECT_EQ(self_window(10, 7), 37);
    EXPECT_EQ(before, 3);
    EXPECT_EQ(after, 3);
    EXPECT_EQ(returns, 3);
    EXPECT_EQ(latency.snapshot().count(), 3u);
    EXPECT_EQ(counter.value(), 3u);
  }
  EXPECT_EQ(text_of(&self_window), text);
}

TEST_F(Optimiser, CannotBeSwitchedWhileAThreadBlocksTheTrapSignal) {
  int hits = 0;
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTRAP);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const auto switched = optimise(false);
  EXPECT_EQ(self_window(10, 7), 37);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ASSERT_FALSE(switched.ok());
  EXPECT_EQ(switched.error().cause, Cause::signal_blocked);
  EXPECT_EQ(probe.placement(), Placement::jump);
  EXPECT_EQ(hits, 1);
}

TEST_F(Optimiser, TurnsAJumpOverAnotherProbeIntoABreakpointUntilThatIsRemoved) {
  const auto text = text_of(&self_window);
  int first = 0, second = 0;
  std::optional<Probe> outer = counting(self_window, first);
  EXPECT_EQ(outer->placement(), Placement::jump);
  {
    const Probe inner = counting(inside(self_window, kSecondOfWindow), second);
    EXPECT_EQ(outer->placement(), Placement::breakpoint);
    EXPECT_EQ(outer->why_no_jump(), NoJump::neighbour);
    EXPECT_EQ(self_window(10, 7), 37);
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 1);
  }
  EXPECT_EQ(outer->placement(), Placement::jump);
  EXPECT_EQ(outer->why_no_jump(), NoJump::none);
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
  outer.reset();
  EXPECT_EQ(text_of(&self_window), text);
}

TEST_F(Optimiser, TreatsADisabledProbeAsANeighbour) {
  int first = 0, second = 0;
  const Probe outer = counting(self_window, first);
  Probe inner = counting(inside(self_window, kSecondOfWindow), second);
  ASSERT_TRUE(inner.disable().ok());
  EXPECT_EQ(outer.placement(), Placement::breakpoint);
  EXPECT_EQ(self_window(10, 7), 37);
  ASSERT_TRUE(inner.enable().ok());
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
}

TEST_F(Optimiser, TurnsABreakpointIntoAJumpWhenItsNeighbourIsRemoved) {
  int first = 0, second = 0;
  std::optional<Probe> inner = counting(inside(self_window, kSecondOfWindow), second);
  const Probe outer = counting(self_window, first);
  EXPECT_EQ(outer.placement(), Placement::breakpoint);
  inner.reset();
  EXPECT_EQ(outer.placement(), Placement::jump);
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
}

TEST_F(Optimiser, LeavesNeighboursJumpsIfABatchFails) {
  int first = 0;
  const Probe outer = counting(self_window, first);
  const auto as_jump = text_of(&self_window);
  std::vector<ProbeSpec> specs;
  for (const Where& where :
       {Where(inside(self_window, kSecondOfWindow)), Where("no_such_function_anywhere")})
    specs.push_back({.where = where, .pre = [](Registers&) {}, .allow_breakpoint = true});
  EXPECT_FALSE(Probe::place(std::move(specs)).ok());
  EXPECT_EQ(outer.placement(), Placement::jump);
  EXPECT_EQ(outer.why_no_jump(), NoJump::none);
  EXPECT_EQ(text_of(&self_window), as_jump);
}

TEST_F(Optimiser, RefusesNeighboursOfAProbeThatMustStayAJump) {
  int first = 0, second = 0;
  const Probe outer = counting(self_window, first);
  std::optional<Probe> strict = place({.where = self_window, .pre = [](Registers&) {}});
  const ProbeSpec inner = {.where = inside(self_window, kSecondOfWindow),
                           .pre = [&](Registers&) { ++second; },
                           .allow_breakpoint = true};
  EXPECT_FALSE(Probe::place(inner).ok());
  EXPECT_EQ(outer.placement(), Placement::jump);
  strict.reset();
  EXPECT_TRUE(Probe::place(inner).ok());
}

// Places and removes probes in any order on these instructions of a function, which are `step`
// bytes apart, so that each may lie under another one's jump.
void come_and_go(long (*function)(long), long added, size_t instructions, size_t step,
                 bool each_has_a_jump) {
  const auto text = text_of(function);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::optional<Probe>> probes(instructions);
    std::vector<int> hits(instructions);
    for (int change = 0; change < 12; ++change) {
      const size_t i = random() % instructions;
      if (probes[i])
        probes[i].reset();
      else
        probes[i] = counting(inside(function, i * step), hits[i]);
      if (random() % 8 == 0) {
        ASSERT_TRUE(optimise(random() % 2 == 0).ok());
      }
      std::fill(hits.begin(), hits.end(), 0);
      ASSERT_EQ(function(round), round + added);
      for (size_t n = 0; n < instructions; ++n)
        ASSERT_EQ(hits[n], probes[n] ? 1 : 0) << round << " " << n;
    }
    ASSERT_TRUE(optimise(true).ok());
    // A probe that is left alone has enough room.
    Probe* alone = nullptr;
    for (auto& probe : probes) {
      if (!probe) continue;
      if (alone == nullptr)
        alone = &*probe;
      else
        probe.reset();
    }
    if (alone != nullptr && each_has_a_jump) {
      ASSERT_EQ(alone->placement(), Placement::jump)
          << alone->name() << sentence(alone->why_no_jump());
    }
  }
  EXPECT_EQ(text_of(function), text);
}

TEST_F(Optimiser, AllowsProbesOnEachInstructionToComeAndGoInAnyOrder) {
  come_and_go(&self_steps, 4, 5, 3, true);
}

// A jump over five of these has only one possible address for its trampoline, and two adjacent
// jumps share it.
TEST_F(Optimiser, PlacesABreakpointIfThereIsNoTrampolineForAJump) {
  come_and_go(&self_pushes, 1, 6, 1, false);
}

}  // namespace
}  // namespace pinprick
