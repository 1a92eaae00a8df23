// Times of calls and spans in this process, without handlers.
#include "pinprick/latency.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "library/cancel.h"
#include "library/functions.h"
#include "library/in_child.h"
#include "library/leaps.h"
#include "library/place.h"

namespace pinprick {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t ns_since(Clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

long spin(long ns) {
  const auto begin = Clock::now();
  while (ns_since(begin) < static_cast<uint64_t>(ns)) {
  }
  return ns;
}

Latency time_calls(Where where) {
  return must(Latency::place(std::move(where)));
}

TEST(Latency, TimesCallsHoweverManyWereAbandoned) {
  const Latency latency = time_calls(leaves_by_turns);
  for (long i = 0; i < 100000; ++i) call_by_turns(i);
  EXPECT_EQ(latency.snapshot().count(), 50000u);
  EXPECT_EQ(latency.unwound(), 25000u);
  EXPECT_EQ(latency.missed(), 0u);
  // The others are abandoned calls whose slots were not reused.
  EXPECT_LE(latency.abandoned(), 25000u);
  EXPECT_GT(latency.abandoned(), 20000u);
}

TEST(Latency, CountsEachCallAndLeavesTheResultAlone) {
  const Latency latency = time_calls(self_window);
  for (long i = 0; i < 1000; ++i) ASSERT_EQ(self_window(i, 7), 3 * i + 7);
  EXPECT_EQ(latency.snapshot().count(), 1000u);
  EXPECT_EQ(latency.missed(), 0u);
}

TEST(Latency, IsBetweenTheTimeOfTheCallAndThatAroundIt) {
  constexpr long kNs = 300'000;
  const Latency latency = time_calls(self_call_back);
  const auto begin = Clock::now();
  self_call_back(&spin, kNs);
  const uint64_t around = ns_since(begin);
  const Histogram times = latency.snapshot();
  // The rate of the time stamp counter is known to some 50 ppm.
  EXPECT_GE(times.sum(), uint64_t{kNs} * 999 / 1000);
  EXPECT_LE(times.sum(), around * 1001 / 1000);
  EXPECT_LE(times.quantile(0.5), times.maximum());
}

uint64_t shortest(const Latency& latency) {
  return latency.snapshot().slots().front().from;
}

TEST(Latency, LeavesOutTheTimeOfHandlers) {
  constexpr long kNs = 2'000'000;
  const Probe probe = place({.where = self_window, .pre = [](Registers&) { spin(kNs); }});
  const ReturnProbe other =
      place(ReturnProbeSpec{.where = self_window, .on_return = [](Registers&) { spin(kNs); }});
  const Latency latency = time_calls(self_window);
  // A call during which the thread was preempted is longer. If the handlers counted, all would be.
  do {
    EXPECT_EQ(self_window(1, 1), 4);
  } while (shortest(latency) >= uint64_t{kNs} && latency.snapshot().count() < 100);
  EXPECT_LT(shortest(latency), uint64_t{kNs});
}

TEST(Latency, WorksBesideHandlersAndCounters) {
  int hits = 0, returns = 0;
  std::vector<void*> to;
  const Probe probe = place({.where = self_factorial, .pre = [&](Registers& r) {
                               ++hits;
                               to.push_back(*reinterpret_cast<void**>(r.rsp));
                             }});
  const Counter counter = must(Counter::place(self_factorial));
  const Latency latency = time_calls(self_factorial);
  const ReturnProbe other =
      place(ReturnProbeSpec{.where = self_factorial, .on_return = [&](Registers& r) {
                              ++returns;
                              EXPECT_EQ(reinterpret_cast<void*>(r.ip), to.at(to.size() - returns));
                            }});
  EXPECT_EQ(self_factorial(4), 24);
  EXPECT_EQ(hits, 4);
  EXPECT_EQ(returns, 4);
  EXPECT_EQ(counter.value(), 4u);
  EXPECT_EQ(latency.snapshot().count(), 4u);
}

TEST(Latency, StartsAtZeroEachTimeItIsPlaced) {
  {
    const Latency before = time_calls(self_window);
    self_window(1, 1);
  }
  self_window(1, 1);
  const Latency latency = time_calls(self_window);
  EXPECT_EQ(latency.snapshot().count(), 0u);
  self_window(1, 1);
  const Latency beside = time_calls(self_window);
  self_window(1, 1);
  EXPECT_EQ(latency.snapshot().count(), 2u);
  EXPECT_EQ(beside.snapshot().count(), 1u);
}

TEST(Latency, OfAnIntervalIsTheDifferenceOfSnapshots) {
  const Latency latency = time_calls(self_window);
  self_window(1, 1);
  const Histogram before = latency.snapshot();
  self_window(1, 1);
  self_window(1, 1);
  const Histogram meanwhile = latency.snapshot().since(before);
  EXPECT_EQ(meanwhile.count(), 2u);
  uint64_t sum = 0;
  for (const Histogram::Slot& slot : meanwhile.slots()) {
    EXPECT_LT(slot.from, slot.to);
    sum += slot.count;
  }
  EXPECT_EQ(sum, 2u);
}

TEST(Latency, SinceANewerSnapshotIsEmpty) {
  const Latency latency = time_calls(self_window);
  const Histogram before = latency.snapshot();
  self_window(1, 1);
  const Histogram difference = before.since(latency.snapshot());
  EXPECT_EQ(difference.count(), 0u);
  EXPECT_EQ(difference.sum(), 0u);
  EXPECT_TRUE(difference.slots().empty());
}

TEST(ALatencyThatWasMovedFrom, CanBeAskedAnythingAndHasNothing) {
  Latency latency = time_calls(self_window);
  const Latency other = std::move(latency);
  self_window(1, 1);
  EXPECT_EQ(latency.address(), nullptr);
  EXPECT_EQ(latency.name(), "");
  EXPECT_EQ(latency.snapshot().count(), 0u);
  EXPECT_EQ(latency.missed() + latency.unwound() + latency.abandoned(), 0u);
  EXPECT_EQ(other.snapshot().count(), 1u);
}

TEST(ASpanThatWasMovedFrom, CanBeAskedAnythingAndHasNothing) {
  Span span = must(Span::place({.from = self_window, .to = self_nop}));
  const Span other = std::move(span);
  EXPECT_EQ(span.snapshot().count(), 0u);
  EXPECT_EQ(span.unmatched_starts() + span.unmatched_ends() + span.missed(), 0u);
}

TEST(AHistogramThatWasMovedFrom, CanBeAskedAnything) {
  Histogram times;
  const Histogram other = std::move(times);
  EXPECT_EQ(times.count() + times.since(other).count(), 0u);
  EXPECT_TRUE(times.slots().empty());
}

TEST(Latency, IsEmptyWithoutCalls) {
  const Histogram nothing;
  EXPECT_EQ(nothing.count(), 0u);
  EXPECT_EQ(nothing.quantile(0.99), 0u);
  EXPECT_EQ(nothing.mean(), 0.0);
  EXPECT_TRUE(nothing.slots().empty());
}

long throw_it(long n) {
  throw std::runtime_error(std::to_string(n));
}

void catch_many(int calls) {
  for (int i = 0; i < calls; ++i) {
    std::string what;
    try {
      self_call_back(&throw_it, i);
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    ASSERT_EQ(what, std::to_string(i));
  }
}

TEST(Latency, LetsExceptionsPassAndCountsThem) {
  const Latency latency = time_calls(self_call_back);
  catch_many(10000);  // more often than there are slots
  EXPECT_EQ(latency.unwound(), 10000u);
  EXPECT_EQ(latency.missed(), 0u);
  EXPECT_EQ(latency.snapshot().count(), 0u);
}

TEST(Latency, LetsExceptionsPassThroughAReturnProbe) {
  int returns = 0;
  const Latency latency = time_calls(self_call_back);
  const ReturnProbe other =
      place(ReturnProbeSpec{.where = self_call_back, .on_return = [&](Registers&) { ++returns; }});
  catch_many(100);
  EXPECT_EQ(latency.unwound(), 100u);
  EXPECT_EQ(other.unwound(), 100u);
  EXPECT_EQ(returns, 0);
}

TEST(Latency, LetsThreadsBeCancelledInACallFromAnUnalignedStack) {
  const Latency latency = time_calls(self_waits);
  cleaned = 0;
  cancel_in(
      [](std::atomic<long>& begun) { self_unaligned(&self_waits, reinterpret_cast<long>(&begun)); },
      0);
  EXPECT_EQ(cleaned, 1);
  EXPECT_EQ(latency.unwound(), 1u);
}

std::vector<void*> stack;
long look_at_stack(long n) {
  stack.resize(32);
  stack.resize(static_cast<size_t>(::backtrace(stack.data(), static_cast<int>(stack.size()))));
  return n;
}

TEST(Latency, LetsBacktracesThrough) {
  self_call_back(&look_at_stack, 1);
  const auto bare = stack;
  const Latency latency = time_calls(self_call_back);
  self_call_back(&look_at_stack, 1);
  // There is one more frame, the slot's; the frames after it are the same as without a probe.
  ASSERT_EQ(stack.size(), bare.size() + 1);
  EXPECT_EQ(stack.back(), bare.back());
}

TEST(Latency, MissesCallsBeyondAllSlotsAndRecovers) {
  const Latency latency = time_calls(self_factorial);
  self_factorial(10000);
  const uint64_t missed = latency.missed();
  EXPECT_GT(missed, 0u);
  EXPECT_EQ(latency.snapshot().count() + missed, 10000u);
  self_factorial(1000);
  EXPECT_EQ(latency.missed(), missed);
}

TEST(Latency, CountsCallsOfAllThreads) {
  const Latency latency = time_calls(self_factorial);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      for (int n = 0; n < 5000; ++n) self_factorial(5);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(latency.snapshot().count() + latency.missed(), 8u * 5000 * 5);
  EXPECT_EQ(latency.missed(), 0u);
}

std::optional<Latency> ended_in_flight;
long end_it(long n) {
  ended_in_flight.reset();
  return n;
}

TEST(Latency, LetsACallInFlightReturnAfterItIsRemoved) {
  ended_in_flight = time_calls(self_call_back);
  EXPECT_EQ(self_call_back(&end_it, 5), 6);
}

TEST(Latency, IsRefusedForCodeThatDoesNotReturn) {
  EXPECT_FALSE(Latency::place("libc:setjmp").ok());
  EXPECT_FALSE(Latency::place(inside(self_window, kSecondOfWindow)).ok());
}

// See tests/targets/callers.
TEST(Latency, IsRefusedForFunctionsThatPassTheirCallersOnToAnotherLibrary) {
  void* const library = ::dlopen(CALLERS_LIBRARY, RTLD_LAZY);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto place_at = [&](const char* name) { return Latency::place(::dlsym(library, name)); };
  // Before and after what they jump to is bound.
  for (int round = 0; round < 2; ++round) {
    for (const char* name :
         {"passes_on", "passes_on_twice", "passes_on_to_hidden", "passes_on_to_protected",
          "passes_on_by_variable", "passes_on_by_resolver", "passes_on_by_version",
          "passes_on_weakly", "passes_on_setjmp", "passes_on_getcontext", "passes_on_vfork",
          "passes_on_dlopen"}) {
      const auto refused = place_at(name);
      ASSERT_FALSE(refused.ok()) << name;
      EXPECT_EQ(refused.error().cause, Cause::refused) << name;
    }
    for (const char* name : {"keeps_on", "keeps_on_twice", "keeps_on_by_resolver"}) {
      const Latency latency = must(place_at(name));
      reinterpret_cast<long (*)(long)>(::dlsym(library, name))(1);
      EXPECT_EQ(latency.snapshot().count(), 1u) << name;
    }
    using Reader = const char* (*)();
    for (const char* name : {"passes_on_twice", "passes_on_by_resolver", "passes_on_by_version"})
      EXPECT_STREQ(reinterpret_cast<Reader>(::dlsym(library, name))(), "library_test") << name;
  }
  ::dlclose(library);
}

TEST(Latency, IsPlacedByPattern) {
  const auto latencies = must(Latency::place(must(find_functions("self_??????"))));
  ASSERT_GT(latencies.size(), 1u);
  self_window(1, 1);
  uint64_t calls = 0;
  for (const Latency& latency : latencies)
    if (latency.name() == "self_window") calls += latency.snapshot().count();
  EXPECT_EQ(calls, 1u);
}

TEST(Latency, IsSeparateInAForkedChild) {
  const Latency latency = time_calls(self_window);
  self_window(1, 1);
  in_child([&] {
    self_window(1, 1);
    EXPECT_EQ(latency.snapshot().count(), 2u);
  });
  EXPECT_EQ(latency.snapshot().count(), 1u);
}

TEST(Latency, TimesCallsByHandlers) {
  const Latency latency = time_calls(self_insn);
  const Probe probe = place({.where = self_window, .pre = [](Registers&) { self_insn(1); }});
  self_window(1, 1);
  EXPECT_EQ(latency.snapshot().count(), 1u);
}

// ---------------------------------------------------------------------------------------- spans

Span span(Where from, Where to) {
  return must(Span::place({.from = std::move(from), .to = std::move(to)}));
}

TEST(Span, IsTheTimeFromOneSiteToAnother) {
  constexpr long kNs = 300'000;
  const Span way = span(self_insn, self_nop);
  const auto begin = Clock::now();
  self_insn(1);
  spin(kNs);
  self_nop(1);
  const uint64_t around = ns_since(begin);
  const Histogram times = way.snapshot();
  EXPECT_EQ(times.count(), 1u);
  EXPECT_GE(times.sum(), uint64_t{kNs} * 999 / 1000);
  EXPECT_LE(times.sum(), around * 1001 / 1000);
  EXPECT_EQ(way.unmatched_starts() + way.unmatched_ends() + way.missed(), 0u);
}

TEST(Span, IsMeasuredFromTheLatestStart) {
  constexpr long kNs = 20'000'000;
  const Span way = span(self_insn, self_nop);
  self_insn(1);
  spin(kNs);
  self_insn(1);
  self_nop(1);
  self_nop(1);
  EXPECT_EQ(way.snapshot().count(), 1u);
  EXPECT_LT(way.snapshot().sum(), uint64_t{kNs});
  EXPECT_EQ(way.unmatched_starts(), 1u);
  EXPECT_EQ(way.unmatched_ends(), 1u);
}

TEST(Span, IsNotEndedByAnotherThread) {
  const Span way = span(self_insn, self_nop);
  self_insn(1);
  std::thread([] { self_nop(1); }).join();
  EXPECT_EQ(way.snapshot().count(), 0u);
  EXPECT_EQ(way.unmatched_ends(), 1u);
}

TEST(Span, IsNotEndedByALaterThreadWithTheSameRecord) {
  const Span way = span(self_insn, self_nop);
  // Another thread gets the record of one that has ended only after a wait for handlers.
  for (int i = 0; i < 100; ++i) {
    std::thread([] { self_insn(1); }).join();
    {
      const Probe other = place({.where = self_window, .pre = [](Registers&) {}});
    }
    std::thread([] { self_nop(1); }).join();
  }
  EXPECT_EQ(way.snapshot().count(), 0u);
  EXPECT_EQ(way.unmatched_ends(), 100u);
}

TEST(Span, FromASiteToItselfIsTheTimeBetweenHits) {
  const Span way = span(self_insn, self_insn);
  for (int i = 0; i < 10; ++i) self_insn(1);
  EXPECT_EQ(way.snapshot().count(), 9u);
  EXPECT_EQ(way.unmatched_starts(), 0u);
  EXPECT_EQ(way.unmatched_ends(), 1u);
}

TEST(Span, IsSeparateFromAnEarlierSpanWithItsIndex) {
  {
    const Span before = span(self_insn, self_nop);
    self_insn(1);
    self_nop(1);
    self_insn(1);
  }
  const Span way = span(self_insn, self_nop);
  EXPECT_EQ(way.snapshot().count(), 0u);
  self_nop(1);
  EXPECT_EQ(way.snapshot().count(), 0u);
  EXPECT_EQ(way.unmatched_ends(), 1u);
}

TEST(Span, MissesHitsByHandlers) {
  const Span way = span(self_insn, self_nop);
  const Probe probe = place({.where = self_window, .pre = [](Registers&) {
                               self_insn(1);
                               self_nop(1);
                             }});
  self_window(1, 1);
  EXPECT_EQ(way.snapshot().count(), 0u);
  EXPECT_EQ(way.missed(), 2u);
}

TEST(Span, IsRefusedBeyondTheMaximum) {
  std::vector<Span> all;
  for (;;) {
    auto one = Span::place({.from = self_insn, .to = self_nop});
    if (!one) {
      EXPECT_EQ(one.error().cause, Cause::too_many);
      break;
    }
    all.push_back(*std::move(one));
  }
  EXPECT_EQ(all.size(), 256u);
  self_insn(1);
  self_nop(1);
  for (const Span& one : all) EXPECT_EQ(one.snapshot().count(), 1u);
  all.clear();
  const Span again = span(self_insn, self_nop);
  self_insn(1);
  self_nop(1);
  EXPECT_EQ(again.snapshot().count(), 1u);
}

TEST(Span, IsCountedOnceByEachOfManyThreads) {
  const Span way = span(self_insn, self_nop);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      for (int n = 0; n < 5000; ++n) {
        self_insn(1);
        self_nop(1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(way.snapshot().count(), 8u * 5000);
}

TEST(Span, IsNotPlacedIfAnEndCannotBeProbed) {
  EXPECT_FALSE(Span::place({.from = self_insn, .to = "no_such_function_anywhere"}).ok());
  EXPECT_EQ(list_probes().find("self_insn"), std::string::npos);
}

}  // namespace
}  // namespace pinprick
