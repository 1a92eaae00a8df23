// Return probes in this process.
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "library/cancel.h"
#include "library/functions.h"
#include "library/leaps.h"
#include "library/place.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

using testing::ElementsAre;

TEST(ReturnProbe, SeesTheReturnValueAndMayChangeIt) {
  long seen = 0;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_window, .on_return = [&](Registers& r) {
                              seen = static_cast<long>(r.return_value());
                              r.set_return_value(1);
                            }});
  EXPECT_EQ(self_window(10, 7), 1);
  EXPECT_EQ(seen, 37);
}

TEST(ReturnProbe, IsGivenTypedReturnValues) {
  double half = 0;
  const ReturnProbe probe = place(ReturnProbeSpec{
      .where = self_half, .on_return = on_return<double>([&](double value) { half = value; })});
  EXPECT_EQ(self_half(3.0), 1.5);
  EXPECT_EQ(half, 1.5);
}

TEST(ReturnProbe, ShowsTheReturnAddress) {
  void* to = nullptr;
  const void* back = nullptr;
  const Probe entry = place(
      {.where = self_window, .pre = [&](Registers& r) { to = *reinterpret_cast<void**>(r.rsp); }});
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_window, .on_return = [&](Registers& r) {
                              back = reinterpret_cast<void*>(r.ip);
                            }});
  self_window(1, 1);
  EXPECT_EQ(to, back);
}

TEST(ReturnProbe, FindsStackArgumentsInTheirPlace) {
  int returns = 0;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_seven, .on_return = [&](Registers&) { ++returns; }});
  EXPECT_EQ(self_seven(1, 2, 3, 4, 5, 6, 7), 7);
  EXPECT_EQ(returns, 1);
}

TEST(ReturnProbe, MeasuresEachLevelOfARecursion) {
  std::vector<long> values;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_factorial, .on_return = [&](Registers& r) {
                              values.push_back(static_cast<long>(r.rax));
                            }});
  EXPECT_EQ(self_factorial(4), 24);
  EXPECT_THAT(values, ElementsAre(1, 2, 6, 24));
}

TEST(ReturnProbe, PassesDataFromEntryToReturnOfTheSameCall) {
  std::vector<std::pair<long, long>> calls;
  const ReturnProbe probe = place(ReturnProbeSpec{
      .where = self_factorial,
      .on_entry = [](Registers& r, void* data) { *static_cast<uint64_t*>(data) = r.rdi; },
      .on_return = [&](Registers& r,
                       void* data) { calls.emplace_back(*static_cast<uint64_t*>(data), r.rax); },
      .data_size = 8});
  self_factorial(3);
  EXPECT_THAT(calls, ElementsAre(std::pair(1, 1), std::pair(2, 2), std::pair(3, 6)));
}

TEST(ReturnProbe, LeavesOutCallsThatItsEntryHandlerDeclines) {
  std::vector<long> values;
  const ReturnProbe probe = place(ReturnProbeSpec{
      .where = self_window,
      .on_entry = [](Registers& r) { return r.rdi > 1; },
      .on_return = [&](Registers& r) { values.push_back(static_cast<long>(r.rax)); }});
  self_window(1, 0);
  self_window(2, 0);
  EXPECT_THAT(values, ElementsAre(6));
  EXPECT_EQ(probe.missed(), 0u);
}

TEST(ReturnProbe, LeavesOutCallsThatATypedEntryHandlerDeclines) {
  int returns = 0;
  const ReturnProbe probe = place(ReturnProbeSpec{
      .where = self_window,
      .on_entry = on_call<long(long, long)>([](long first, long) { return first > 1; }),
      .on_return = [&](Registers&) { ++returns; }});
  self_window(1, 0);
  self_window(2, 0);
  EXPECT_EQ(returns, 1);
}

TEST(ReturnProbe, MissesCallsBeyondItsLimit) {
  int returns = 0;
  const ReturnProbe probe = place(ReturnProbeSpec{
      .where = self_factorial, .on_return = [&](Registers&) { ++returns; }, .max_active = 3});
  EXPECT_EQ(self_factorial(5), 120);
  EXPECT_EQ(returns, 3);
  EXPECT_EQ(probe.missed(), 2u);
  EXPECT_EQ(probe.missed(Miss::max_active), 2u);
  EXPECT_EQ(self_factorial(3), 6);
  EXPECT_EQ(returns, 6);
}

// Four of them fit a slot.
TEST(ReturnProbe, WorksBesideAnyNumberOfOthersAtOneFunction) {
  constexpr size_t kMost = 70;
  std::vector<uint64_t> entries(kMost), returns(kMost);
  std::vector<ReturnProbe> probes;
  for (size_t i = 0; i < kMost; ++i) {
    probes.push_back(place(ReturnProbeSpec{.where = self_factorial,
                                           .on_entry =
                                               [&entries, i](Registers&, void* data) {
                                                 ++entries[i];
                                                 *static_cast<size_t*>(data) = i;
                                               },
                                           .on_return =
                                               [&returns, i](Registers& registers, void* data) {
                                                 EXPECT_EQ(*static_cast<size_t*>(data), i);
                                                 EXPECT_GT(registers.return_value(), 0u);
                                                 ++returns[i];
                                               },
                                           .data_size = sizeof(size_t)}));
    EXPECT_EQ(self_factorial(3), 6);
    for (size_t j = 0; j < kMost; ++j) {
      EXPECT_EQ(entries[j], j <= i ? 3 * (i - j + 1) : 0);
      EXPECT_EQ(returns[j], entries[j]);
    }
  }
  probes.erase(probes.begin() + 1, probes.end() - 1);
  EXPECT_EQ(self_factorial(3), 6);
  EXPECT_EQ(returns.front(), 3 * (kMost + 1));
  EXPECT_EQ(returns.back(), 3u * 2);
  EXPECT_EQ(returns[1], 3 * (kMost - 1));
}

TEST(ReturnProbe, OfHigherPriorityEnclosesTheOthers) {
  std::string order;
  const auto spec = [&](char entry, char leave, int priority) {
    return ReturnProbeSpec{.where = self_window,
                           .on_entry = [&order, entry](Registers&) { order += entry; },
                           .on_return = [&order, leave](Registers&) { order += leave; },
                           .priority = priority};
  };
  const ReturnProbe usual = place(spec('b', 'B', 0));
  const ReturnProbe low = place(spec('d', 'D', -1));
  const ReturnProbe high = place(spec('a', 'A', 5));
  const ReturnProbe beside = place(spec('c', 'C', 0));
  const ReturnProbe lowest = place(spec('e', 'E', -9));
  self_window(1, 1);
  EXPECT_EQ(order, "abcdeEDCBA");
}

// A call keeps its participants where they were when it began, while later ones need more memory.
TEST(ReturnProbe, KeepsThoseOfRunningCallsWhileManyOthersComeAndGo) {
  std::atomic<uint64_t> calls = 0, returns[6] = {};
  std::atomic<bool> ends = false;
  std::vector<ReturnProbe> lasting;
  for (auto& count : returns)
    lasting.push_back(
        place(ReturnProbeSpec{.where = self_factorial, .on_return = [&](Registers&) { ++count; }}));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!ends) {
        EXPECT_EQ(self_factorial(10), 3628800);
        calls += 10;
      }
    });
  for (size_t most = 1; most <= 300; most += 23) {
    std::vector<ReturnProbeSpec> specs;
    for (size_t i = 0; i < most; ++i)
      specs.push_back({.where = self_factorial, .on_return = [](Registers&) {}});
    auto others = must(ReturnProbe::place(std::move(specs)));
    for (const uint64_t before = calls; calls < before + 200;) std::this_thread::yield();
    ReturnProbe::remove(std::move(others));
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < lasting.size(); ++i)
    EXPECT_EQ(returns[i] + lasting[i].missed(), calls) << i;
}

TEST(ReturnProbe, CountsACallThatAHandlerMakesAsItsMiss) {
  int returns = 0;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_window, .on_return = [&](Registers&) { ++returns; }});
  const Probe outer =
      place({.where = self_nop, .pre = [](Registers&) { EXPECT_EQ(self_window(1, 1), 4); }});
  self_nop(1);
  EXPECT_EQ(returns, 0);
  EXPECT_EQ(probe.missed(Miss::in_handler), 1u);
  EXPECT_EQ(probe.missed(), 1u);
}

TEST(ReturnProbe, MissesCallsBeyondAllSlotsAndRecovers) {
  int returns = 0;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_factorial, .on_return = [&](Registers&) { ++returns; }});
  self_factorial(10000);
  EXPECT_GT(probe.missed(), 0u);
  EXPECT_EQ(returns + probe.missed(Miss::no_slot), 10000u);
  EXPECT_EQ(probe.missed(), probe.missed(Miss::no_slot));
  returns = 0;
  self_factorial(1000);
  EXPECT_EQ(returns, 1000);
}

TEST(ReturnProbe, MeasuresCallsHoweverManyWereAbandoned) {
  long returns = 0;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = leaves_by_turns, .on_return = [&](Registers&) { ++returns; }});
  for (long i = 0; i < 100000; ++i) call_by_turns(i);
  EXPECT_EQ(returns, 50000);
  EXPECT_EQ(probe.unwound(), 25000u);
  EXPECT_EQ(probe.missed(), 0u);
  // The others are abandoned calls whose slots were not reused.
  EXPECT_LE(probe.abandoned(), 25000u);
  EXPECT_GT(probe.abandoned(), 20000u);
}

TEST(ReturnProbe, GetsTheItemsOfAbandonedCallsBack) {
  long returns = 0;
  const ReturnProbe probe = place(ReturnProbeSpec{
      .where = leaves_by_turns, .on_return = [&](Registers&) { ++returns; }, .max_active = 2});
  for (long i = 0; i < 100000; ++i) call_by_turns(i);
  EXPECT_GT(returns, 40000);
}

TEST(ReturnProbe, WorksBesideOthersOnTheSameFunction) {
  int first = 0, second = 0, hits = 0;
  const ReturnProbe one =
      place(ReturnProbeSpec{.where = self_window, .on_return = [&](Registers&) { ++first; }});
  {
    const ReturnProbe two =
        place(ReturnProbeSpec{.where = self_window, .on_return = [&](Registers&) { ++second; }});
    const Probe probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
    EXPECT_EQ(self_window(10, 7), 37);
  }
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(hits, 1);
}

// As for other handlers.
TEST(ReturnProbe, IsSkippedOnceAnotherOneHasSentTheThreadElsewhere) {
  int second = 0, returns = 0;
  const ReturnProbe one = place(ReturnProbeSpec{.where = self_window,
                                                .on_entry =
                                                    [](Registers& registers) {
                                                      registers.rax = registers.rdi;
                                                      registers.ip = reinterpret_cast<uint64_t>(
                                                          inside(self_window, kSecondOfWindow));
                                                      return true;
                                                    },
                                                .on_return = [&](Registers&) { ++returns; }});
  const ReturnProbe two = place(ReturnProbeSpec{.where = self_window,
                                                .on_entry =
                                                    [&](Registers&) {
                                                      ++second;
                                                      return true;
                                                    },
                                                .on_return = [&](Registers&) { ++returns; }});
  self_window(10, 7);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(returns, 0);
}

// The site leads to its former stub, which knows of no slots, until the text is written.
TEST(ReturnProbe, ThatIsPlacedBesideAHandlerMeasuresEachCallFromItsEntryToItsReturn) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<long> entries{0}, returns{0};
    std::atomic<bool> stop{false};
    const Probe probe = place({.where = self_window, .pre = [](Registers&) {}});
    std::thread caller([&] {
      while (!stop) self_window(10, 7);
    });
    const ReturnProbe returning =
        place(ReturnProbeSpec{.where = self_window,
                              .on_entry =
                                  [&](Registers&) {
                                    ++entries;
                                    return true;
                                  },
                              .on_return = [&](Registers&) { ++returns; }});
    while (returns == 0) std::this_thread::yield();
    stop = true;
    caller.join();
    EXPECT_EQ(entries, returns);
  }
}

long remove_it(long n);
std::optional<ReturnProbe> removed_in_flight;
long remove_it(long n) {
  removed_in_flight.reset();
  return n;
}

TEST(ReturnProbe, RunsNoHandlerAfterItIsRemovedDuringACall) {
  int returns = 0;
  removed_in_flight =
      place(ReturnProbeSpec{.where = self_call_back, .on_return = [&](Registers&) { ++returns; }});
  EXPECT_EQ(self_call_back(&remove_it, 5), 6);
  EXPECT_EQ(returns, 0);
}

long raise_exception(long n) {
  throw std::runtime_error(std::to_string(n));
}

TEST(ReturnProbe, LetsExceptionsPassAndCountsThem) {
  int returns = 0;
  const ReturnProbe outer =
      place(ReturnProbeSpec{.where = self_call_back, .on_return = [&](Registers&) { ++returns; }});
  for (int i = 0; i < 10000; ++i) {  // more often than there are slots
    std::string what;
    try {
      self_call_back(&raise_exception, i);
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    ASSERT_EQ(what, std::to_string(i));
  }
  EXPECT_EQ(outer.unwound(), 10000u);
  EXPECT_EQ(outer.missed(), 0u);
  EXPECT_EQ(returns, 0);
  EXPECT_EQ(self_call_back([](long a) { return a; }, 1), 2);
  EXPECT_EQ(returns, 1);
}

std::vector<void*> trace;
long take_backtrace(long n) {
  trace.resize(32);
  trace.resize(static_cast<size_t>(::backtrace(trace.data(), static_cast<int>(trace.size()))));
  return n;
}

TEST(ReturnProbe, LetsBacktracesThrough) {
  self_call_back(&take_backtrace, 1);
  const auto bare = trace;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_call_back, .on_return = [](Registers&) {}});
  self_call_back(&take_backtrace, 1);
  // There is one more frame, the slot's; the frames after it are the same as without a probe.
  ASSERT_EQ(trace.size(), bare.size() + 1);
  EXPECT_EQ(trace.back(), bare.back());
}

TEST(ReturnProbe, IsRefusedForCodeThatDoesNotReturn) {
  const auto probe =
      ReturnProbe::place(ReturnProbeSpec{.where = "libc:setjmp", .on_return = [](Registers&) {}});
  EXPECT_FALSE(probe.ok());
  const auto inside_one = ReturnProbe::place(ReturnProbeSpec{
      .where = inside(self_window, kSecondOfWindow), .on_return = [](Registers&) {}});
  ASSERT_FALSE(inside_one.ok());
  EXPECT_EQ(inside_one.error().cause, Cause::refused);
}

// A caller need not align its stack if nothing is thrown.
TEST(ReturnProbe, LetsThreadsBeCancelledInACallFromAnUnalignedStack) {
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_waits, .on_return = [](Registers&) {}});
  cleaned = 0;
  cancel_in(
      [](std::atomic<long>& begun) { self_unaligned(&self_waits, reinterpret_cast<long>(&begun)); },
      0);
  cancel_in([](std::atomic<long>& begun) { self_waits(reinterpret_cast<long>(&begun)); }, 0);
  EXPECT_EQ(cleaned, 2);
  EXPECT_EQ(probe.unwound(), 2u);
}

TEST(ReturnProbe, IsRefusedWithTooMuchData) {
  const auto probe = ReturnProbe::place(
      ReturnProbeSpec{.where = self_window, .on_return = [](Registers&) {}, .data_size = 4097});
  ASSERT_FALSE(probe.ok());
  EXPECT_EQ(probe.error().cause, Cause::data_too_large);
}

TEST(ReturnProbe, MeasuresNoCallsWhileItIsDisabled) {
  int returns = 0;
  ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_window, .on_return = [&](Registers&) { ++returns; }});
  ASSERT_TRUE(probe.disable().ok());
  self_window(1, 1);
  EXPECT_EQ(returns, 0);
  ASSERT_TRUE(probe.enable().ok());
  self_window(1, 1);
  EXPECT_EQ(returns, 1);
}

TEST(ReturnProbe, MeasuresCallsOfAllThreads) {
  std::atomic<int> returns{0};
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_factorial, .on_return = [&](Registers&) { ++returns; }});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      for (int n = 0; n < 1000; ++n) self_factorial(5);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(returns + static_cast<int>(probe.missed()), 8 * 1000 * 5);
  EXPECT_EQ(probe.missed(), 0u);
}

TEST(ReturnProbe, MeasuresCallsOfManyShortLivedThreads) {
  std::atomic<int> returns{0};
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_factorial, .on_return = [&](Registers&) { ++returns; }});
  constexpr int kThreads = 3000, kDepth = 8;  // more than there are slots
  for (int i = 0; i < kThreads; ++i) std::thread([] { self_factorial(kDepth); }).join();
  EXPECT_EQ(returns, kThreads * kDepth);
  EXPECT_EQ(probe.missed(), 0u);
}

TEST(ReturnProbe, GetsTheSlotsOfEndedThreadsBack) {
  int returns = 0;
  const ReturnProbe probe =
      place(ReturnProbeSpec{.where = self_factorial, .on_return = [&](Registers&) { ++returns; }});
  constexpr long kMoreThanThereAre = 10000;
  self_factorial(kMoreThanThereAre);
  const int at_once = returns;
  ASSERT_LT(at_once, kMoreThanThereAre);
  for (int i = 0; i < 100; ++i) std::thread([] { self_factorial(8); }).join();
  returns = 0;
  self_factorial(kMoreThanThereAre);
  // For the kernel, the last of them may not have ended yet.
  EXPECT_GE(returns, at_once - 8 * 10);
}

}  // namespace
}  // namespace pinprick
