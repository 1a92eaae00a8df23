// Rings that keep the newest events, as the reader of the session's file finds them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "event_recorder.h"

namespace pinprick::runtime {
namespace {

using layout::EventRings;

class NewestEvents : public OnEachPath {};

// Of probe 3, whose events have four values.
constexpr uint32_t kProbe = 3;
constexpr uint64_t kBytes = PP_EVENT_VALUES + 8 * Recorder::kSizes[kProbe];

std::vector<uint64_t> numbers(const ledger::Events& events) {
  std::vector<uint64_t> all;
  for (const ledger::Event& one : events) all.push_back(one.values.empty() ? 0 : one.values[0]);
  return all;
}

TEST_P(NewestEvents, AreAllThereAsLongAsTheRingHasNotGoneAround) {
  const OnOneCpu one;
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  for (uint64_t i = 0; i < 100; ++i) program.hit(kProbe, i);
  program.stop();
  program.hit(kProbe, 1000);
  for (int time = 0; time < 2; ++time) {
    const auto events = program.take();
    ASSERT_EQ(events.size(), 100u) << "they stay, and none is added";
    for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(events[i].values[0], i);
    EXPECT_TRUE(std::all_of(events.begin(), events.end(), is_whole));
  }
  EXPECT_FALSE(program.has_overwritten());
  EXPECT_EQ(program.dropped(), std::vector<uint64_t>(kProbes)) << "what comes later is no loss";
  EXPECT_FALSE(program.is_wrong());
}

// Events of all sizes, so that the ring and its parts end in the midst of each.
TEST_P(NewestEvents, AreTheLastOnesWithoutAGap) {
  const OnOneCpu one;
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
    const uint64_t hits = 500 + random() % 20'000;
    uint64_t bytes = 0;
    std::vector<uint64_t> sizes;
    for (uint64_t i = 1; i <= hits; ++i) {
      auto probe = static_cast<uint32_t>(random() % 3);
      if (probe == Recorder::kTrigger) probe = kProbe;
      program.hit(probe, i);
      sizes.push_back(PP_EVENT_VALUES + 8 * uint64_t{Recorder::kSizes[probe]});
      bytes += sizes.back();
    }
    program.stop();
    const auto events = program.take();
    const auto found = numbers(events);
    ASSERT_TRUE(std::all_of(events.begin(), events.end(), is_whole));
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.back(), hits);
    for (size_t i = 1; i < found.size(); ++i) ASSERT_EQ(found[i], found[i - 1] + 1);
    EXPECT_EQ(program.has_overwritten(), bytes > program.capacity());
    // Of the ring, at most the oldest part is lost, and what an event takes.
    uint64_t kept = 0;
    for (const ledger::Event& event : events) kept += PP_EVENT_VALUES + 8 * event.values.size();
    const uint64_t part = program.capacity() / PP_RING_PARTS;
    const uint64_t most = 8 * layout::kMostEventWords;
    EXPECT_GE(kept, std::min(bytes, program.capacity() - part - 2 * most));
    EXPECT_FALSE(program.is_wrong());
  }
}

TEST_P(NewestEvents, EndWithTheOneThatTriggersTheEnd) {
  const OnOneCpu one;
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  for (uint64_t i = 0; i < 5000; ++i) program.hit(kProbe, i);
  EXPECT_FALSE(program.is_triggered());
  program.hit(Recorder::kTrigger, 0);
  EXPECT_TRUE(program.is_triggered());
  for (uint64_t i = 5000; i < 6000; ++i) program.hit(kProbe, i);
  program.hit(Recorder::kTrigger, 0);
  const auto events = program.take();
  ASSERT_GT(events.size(), 2u);
  EXPECT_EQ(events[events.size() - 1].probe, Recorder::kTrigger);
  EXPECT_EQ(events[events.size() - 2].values[0], 4999u);
  EXPECT_EQ(program.dropped(), std::vector<uint64_t>(kProbes));
  for (uint64_t area = 0; area < program.areas(); ++area) EXPECT_NE(program.ring(area).tail, 0u);
}

TEST_P(NewestEvents, GoOnAfterTheTriggerWhereItStopsNothing) {
  const OnOneCpu one;
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest_after_trigger);
  program.hit(kProbe, 1);
  program.hit(Recorder::kTrigger, 0);
  program.hit(kProbe, 2);
  EXPECT_TRUE(program.is_triggered());
  program.stop();
  EXPECT_EQ(numbers(program.take()), (std::vector<uint64_t>{1, 0, 2}));
}

// --- Rings that start again

TEST_P(NewestEvents, AreToldOnceWhereRingsAreRestarted) {
  const OnOneCpu one;
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  uint64_t next = 0;
  for (const uint64_t hits : {100, 0, 7, 20'000, 1, 3000}) {
    const uint64_t first = next;
    for (; next < first + hits; ++next) program.hit(kProbe, next);
    program.stop();
    program.hit(kProbe, UINT64_MAX);
    const auto found = numbers(program.take());
    const bool is_too_much = hits * kBytes > program.capacity();
    EXPECT_EQ(program.has_overwritten(), is_too_much);
    program.restart();
    if (!is_too_much) {
      ASSERT_EQ(found.size(), hits);
    }
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], next - found.size() + i);
    EXPECT_EQ(found.empty(), hits == 0);
  }
  EXPECT_FALSE(program.is_wrong());
}

TEST_P(NewestEvents, CanBeTriggeredAgainAfterARestart) {
  const OnOneCpu one;
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  for (uint64_t i = 1; i < 4; ++i) {
    program.hit(kProbe, i);
    program.hit(Recorder::kTrigger, 0);
    program.hit(kProbe, 1000);
    ASSERT_TRUE(program.is_triggered());
    EXPECT_EQ(numbers(program.take()), (std::vector<uint64_t>{i, 0}));
    program.restart();
    EXPECT_FALSE(program.is_triggered());
  }
}

// The thread set the mark of the trigger, was away, and goes on to stop the rings.
TEST_P(NewestEvents, GoOnAfterAThreadHasStoppedThemTooLate) {
  const OnOneCpu one;
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  const auto stop_late = [&] {
    for (uint64_t area = 0; area < program.areas(); ++area) program.ring(area).tail = 1;
  };
  stop_late();
  program.undo_late_stops();
  program.hit(kProbe, 1);
  EXPECT_TRUE(program.take().empty()) << "before a restart, nothing is late";
  program.restart();
  stop_late();
  program.hit(kProbe, 2);
  program.undo_late_stops();
  program.hit(kProbe, 3);
  EXPECT_EQ(numbers(program.take()), (std::vector<uint64_t>{3}));
  program.hit(Recorder::kTrigger, 0);
  program.undo_late_stops();
  program.hit(kProbe, 4);
  EXPECT_EQ(numbers(program.take()), (std::vector<uint64_t>{3, 0})) << "that one was in time";
}

// An event that a thread was about to write when the rings were stopped.
TEST_P(NewestEvents, ThatComeAfterTheReadingAreAmongTheNext) {
  const OnOneCpu one;
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  program.hit(kProbe, 1);
  program.stop();
  EXPECT_EQ(numbers(program.take()), (std::vector<uint64_t>{1}));
  for (uint64_t area = 0; area < program.areas(); ++area) program.ring(area).tail = 0;
  program.hit(kProbe, 2);
  program.restart();
  program.hit(kProbe, 3);
  EXPECT_EQ(numbers(program.take()), (std::vector<uint64_t>{2, 3}));
}

// --- Storms

Recorder* interrupted = nullptr;
std::atomic<uint64_t> next_number = 0;

void hit_any(Recorder& program) {
  const uint64_t number = ++next_number;
  program.hit(number % 2 == 0 ? kProbe : 2, number);
}

void hit_in_handler(int) {
  for (int i = 0; i < 3; ++i) hit_any(*interrupted);
}

// Runs threads whose signal handlers are hit, too, and returns how many hits there were.
uint64_t run_storm(Recorder& program, int hits_of_each) {
  interrupted = &program;
  next_number = 0;
  struct sigaction before = {}, action = {};
  action.sa_handler = hit_in_handler;
  EXPECT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::vector<std::thread> threads;
  std::atomic<int> running = 4;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < hits_of_each; ++i) {
        hit_any(program);
        if (i % 64 == 0) std::this_thread::yield();
      }
      --running;
    });
  while (running > 0) {
    for (std::thread& thread : threads) ::pthread_kill(thread.native_handle(), SIGUSR1);
    sleep_ns(50'000);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  program.stop();
  return next_number;
}

// And in the order of time.
void expect_whole_and_once(const ledger::Events& events) {
  std::set<uint64_t> seen;
  for (size_t i = 0; i < events.size(); ++i) {
    ASSERT_TRUE(is_whole(events[i]));
    ASSERT_TRUE(seen.insert(events[i].values[0]).second);
    if (i != 0) {
      ASSERT_GE(events[i].tsc, events[i - 1].tsc);
    }
  }
}

TEST_P(NewestEvents, OfThreadsAndTheirSignalHandlersAreKeptOrDroppedEachOnce) {
  constexpr uint32_t kEnoughLog2 = 27;
  Recorder program(GetParam(), kEnoughLog2, EventRings::newest);
  const uint64_t hits = run_storm(program, 20'000);
  const auto events = program.take();
  expect_whole_and_once(events);
  ASSERT_FALSE(program.has_overwritten());
  uint64_t dropped = 0;
  for (const uint64_t one : program.dropped()) dropped += one;
  EXPECT_EQ(events.size() + dropped, hits);
  if (GetParam() == Path::rseq) {
    EXPECT_EQ(dropped, 0u);
  }
  EXPECT_FALSE(program.is_wrong());
}

TEST_P(NewestEvents, OfThreadsThatOverwriteEachOthersAreWhole) {
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  run_storm(program, 100'000);
  const auto events = program.take();
  EXPECT_TRUE(program.has_overwritten());
  EXPECT_GT(events.size(), 100u);
  expect_whole_and_once(events);
  EXPECT_FALSE(program.is_wrong());
}

// One that is killed while it holds a shared ring leaves that one as it is.
TEST_P(NewestEvents, OfProcessesThatAreKilledAreWholeOrNotThere) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      for (uint64_t i = 0;; ++i) program.hit(2, i);
    sleep_ns(random() % 3'000'000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    program.stop();
    expect_whole_and_once(program.take());
  }
}

TEST(NewestEventsOfSharedRings, GoElsewhereWhileAnotherThreadHoldsTheRing) {
  const OnOneCpu one;
  Recorder program(Path::locked, layout::kLeastEventLog2, EventRings::newest);
  program.hit(kProbe, 1);
  uint64_t used = 0;
  while (program.ring(used).head == 0) ++used;
  program.ring(used).busy = 1;
  program.hit(kProbe, 2);
  for (uint64_t area = 0; area < program.areas(); ++area) program.ring(area).busy = 1;
  program.hit(kProbe, 3);
  EXPECT_FALSE(program.is_triggered());
  program.hit(Recorder::kTrigger, 0);
  EXPECT_TRUE(program.is_triggered()) << "although its event is dropped";
  for (uint64_t area = 0; area < program.areas(); ++area) program.ring(area).busy = 0;
  program.hit(kProbe, 4);
  auto found = numbers(program.take());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(program.dropped()[kProbe], 1u);
  EXPECT_EQ(program.dropped()[Recorder::kTrigger], 1u);
}

TEST_P(NewestEvents, AreNotRecordedInAChildThatMustNotCount) {
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  layout::RuntimeContext& context = program.context();
  std::fill(std::begin(context.locked_areas), std::end(context.locked_areas), 0);
  std::fill(std::begin(context.cpu_areas), std::end(context.cpu_areas), 0);
  for (uint32_t probe = 0; probe < kProbes; ++probe) program.hit(probe, 1);
  EXPECT_TRUE(program.take().empty());
  EXPECT_FALSE(program.is_triggered());
  EXPECT_FALSE(program.is_wrong());
}

// --- What others have written

// With any head, only the ring and the starts of its parts are written.
TEST_P(NewestEvents, AreWrittenIntoTheRingWhateverItsPositionsSay) {
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest_after_trigger);
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    for (uint64_t area = 0; area < program.areas(); ++area)
      program.ring(area).head = random() >> (random() % 64);
    for (uint32_t probe = 0; probe < kProbes; ++probe) program.hit(probe, 9);
    for (uint64_t area = 0; area < program.areas(); ++area) {
      ASSERT_EQ(program.ring(area).tail, 0u);
      ASSERT_EQ(program.ring(area).busy, 0u);
    }
  }
  EXPECT_EQ(program.dropped(), std::vector<uint64_t>(kProbes));
  EXPECT_FALSE(program.is_wrong());
}

TEST_P(NewestEvents, AreReadToTheEndWhateverIsInTheRing) {
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    for (uint64_t area = 0; area < program.areas(); ++area) {
      layout::EventRing& ring = program.ring(area);
      for (uint64_t i = 0; i < program.capacity() / 8; i += 1 + random() % 64)
        program.words(area)[i] = random() >> (random() % 64);
      ring.head = random() >> (random() % 64);
      for (uint64_t& start : ring.starts)
        start = random() % 2 == 0 ? ring.head - random() % program.capacity() : random();
    }
    for (const ledger::Event& event : program.take()) {
      EXPECT_LE(event.values.size(), PP_MOST_EVENT_VALUES);
      EXPECT_LT(event.tid, 1u << 24);
    }
  }
}

// The oldest events are not told from what was written over them if a start is lost; later ones
// are.
TEST_P(NewestEvents, AreFoundAgainAfterWhatIsNone) {
  const OnOneCpu one;
  Recorder program(GetParam(), layout::kLeastEventLog2, EventRings::newest);
  constexpr uint64_t kHits = 1000;
  static_assert(kHits * kBytes < uint64_t{1} << layout::kLeastEventLog2);
  for (uint64_t i = 0; i < kHits; ++i) program.hit(kProbe, i);
  program.stop();
  uint64_t used = 0;
  while (program.ring(used).head == 0) ++used;
  constexpr uint64_t kSpoilt = 500;
  program.words(used)[kSpoilt * kBytes / 8] = 0;
  const auto found = numbers(program.take());
  const uint64_t part = program.capacity() / PP_RING_PARTS;
  ASSERT_GE(found.size(), kHits - part / kBytes - 2);
  EXPECT_EQ(std::count(found.begin(), found.end(), kSpoilt), 0);
  EXPECT_EQ(found.front(), 0u);
  EXPECT_EQ(found.back(), kHits - 1);
}

INSTANTIATE_TEST_SUITE_P(Paths, NewestEvents, kPaths, name_of_path);

}  // namespace
}  // namespace pinprick::runtime
