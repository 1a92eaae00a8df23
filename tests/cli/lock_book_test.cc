#include "cli/measure/lock_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pinprick::cli {
namespace {

using Kind = LockEvent::Kind;
using testing::ElementsAre;
using testing::UnorderedElementsAre;
constexpr pid_t kProcess = 100, kOther = 200, kFirst = 1, kSecond = 2, kThird = 3;
constexpr uint64_t kA = 0x1000, kB = 0x2000, kC = 0x3000, kCondition = 0x4000;
constexpr uint64_t kLeastWait = 100'000, kCall = 20;
constexpr uint64_t kLong = 1'000'000;  // between two events, so that no call is within another one

LockEvent took(uint64_t tsc, uint64_t lock, pid_t thread = kFirst, uint64_t latency = kCall) {
  LockEvent event;
  event.process = kProcess;
  event.thread = thread;
  event.tsc = tsc * kLong;
  event.latency = latency;
  event.lock = lock;
  event.origin = static_cast<uint32_t>(thread);
  return event;
}
LockEvent released(uint64_t tsc, uint64_t lock, pid_t thread = kFirst) {
  LockEvent event = took(tsc, lock, thread, 0);
  event.kind = Kind::released;
  event.origin = LockEvent::kNoOrigin;
  return event;
}
LockEvent not_taken(LockEvent event) {
  event.kind = Kind::not_taken;
  return event;
}
LockEvent tried(LockEvent event) {
  event.may_wait = false;
  return event;
}
LockEvent recursive(LockEvent event) {
  event.is_recursive = true;
  return event;
}
LockEvent shared(LockEvent event) {
  event.type = LockType::readers_writer;
  event.is_shared = true;
  return event;
}
LockEvent of_condition(Kind kind, uint64_t tsc, pid_t thread, uint64_t latency = 0) {
  LockEvent event = took(tsc, kA, thread, latency);
  event.kind = kind;
  event.condition = kCondition;
  if (kind != Kind::waited) event.origin = LockEvent::kNoOrigin;
  return event;
}
LockEvent in(pid_t process, LockEvent event) {
  event.process = process;
  return event;
}

LockBook after(const std::vector<LockEvent>& events,
               LockBook::Limits limits = {100, 100, 100, kLeastWait}) {
  LockBook book(limits);
  for (const LockEvent& event : events) book.apply(event);
  return book;
}

const LockBook::Lock& lock_at(const LockBook& book, uint64_t address) {
  static const LockBook::Lock none = {};
  for (const LockBook::Lock& lock : book.locks())
    if (lock.address == address) return lock;
  return none;
}

LockBook::Use use_of(const LockBook& book, uint64_t address) {
  LockBook::Use all;
  for (const auto& [origin, use] : lock_at(book, address).uses) all.add(use);
  return all;
}

// The locks that each ring takes, in its order.
std::vector<std::vector<uint64_t>> contradictions(const LockBook& book, size_t most = 10) {
  std::vector<std::vector<uint64_t>> all;
  for (const auto& ring : book.contradictions(most)) {
    all.emplace_back();
    for (const LockBook::Order& one : ring) all.back().push_back(book.locks()[one.taken].address);
  }
  return all;
}

TEST(LockBook, AHoldLastsFromTheReturnOfTheCallThatTakesToTheCallThatReleases) {
  const LockBook book = after({took(1, kA), released(4, kA), took(5, kA), released(6, kA)});
  const LockBook::Use use = use_of(book, kA);
  EXPECT_EQ(use.taken, 2u);
  EXPECT_EQ(use.holds, 2u);
  EXPECT_EQ(use.held, 4 * kLong);
  EXPECT_EQ(use.longest_hold, 3 * kLong);
  EXPECT_EQ(use.waits, 0u);
}

TEST(LockBook, ACallThatTakesAsLongAsAWaitHasWaited) {
  const LockBook book =
      after({took(1, kA, kFirst, kLeastWait - 1), released(2, kA), took(3, kA, kFirst, kLeastWait),
             released(4, kA), took(5, kA, kFirst, 3 * kLeastWait), released(6, kA)});
  const LockBook::Use use = use_of(book, kA);
  EXPECT_EQ(use.waits, 2u);
  EXPECT_EQ(use.waited, 4 * kLeastWait);
  EXPECT_EQ(use.longest_wait, 3 * kLeastWait);
}

TEST(LockBook, WaitsAndHoldsBelongToWhoHasTakenTheLock) {
  const LockBook book = after({took(1, kA, kFirst), released(3, kA, kFirst),
                               took(4, kA, kSecond, 2 * kLong), released(5, kA, kSecond)});
  const auto& uses = lock_at(book, kA).uses;
  EXPECT_EQ(uses.at(kFirst).held, 2 * kLong);
  EXPECT_EQ(uses.at(kFirst).waits, 0u);
  EXPECT_EQ(uses.at(kSecond).held, kLong);
  EXPECT_EQ(uses.at(kSecond).waited, 2 * kLong);
}

TEST(LockBook, ATryThatFailsTakesNothingAndHasNotWaited) {
  const LockBook book =
      after({took(1, kA), not_taken(tried(took(2, kA, kSecond, kLeastWait))), released(3, kA)});
  const LockBook::Use use = use_of(book, kA);
  EXPECT_EQ(use.taken, 1u);
  EXPECT_EQ(use.not_taken, 1u);
  EXPECT_EQ(use.waits, 0u);
  EXPECT_EQ(use.held, 2 * kLong);
}

TEST(LockBook, ATimedCallThatGivesUpHasWaitedAndTakesNothing) {
  const LockBook book = after({not_taken(took(2, kA, kSecond, kLong))});
  EXPECT_EQ(use_of(book, kA).waited, kLong);
  EXPECT_EQ(use_of(book, kA).taken, 0u);
  EXPECT_TRUE(lock_at(book, kA).holds.empty());
}

TEST(LockBook, ARecursiveLockIsHeldUntilItsLastRelease) {
  const LockBook book = after({recursive(took(1, kA)), recursive(took(2, kA)), released(3, kA),
                               released(5, kA), released(6, kA)});
  EXPECT_EQ(use_of(book, kA).taken, 2u);
  EXPECT_EQ(use_of(book, kA).holds, 1u);
  EXPECT_EQ(use_of(book, kA).held, 4 * kLong);
  EXPECT_EQ(book.figures().unknown_releases, 1u);
  EXPECT_EQ(book.figures().unseen_releases, 0u);
}

TEST(LockBook, ReadersHoldALockAtTheSameTime) {
  const LockBook book = after({shared(took(1, kA, kFirst)), shared(took(2, kA, kSecond)),
                               released(4, kA, kFirst), released(6, kA, kSecond)});
  EXPECT_EQ(use_of(book, kA).held, 7 * kLong);
  EXPECT_EQ(use_of(book, kA).holds, 2u);
  EXPECT_EQ(book.figures().unseen_releases, 0u);
}

TEST(LockBook, AWaitForAConditionDoesNotHoldTheMutex) {
  const LockBook book =
      after({took(1, kA), of_condition(Kind::wait_begins, 2, kFirst), took(3, kA, kSecond),
             of_condition(Kind::signalled, 4, kSecond), released(5, kA, kSecond),
             of_condition(Kind::waited, 10, kFirst, 8 * kLong), released(11, kA)});
  EXPECT_EQ(lock_at(book, kA).uses.at(kFirst).held, 2 * kLong);
  EXPECT_EQ(lock_at(book, kA).uses.at(kFirst).holds, 2u);
  EXPECT_EQ(lock_at(book, kA).uses.at(kFirst).taken, 1u);
  EXPECT_EQ(use_of(book, kA).held, 4 * kLong);
  EXPECT_EQ(use_of(book, kA).waits, 0u);
  EXPECT_EQ(use_of(book, kCondition).waits, 1u);
  EXPECT_EQ(use_of(book, kCondition).waited, 8 * kLong);
  EXPECT_EQ(lock_at(book, kCondition).signals, 1u);
  EXPECT_EQ(lock_at(book, kCondition).first_origin, static_cast<uint32_t>(kFirst));
  EXPECT_EQ(book.figures().unseen_releases, 0u);
  EXPECT_EQ(book.figures().unknown_releases, 0u);
}

// In musl, pthread_cond_wait calls pthread_cond_timedwait, so both have events.
TEST(LockBook, AWaitWithinAWaitCountsOnce) {
  LockEvent inner_begins = of_condition(Kind::wait_begins, 2, kFirst);
  inner_begins.tsc += kCall;
  LockEvent inner = of_condition(Kind::waited, 10, kFirst, 8 * kLong - kCall);
  inner.tsc -= kCall;
  std::vector<LockEvent> events = {took(1, kA)};
  for (int i = 0; i < 2; ++i) {
    for (LockEvent event : {of_condition(Kind::wait_begins, 2, kFirst), inner_begins, inner,
                            of_condition(Kind::waited, 10, kFirst, 8 * kLong)}) {
      event.tsc += static_cast<uint64_t>(i) * 10 * kLong;
      events.push_back(event);
    }
  }
  events.push_back(released(21, kA));
  const LockBook book = after(events);
  EXPECT_EQ(use_of(book, kCondition).waits, 2u);
  EXPECT_EQ(use_of(book, kCondition).waited, 16 * kLong);
  EXPECT_EQ(use_of(book, kA).held, 4 * kLong);
  EXPECT_EQ(use_of(book, kA).holds, 3u);
  EXPECT_EQ(book.figures().unseen_releases, 0u);
  EXPECT_EQ(book.figures().unknown_releases, 0u);
}

TEST(LockBook, AConditionThatIsOnlySignalledHasNobodyWhoWaited) {
  const LockBook book = after({of_condition(Kind::signalled, 1, kFirst)});
  EXPECT_EQ(lock_at(book, kCondition).first_origin, LockEvent::kNoOrigin);
  EXPECT_TRUE(lock_at(book, kCondition).uses.empty());
}

TEST(LockBook, ACallWithinTheCallCountsOnce) {
  LockEvent inner = took(2, kA, kFirst, kLong / 2);
  LockEvent outer = took(2, kA, kFirst, kLong / 2 + kCall);
  outer.tsc += kCall;
  const LockBook book = after({inner, outer, released(3, kA)});
  EXPECT_EQ(use_of(book, kA).taken, 1u);
  EXPECT_EQ(use_of(book, kA).waits, 1u);
  EXPECT_EQ(use_of(book, kA).waited, kLong / 2 + kCall);
  EXPECT_EQ(use_of(book, kA).holds, 1u);
  EXPECT_EQ(book.figures().unseen_releases, 0u);
}

TEST(LockBook, ALockThatAnotherThreadTakesWasReleasedUnseen) {
  const LockBook book =
      after({took(1, kA, kFirst), took(5, kA, kSecond), released(6, kA, kSecond)});
  EXPECT_EQ(use_of(book, kA).holds, 1u);
  EXPECT_EQ(use_of(book, kA).held, kLong);
  EXPECT_TRUE(lock_at(book, kA).holds.empty());
  EXPECT_EQ(book.figures().unseen_releases, 1u);
}

TEST(LockBook, ALockMayBeReleasedByAnotherThread) {
  const LockBook book = after({took(1, kA, kFirst), released(3, kA, kSecond)});
  EXPECT_EQ(use_of(book, kA).held, 2 * kLong);
  EXPECT_EQ(book.figures().unknown_releases, 0u);
}

TEST(LockBook, AReleaseOfWhatWasTakenBeforeIsUnknown) {
  EXPECT_EQ(after({released(1, kA)}).figures().unknown_releases, 1u);
}

TEST(LockBook, WithoutReleasesNothingIsHeldAndNoOrderIsKnown) {
  const LockBook book = after({took(1, kA, kFirst, kLong), took(3, kB, kFirst, kLong),
                               took(5, kB, kSecond, kLong), took(7, kA, kSecond, kLong)},
                              {100, 100, 100, kLeastWait, false});
  EXPECT_EQ(use_of(book, kA).waits, 2u);
  EXPECT_TRUE(lock_at(book, kA).holds.empty());
  EXPECT_EQ(book.figures().unseen_releases, 0u);
  EXPECT_THAT(contradictions(book), ElementsAre());
}

TEST(LockBook, TwoThreadsThatTakeTwoLocksEitherWayContradict) {
  const LockBook book = after({took(1, kA), took(2, kB), released(3, kB), released(4, kA),
                               took(5, kB, kSecond), took(6, kA, kSecond)});
  EXPECT_THAT(contradictions(book), ElementsAre(UnorderedElementsAre(kA, kB)));
  const auto rings = book.contradictions(10);
  ASSERT_EQ(rings.size(), 1u);
  const auto& ring = rings.front();
  ASSERT_EQ(ring.size(), 2u);
  EXPECT_EQ(ring[0].taken, ring[1].held);
  EXPECT_EQ(ring[1].taken, ring[0].held);
  EXPECT_NE(ring[0].thread, ring[1].thread);
}

TEST(LockBook, ThreeThreadsThatTakeThreeLocksInARingContradict) {
  const LockBook book =
      after({took(1, kA), took(2, kB), released(3, kB), released(4, kA), took(5, kB, kSecond),
             took(6, kC, kSecond), released(7, kC, kSecond), released(8, kB, kSecond),
             took(9, kC, kThird), took(10, kA, kThird)});
  EXPECT_THAT(contradictions(book), ElementsAre(UnorderedElementsAre(kA, kB, kC)));
  EXPECT_THAT(contradictions(book, 0), ElementsAre());
}

TEST(LockBook, OneThreadAloneDoesNotContradictItself) {
  const LockBook book =
      after({took(1, kA), took(2, kB), released(3, kB), released(4, kA), took(5, kB), took(6, kA)});
  EXPECT_THAT(contradictions(book), ElementsAre());
}

TEST(LockBook, ARecursiveLockDoesNotContradictItself) {
  std::vector<LockEvent> events;
  for (const pid_t thread : {kFirst, kSecond})
    for (uint64_t i = 0; i < 2; ++i)
      events.push_back(recursive(took(events.size() + 1, kA, thread)));
  events.insert(events.begin() + 2, {released(2, kA), released(2, kA)});
  EXPECT_THAT(contradictions(after(events)), ElementsAre());
}

TEST(LockBook, OneOrderForAllIsNoContradiction) {
  const LockBook book = after({took(1, kA), took(2, kB), released(3, kB), released(4, kA),
                               took(5, kA, kSecond), took(6, kB, kSecond), took(7, kC, kSecond)});
  EXPECT_THAT(contradictions(book), ElementsAre());
}

TEST(LockBook, WhatOnlyTriesOrReadsContradictsNothing) {
  EXPECT_THAT(contradictions(after({took(1, kA), took(2, kB), released(3, kB), released(4, kA),
                                    took(5, kB, kSecond), tried(took(6, kA, kSecond))})),
              ElementsAre());
  EXPECT_THAT(contradictions(
                  after({shared(took(1, kA)), shared(took(2, kB)), released(3, kB), released(4, kA),
                         shared(took(5, kB, kSecond)), shared(took(6, kA, kSecond))})),
              ElementsAre());
}

TEST(LockBook, LocksOfTwoProcessesAtOneAddressAreTwo) {
  const LockBook book = after({took(1, kA), in(kOther, took(2, kA, kSecond)), released(4, kA)});
  ASSERT_EQ(book.locks().size(), 2u);
  EXPECT_EQ(book.locks()[0].uses.at(kFirst).held, 3 * kLong);
  EXPECT_EQ(book.locks()[1].uses.at(kSecond).holds, 0u);
  EXPECT_EQ(book.figures().unseen_releases, 0u);
}

TEST(LockBook, AnotherProgramHasOtherLocksAtTheSameAddresses) {
  LockBook book = after({took(1, kA)});
  book.forget(kProcess);
  book.apply(took(5, kA, kSecond));
  book.apply(released(6, kA, kSecond));
  ASSERT_EQ(book.locks().size(), 2u);
  EXPECT_EQ(book.locks()[0].uses.at(kFirst).taken, 1u);
  EXPECT_TRUE(book.locks()[0].holds.empty());
  EXPECT_EQ(book.locks()[1].uses.at(kSecond).held, kLong);
  EXPECT_EQ(book.figures().unseen_releases, 0u);
}

TEST(LockBook, WhatFindsNoRoomIsCounted) {
  const std::vector<LockEvent> events = {took(1, kA),
                                         took(2, kB),
                                         took(3, kC),
                                         released(4, kB),
                                         released(5, kA),
                                         took(6, kA, kSecond),
                                         released(7, kA, kSecond),
                                         took(8, kA, kThird),
                                         took(9, kB, kThird),
                                         released(10, kA, kThird)};
  const LockBook book = after(events, {2, 3, 1, kLeastWait});
  EXPECT_EQ(book.locks().size(), 2u);
  EXPECT_EQ(book.figures().no_room, 1u);
  // Those of a lock add up, whether it is known who called or not.
  EXPECT_EQ(use_of(book, kA).taken, 3u);
  EXPECT_EQ(use_of(book, kA).held, (4 + 1 + 2) * kLong);
  EXPECT_EQ(lock_at(book, kA).uses.at(LockEvent::kNoOrigin).taken, 1u);
  EXPECT_EQ(lock_at(book, kB).uses.at(LockEvent::kNoOrigin).taken, 1u);
  EXPECT_EQ(book.figures().no_room_for_uses, 3u);
  EXPECT_EQ(after(events, {2, 3, 0, kLeastWait}).figures().no_room_for_orders, 2u);
}

// Each lock of a row is taken with the one before it held, by threads in turn.
TEST(LockBook, ALongRowOfLocksWithOneStepBackIsOneRing) {
  constexpr uint64_t kLocks = 2000;
  LockBook book({kLocks, 10 * kLocks, 10 * kLocks, kLeastWait});
  uint64_t tsc = 1;
  const auto take_both = [&](uint64_t first, uint64_t second, pid_t thread) {
    book.apply(took(tsc++, first, thread));
    book.apply(took(tsc++, second, thread));
    book.apply(released(tsc++, second, thread));
    book.apply(released(tsc++, first, thread));
  };
  for (uint64_t i = 1; i < kLocks; ++i) take_both(i, i + 1, i % 2 == 0 ? kFirst : kSecond);
  EXPECT_THAT(contradictions(book), ElementsAre());
  take_both(1000, 997, kThird);
  EXPECT_THAT(contradictions(book), ElementsAre(UnorderedElementsAre(997, 998, 999, 1000)));
}

}  // namespace
}  // namespace pinprick::cli
