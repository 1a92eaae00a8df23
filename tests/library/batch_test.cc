// Many probes enabled and disabled together.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

#include "library/callers.h"
#include "library/functions.h"
#include "library/place.h"
#include "library/trap_signal.h"
#include "library/write_text.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

PINPRICK_INTEGER_ONLY void count(Registers&, void* user) noexcept {
  __atomic_fetch_add(static_cast<uint64_t*>(user), 1, __ATOMIC_RELAXED);
}

const Handler kNothing = [](Registers&) {};

ProbeSpec disabled(Where where, uint64_t& hits) {
  return {.where = std::move(where),
          .pre = integer_only<&count>(&hits),
          .allow_breakpoint = true,
          .enabled = false};
}

// A disabled probe on each of the stress functions, with its hits.
std::vector<Probe> on_all(std::vector<uint64_t>& hits) {
  std::vector<ProbeSpec> specs;
  hits.assign(kStressFunctions, 0);
  for (size_t i = 0; i < kStressFunctions; ++i)
    specs.push_back(disabled(stress_functions[i], hits[i]));
  return must(Probe::place(std::move(specs)));
}

void call_all() {
  for (size_t i = 0; i < kStressFunctions; ++i) EXPECT_TRUE(call_stress_function(i, 7));
}

TEST(PlacingThosePossible, LeavesOutTheOthersAndSaysWhereAndWhy) {
  uint64_t hits = 0;
  const auto on = [&](Where where) {
    return ProbeSpec{.where = std::move(where), .pre = integer_only<&count>(&hits)};
  };
  std::vector<ProbeSpec> specs;
  specs.push_back(on(inside(self_window, 1)));  // inside an instruction
  specs.push_back(on(self_insn));
  specs.push_back(on("no_such_function"));
  specs.push_back({.where = self_nop});         // no handler
  specs.push_back(on(self_short));              // no room for a jump
  specs.push_back(on(&pinprick::list_probes));  // the library's own
  specs.push_back(on(self_window));
  specs.push_back(on(inside(self_window, kSecondOfWindow)));  // under the jump of the one before
  const auto some = must(Probe::place_possible(std::move(specs)));
  ASSERT_EQ(some.placed.size(), 2u);
  EXPECT_EQ(some.placed[0].name(), "self_insn");
  EXPECT_EQ(some.placed[1].name(), "self_window");
  struct Expected {
    size_t index;
    Cause cause;
    const char* message;
  };
  const Expected expected[] = {
      {0, Cause::refused, "self_window+0x1: cannot be probed: the address lies inside"},
      {2, Cause::not_found, "no_such_function: "},
      {3, Cause::no_handler, "a probe without a handler"},
      {4, Cause::refused, "self_short: cannot be probed: "},
      {5, Cause::blacklisted, "list_probes"},
      {7, Cause::refused, "self_window+0x4: cannot be probed: the jump of another probe"},
  };
  ASSERT_EQ(some.refused.size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(some.refused[i].index, expected[i].index);
    EXPECT_EQ(some.refused[i].error.cause, expected[i].cause);
    EXPECT_THAT(some.refused[i].error.message(), HasSubstr(expected[i].message));
  }
  self_insn(1);
  self_window(1, 1);
  EXPECT_EQ(hits, 2u);
}

// Text is read once, and compared when it is about to be written.
TEST(PlacingThosePossible, LeavesOutWhatTurnsOutToBeImpossibleOnlyAfterPlanning) {
  uint64_t hits = 0;
  const Probe disabled_one = place(disabled(self_insn, hits));
  const void* const operand = inside(self_insn, 1);
  const uint8_t original = *static_cast<const volatile uint8_t*>(operand);
  write_text(operand, static_cast<uint8_t>(original + 1));
  const auto some = must(Counter::place_possible({self_insn, self_window, self_insn, self_nop}));
  write_text(operand, original);
  ASSERT_EQ(some.refused.size(), 2u);
  EXPECT_EQ(some.refused[0].index, 0u);
  EXPECT_EQ(some.refused[1].index, 2u);
  for (const Refusal& one : some.refused)
    EXPECT_THAT(one.error.message(), HasSubstr("self_insn: cannot be probed: its code changed"));
  self_insn(1);
  self_window(1, 1);
  self_nop(1);
  ASSERT_EQ(some.placed.size(), 2u);
  for (const Counter& counter : some.placed) EXPECT_EQ(counter.value(), 1u);
}

TEST(PlacingThosePossible, LeavesTheTextOfThoseThatAreRefusedAlone) {
  const auto* const text = reinterpret_cast<const volatile uint8_t*>(&self_short);
  const std::vector<uint8_t> before(text, text + 16);
  const auto some = must(Counter::place_possible({self_short}));
  EXPECT_TRUE(some.placed.empty());
  EXPECT_EQ(some.refused.size(), 1u);
  EXPECT_EQ(std::vector<uint8_t>(text, text + 16), before);
  EXPECT_EQ(list_probes(), "");
}

// Of the functions of a library, some can never be probed.
TEST(PlacingThosePossible, PlacesWhatPlacingOneByOneWould) {
  const std::vector<Where> all = must(find_functions("libm:*"));
  std::vector<size_t> refused;
  for (size_t i = 0; i < all.size(); ++i)
    if (!Latency::place(all[i])) refused.push_back(i);
  const auto some = must(Latency::place_possible(all));
  std::vector<size_t> left_out;
  for (const Refusal& one : some.refused) {
    left_out.push_back(one.index);
    EXPECT_THAT(one.error.site, Not(StartsWith("0x")));
    EXPECT_NE(one.error.site, "");
  }
  EXPECT_EQ(left_out, refused);
  EXPECT_FALSE(refused.empty());
  EXPECT_EQ(some.placed.size() + refused.size(), all.size());
}

TEST(PlacingThosePossible, OfNoneDoesNothing) {
  const auto some = must(Counter::place_possible({}));
  EXPECT_TRUE(some.placed.empty());
  EXPECT_TRUE(some.refused.empty());
}

TEST(PlacingThosePossible, FailsIfNothingCanBePlacedNow) {
  sigset_t trap;
  ::sigemptyset(&trap);
  ::sigaddset(&trap, SIGTRAP);
  ::pthread_sigmask(SIG_BLOCK, &trap, nullptr);
  const auto some = Counter::place_possible({self_window, self_short});
  ::pthread_sigmask(SIG_UNBLOCK, &trap, nullptr);
  ASSERT_FALSE(some.ok());
  EXPECT_EQ(some.error().cause, Cause::signal_blocked);
  EXPECT_EQ(list_probes(), "");
}

TEST(PlacingABatch, NamesTheFunctionOfAnAddressThatIsRefused) {
  const auto all = Counter::place({self_window, self_short});
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().site, "self_short");
}

TEST(EnablingABatch, EnablesTheProbesThatItNamesAndNoOthers) {
  std::vector<uint64_t> hits;
  std::vector<Probe> probes = on_all(hits);
  const std::span<Probe> half = std::span(probes).first(kStressFunctions / 2);
  ASSERT_TRUE(Probe::enable(half).ok());
  call_all();
  for (size_t i = 0; i < kStressFunctions; ++i) EXPECT_EQ(hits[i], i < half.size() ? 1u : 0u) << i;
  ASSERT_TRUE(Probe::enable(probes).ok());  // half of them are
  call_all();
  for (size_t i = 0; i < kStressFunctions; ++i) EXPECT_EQ(hits[i], i < half.size() ? 2u : 1u) << i;
  ASSERT_TRUE(Probe::disable(half).ok());
  call_all();
  EXPECT_THAT(hits, Each(2u));
}

TEST(DisablingABatch, LeavesTheTextAsItWas) {
  std::vector<std::vector<uint8_t>> before;
  const auto text = [] {
    std::vector<std::vector<uint8_t>> all;
    for (auto* function : stress_functions) {
      const auto* const bytes = reinterpret_cast<const volatile uint8_t*>(function);
      all.emplace_back(bytes, bytes + 16);
    }
    return all;
  };
  before = text();
  std::vector<uint64_t> hits;
  std::vector<Probe> probes = on_all(hits);
  ASSERT_TRUE(Probe::enable(probes).ok());
  EXPECT_NE(text(), before);
  ASSERT_TRUE(Probe::disable(probes).ok());
  EXPECT_EQ(text(), before);
}

// membarrier has no wrapper in libc, so it is called through syscall(). The number of calls does
// not depend on the number of probes, as long as these are one piece.
TEST(EnablingABatch, TakesTheSameNumberOfBarriersForManyAsForOne) {
  std::vector<uint64_t> hits;
  std::vector<Probe> probes = on_all(hits);
  const Counter calls = must(Counter::place("libc:syscall"));
  const auto calls_for = [&](std::span<Probe> some) {
    const uint64_t before = calls.value();
    EXPECT_TRUE(Probe::enable(some).ok());
    EXPECT_TRUE(Probe::disable(some).ok());
    return calls.value() - before;
  };
  const uint64_t for_one = calls_for(std::span(probes).first(1));
  EXPECT_GT(for_one, 0u);
  EXPECT_EQ(calls_for(probes), for_one);
}

TEST(EnablingABatch, WithoutProbesDoesNothing) {
  EXPECT_TRUE(Probe::enable(std::span<Probe>()).ok());
  EXPECT_TRUE(Probe::disable(std::span<Probe>()).ok());
  EXPECT_TRUE(ReturnProbe::enable(std::span<ReturnProbe>()).ok());
  EXPECT_TRUE(ReturnProbe::disable(std::span<ReturnProbe>()).ok());
}

TEST(EnablingABatch, LeavesOutProbesThatWereMovedFrom) {
  uint64_t hits = 0;
  std::vector<Probe> probes;
  probes.reserve(2);
  for (int i = 0; i < 2; ++i) probes.push_back(place(disabled(self_insn, hits)));
  const Probe moved = std::move(probes[0]);
  ASSERT_TRUE(Probe::enable(probes).ok());
  self_insn(1);
  EXPECT_EQ(hits, 1u);
}

// A span has each object only once; but two probes may be at one address.
TEST(EnablingABatch, WorksWithSeveralProbesAtOneAddress) {
  std::vector<uint64_t> hits(3);
  std::vector<Probe> probes;
  probes.reserve(hits.size());
  for (uint64_t& one : hits) probes.push_back(place(disabled(self_insn, one)));
  ASSERT_TRUE(Probe::enable(probes).ok());
  self_insn(1);
  EXPECT_THAT(hits, Each(1u));
  ASSERT_TRUE(Probe::disable(std::span(probes).first(2)).ok());
  self_insn(1);
  EXPECT_THAT(hits, ElementsAre(1u, 1u, 2u));
}

TEST(EnablingABatch, WorksOnReturnProbes) {
  std::vector<uint64_t> returns(3);
  std::vector<ReturnProbeSpec> specs;
  long (*const functions[])(long) = {self_insn, self_nop, self_marked};
  for (size_t i = 0; i < 3; ++i)
    specs.push_back(
        {.where = functions[i], .on_return = integer_only<&count>(&returns[i]), .enabled = false});
  auto probes = must(ReturnProbe::place(std::move(specs)));
  const auto call = [&] {
    for (auto* function : functions) function(1);
  };
  call();
  ASSERT_TRUE(ReturnProbe::enable(std::span(probes).first(2)).ok());
  call();
  EXPECT_THAT(returns, ElementsAre(1u, 1u, 0u));
  ASSERT_TRUE(ReturnProbe::enable(probes).ok());
  ASSERT_TRUE(ReturnProbe::disable(std::span(probes).first(1)).ok());
  call();
  EXPECT_THAT(returns, ElementsAre(1u, 2u, 1u));
}

TEST(EnablingABatch, EnablesTheOthersIfOneIsGone) {
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  uint64_t hits = 0;
  std::vector<Probe> probes;
  probes.push_back(place(disabled(::dlsym(library, "unloaded_function"), hits)));
  probes.push_back(place(disabled(self_insn, hits)));
  ::dlclose(library);
  ASSERT_TRUE(Probe::enable(probes).ok());
  EXPECT_EQ(probes[0].placement(), Placement::gone);
  self_insn(1);
  EXPECT_EQ(hits, 1u);
}

// ------------------------------------------------------------------------------- all or nothing

TEST(EnablingABatch, ThatIsRefusedLeavesEachProbeAsItWas) {
  std::vector<uint64_t> hits;
  std::vector<Probe> probes = on_all(hits);
  ASSERT_TRUE(probes[3].enable().ok());
  {
    const BlockedTrapSignal blocked;
    const auto enabled = Probe::enable(probes);
    ASSERT_FALSE(enabled.ok());
    EXPECT_EQ(enabled.error().cause, Cause::signal_blocked);
    call_all();
  }
  for (size_t i = 0; i < kStressFunctions; ++i) EXPECT_EQ(hits[i], i == 3 ? 1u : 0u) << i;
  for (size_t i = 0; i < kStressFunctions; ++i)
    EXPECT_EQ(probes[i].placement() == Placement::disabled, i != 3) << i;
  ASSERT_TRUE(probes[3].disable().ok());
  ASSERT_TRUE(Probe::enable(probes).ok());
  call_all();
  for (size_t i = 0; i < kStressFunctions; ++i) EXPECT_EQ(hits[i], i == 3 ? 2u : 1u) << i;
}

// The obstacle for the last probe is only found when the text is written: a neighbour that was
// removed while SIGTRAP was blocked is still in the text.
TEST(EnablingABatch, ThatFailsHalfwayLeavesEachProbeAsItWas) {
  uint64_t hits = 0, others = 0;
  const Probe beside = place({.where = self_insn, .pre = integer_only<&count>(&others)});
  std::vector<Probe> probes;
  for (const Where& where : {Where(self_insn), Where(self_nop), Where(self_window)})
    probes.push_back(place(disabled(where, hits)));
  {
    std::optional<Probe> inner =
        place({.where = inside(self_window, kSecondOfWindow), .pre = kNothing});
    const BlockedTrapSignal blocked;
    inner.reset();
  }
  const auto enabled = Probe::enable(probes);
  ASSERT_FALSE(enabled.ok());
  EXPECT_EQ(enabled.error().cause, Cause::refused);
  for (const Probe& probe : probes) EXPECT_EQ(probe.placement(), Placement::disabled);
  EXPECT_EQ(self_insn(5), 1005);
  EXPECT_EQ(self_nop(5), 6);
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(hits, 0u);
  EXPECT_EQ(others, 1u);
  // Without that probe, all others are enabled.
  ASSERT_TRUE(Probe::enable(std::span(probes).first(2)).ok());
  self_insn(5);
  self_nop(5);
  EXPECT_EQ(hits, 2u);
  // A new probe at the neighbour's site takes the site over, and can be removed.
  { const Probe taker = place({.where = inside(self_window, kSecondOfWindow), .pre = kNothing}); }
  EXPECT_TRUE(Probe::enable(probes).ok());
  self_window(10, 7);
  EXPECT_EQ(hits, 3u);
}

// The other sites are in the text already, and lead to stubs that only count. Sites are changed in
// the order of their addresses in memory, so half of them come before the one that fails.
TEST(EnablingABatch, ThatFailsHalfwayCanBeRepeatedWhereCountersAre) {
  const std::span functions = std::span(stress_functions).subspan(128, 64);  // one instruction each
  std::vector<uint64_t> hits(functions.size());
  uint64_t hits_of_refused = 0;
  std::vector<Counter> counters;
  std::vector<Probe> probes, all;
  for (size_t i = 0; i < functions.size(); ++i) {
    counters.push_back(must(Counter::place(functions[i])));
    probes.push_back(place(disabled(functions[i], hits[i])));
    if (i == functions.size() / 2) all.push_back(place(disabled(self_window, hits_of_refused)));
  }
  {
    std::optional<Probe> inner =
        place({.where = inside(self_window, kSecondOfWindow), .pre = kNothing});
    const BlockedTrapSignal blocked;
    inner.reset();
  }
  std::move(probes.begin(), probes.end(), std::back_inserter(all));
  const auto enabled = Probe::enable(all);
  ASSERT_FALSE(enabled.ok());
  EXPECT_EQ(enabled.error().cause, Cause::refused);
  ASSERT_TRUE(Probe::enable(std::span(all).subspan(1)).ok());
  for (auto* function : functions) function(7);
  EXPECT_THAT(hits, Each(1u));
}

// Each neighbour would become a jump again, which takes breakpoints for a moment.
TEST(RemovingABatch, WaitsOnceForAThreadThatBlocksTheTrapSignal) {
  uint64_t hits = 0;
  constexpr uint64_t kSecond = 4;
  std::vector<Probe> outer, inner;
  for (auto* function : std::span(stress_functions).first(64)) {
    outer.push_back(
        place({.where = function, .pre = integer_only<&count>(&hits), .allow_breakpoint = true}));
    inner.push_back(
        place({.where = inside(function, kSecond), .pre = kNothing, .allow_breakpoint = true}));
    ASSERT_EQ(outer.back().placement(), Placement::breakpoint);
  }
  {
    const BlockedTrapSignal blocked;
    const auto start = std::chrono::steady_clock::now();
    Probe::remove(std::move(inner));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  call_all();
  EXPECT_EQ(hits, outer.size());
}

// By the system call itself, as libc's functions are probed.
void block_trap_signal(int how) {
  const uint64_t set = uint64_t{1} << (SIGTRAP - 1);
  long result = SYS_rt_sigprocmask;
  register long size asm("r10") = sizeof set;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(static_cast<long>(how)), "S"(&set), "d"(nullptr), "r"(size)
               : "rcx", "r11", "memory");
}

// More probes than a piece has: on the stress functions, then on libc's functions.
std::vector<Probe> on_libc(bool enabled, uint64_t& hits) {
  std::vector<Probe> probes;
  const auto add = [&](const Where& where) {
    if (auto probe =
            Probe::place({.where = where, .pre = integer_only<&count>(&hits), .enabled = enabled}))
      probes.push_back(*std::move(probe));
  };
  for (auto* function : stress_functions) add(function);
  for (const Where& where : must(find_functions("libc:*"))) add(where);
  EXPECT_GT(probes.size(), 1500u);
  return probes;
}

using FirstBytes = std::vector<const volatile uint8_t*>;

FirstBytes first_bytes_of(std::span<const Probe> probes) {
  FirstBytes bytes;
  for (const Probe& probe : probes)
    bytes.push_back(static_cast<const volatile uint8_t*>(probe.address()));
  return bytes;
}

std::vector<uint8_t> values_of(const FirstBytes& bytes) {
  std::vector<uint8_t> values;
  for (const volatile uint8_t* byte : bytes) values.push_back(uint8_t{*byte});
  return values;
}

// A large batch is written in pieces. Calls `change` while a thread waits for the first change of
// text, and then blocks SIGTRAP; `and_then` is called meanwhile. Returns false if the thread was
// too late.
template <class Change, class Then>
bool is_stopped_between_pieces(const FirstBytes& sites, Change&& change, Then&& and_then) {
  const std::vector<uint8_t> original = values_of(sites);
  std::atomic<bool> looks{false}, changed{false}, done{false};
  std::thread watcher([&] {
    looks = true;
    while (!changed && !done)
      for (size_t n = 0; n < sites.size() && !changed; ++n)
        if (*sites[n] != original[n]) changed = true;
    block_trap_signal(SIG_BLOCK);
    while (!done) {
    }
    block_trap_signal(SIG_UNBLOCK);
  });
  while (!looks) {
  }
  const Result<void, Error> result = change();
  if (!result) {
    EXPECT_EQ(result.error().cause, Cause::signal_blocked);
    and_then();
  }
  done = true;
  watcher.join();
  return !result.ok();
}

constexpr int kTries = 100;

TEST(EnablingABatch, ThatIsStoppedBetweenItsPiecesEnablesNone) {
  uint64_t hits = 0;
  std::vector<Probe> probes = on_libc(false, hits);
  bool stopped = false;
  for (int i = 0; i < kTries && !stopped; ++i) {
    stopped = is_stopped_between_pieces(
        first_bytes_of(probes), [&] { return Probe::enable(probes); },
        [&] {
          const uint64_t before = hits;
          call_all();
          EXPECT_EQ(hits, before);
        });
    if (stopped) {
      for (const Probe& probe : probes) EXPECT_EQ(probe.placement(), Placement::disabled);
    }
    EXPECT_TRUE(Probe::disable(probes).ok());
  }
  EXPECT_TRUE(stopped);
  // It works without that thread.
  ASSERT_TRUE(Probe::enable(probes).ok());
  const uint64_t before = hits;
  call_all();
  EXPECT_GT(hits, before);
  EXPECT_TRUE(Probe::disable(probes).ok());
}

// That thread blocks the signal until the call has returned.
TEST(PlacingABatch, ThatIsStoppedBetweenItsPiecesIsTakenOutByTheNextCall) {
  uint64_t hits = 0;
  const FirstBytes sites = first_bytes_of(on_libc(false, hits));
  const auto original = values_of(sites);
  bool stopped = false;
  for (int i = 0; i < kTries && !stopped; ++i) {
    std::vector<ProbeSpec> specs;
    for (const volatile uint8_t* site : sites)
      specs.push_back(
          {.where = const_cast<const uint8_t*>(site), .pre = integer_only<&count>(&hits)});
    std::vector<Probe> placed;
    const auto place_all = [&]() -> Result<void, Error> {
      auto all = Probe::place(std::move(specs));
      if (!all) return fail(all.error());
      placed = *std::move(all);
      return {};
    };
    stopped = is_stopped_between_pieces(sites, place_all, [&] {
      const uint64_t before = hits;
      call_all();
      EXPECT_EQ(hits, before);
    });
    Probe::remove(std::move(placed));
  }
  ASSERT_TRUE(stopped);
  { const Probe next = place({.where = self_insn, .pre = kNothing}); }
  EXPECT_EQ(values_of(sites), original);
}

TEST(ArmingAll, ThatIsStoppedBetweenItsPiecesArmsNone) {
  uint64_t hits = 0;
  ASSERT_TRUE(disarm_all().ok());
  std::vector<Probe> probes = on_libc(true, hits);
  bool stopped = false;
  for (int i = 0; i < kTries && !stopped; ++i) {
    stopped = is_stopped_between_pieces(
        first_bytes_of(probes), [] { return arm_all(); },
        [&] {
          const uint64_t before = hits;
          call_all();
          EXPECT_EQ(hits, before);
        });
    if (!stopped) {
      EXPECT_TRUE(disarm_all().ok());
    }
  }
  EXPECT_TRUE(stopped);
  ASSERT_TRUE(arm_all().ok());
  const uint64_t before = hits;
  call_all();
  EXPECT_GT(hits, before);
}

// -------------------------------------------------------------------------------- under threads

thread_local bool is_measured;

PINPRICK_INTEGER_ONLY void count_if_measured(Registers&, void* user) noexcept {
  if (is_measured) ++*static_cast<uint64_t*>(user);
}

TEST(EnablingABatch, TakesEffectAtOnceAndLosesNoHitsOfOtherProbes) {
  uint64_t all_hits = 0;
  std::vector<uint64_t> hits(kStressFunctions);
  std::vector<ProbeSpec> staying, toggled;
  std::vector<Where> counted;
  for (size_t i = 0; i < kStressFunctions; ++i) {
    // Half of the probes stay enabled, half are enabled and disabled.
    if (i % 2 == 0) {
      staying.push_back({.where = stress_functions[i],
                         .pre = integer_only<&count>(&all_hits),
                         .allow_breakpoint = true});
      counted.emplace_back(stress_functions[i]);
    }
    toggled.push_back({.where = stress_functions[i],
                       .pre = integer_only<&count_if_measured>(&hits[i]),
                       .allow_breakpoint = true,
                       .enabled = false});
  }
  auto probes = must(Probe::place(std::move(toggled)));
  const auto others = must(Probe::place(std::move(staying)));
  uint64_t own_calls = 0;
  Callers callers;
  constexpr uint64_t kRounds = 100;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    ASSERT_TRUE(Probe::enable(probes).ok());
    is_measured = true;
    call_all();
    is_measured = false;
    ASSERT_TRUE(Probe::disable(probes).ok());
    ASSERT_THAT(hits, Each(round));
    is_measured = true;
    call_all();
    is_measured = false;
    ASSERT_THAT(hits, Each(round));
    own_calls += 2 * counted.size();
  }
  callers.stop();
  uint64_t calls = own_calls;
  for (size_t i = 0; i < kStressFunctions; i += 2) calls += callers.calls_of(i);
  EXPECT_EQ(callers.wrong(), 0u);
  EXPECT_EQ(all_hits, calls);
}

// The handler goes on until the text is the program's own again, and a while longer.
TEST(DisablingABatch, ReturnsWhenNoHandlerRunsAnyMore) {
  const auto* const first_byte = reinterpret_cast<const volatile uint8_t*>(&self_window);
  const uint8_t original = *first_byte;
  std::atomic<bool> runs{false}, is_over{false};
  uint64_t others = 0;
  std::vector<Probe> probes;
  probes.push_back(place({.where = self_window, .pre = [&](Registers&) {
                            runs = true;
                            while (*first_byte != original) std::this_thread::yield();
                            for (int i = 0; i < 1000; ++i) std::this_thread::yield();
                            is_over = true;
                          }}));
  probes.push_back(place(disabled(self_insn, others)));
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(Probe::enable(probes).ok());
    runs = is_over = false;
    std::thread caller([] { self_window(1, 1); });
    while (!runs) std::this_thread::yield();
    EXPECT_TRUE(Probe::disable(probes).ok());
    EXPECT_TRUE(is_over);
    caller.join();
  }
}

// --------------------------------------------------------------------------------- from handlers

TEST(EnablingABatch, WorksFromAHandlerAlsoOnItsOwnProbe) {
  uint64_t hits = 0;
  int own_hits = 0;
  std::vector<Probe> probes;
  probes.push_back(place({.where = self_window, .pre = [&](Registers&) {
                            ++own_hits;
                            EXPECT_TRUE(Probe::disable(probes).ok());
                          }}));
  for (auto* function : {self_insn, self_nop}) probes.push_back(place(disabled(function, hits)));
  const Probe enabler = place(
      {.where = self_marked, .pre = [&](Registers&) { EXPECT_TRUE(Probe::enable(probes).ok()); }});
  const auto call = [] {
    EXPECT_EQ(self_insn(5), 1005);
    EXPECT_EQ(self_nop(5), 6);
    EXPECT_EQ(self_window(10, 7), 37);
  };
  ASSERT_TRUE(Probe::enable(probes).ok());
  for (int round = 1; round <= 10; ++round) {
    call();  // the last of the three disables all
    call();
    EXPECT_EQ(own_hits, round);
    EXPECT_EQ(hits, 2u * static_cast<uint64_t>(round));
    EXPECT_EQ(self_marked(5), 7);
  }
}

TEST(EnablingABatch, WorksFromHandlersOfManyThreadsAtOnce) {
  uint64_t hits = 0;
  std::vector<uint64_t> toggled_hits;
  std::vector<Probe> probes = on_all(toggled_hits);
  std::vector<ProbeSpec> specs;
  for (size_t i = 0; i < kStressFunctions; i += 64)
    specs.push_back({.where = stress_functions[i],
                     .pre =
                         [&, i](Registers&) {
                           const auto some = std::span(probes).subspan(i, 64);
                           const uint64_t n = __atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
                           EXPECT_TRUE(
                               (n % 2 == 0 ? Probe::enable(some) : Probe::disable(some)).ok());
                         },
                     .allow_breakpoint = true});
  Callers callers;
  {
    const auto togglers = must(Probe::place(std::move(specs)));
    while (__atomic_load_n(&hits, __ATOMIC_RELAXED) < 1000) std::this_thread::yield();
  }
  ASSERT_TRUE(Probe::disable(probes).ok());
  callers.stop();
  EXPECT_EQ(callers.wrong(), 0u);
  const auto before = toggled_hits;
  call_all();
  EXPECT_EQ(toggled_hits, before);
}

}  // namespace
}  // namespace pinprick
