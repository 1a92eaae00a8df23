// Runs the runtime of spans in this process: stubs whose actions start and end spans, called by
// threads, in signal handlers and in children.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "call_with_registers.h"
#include "probed_points.h"

namespace pinprick::runtime {
namespace {

class Span : public OnSpanPath, public testing::WithParamInterface<SpanPath> {
 protected:
  void SetUp() override { take(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Paths, Span,
                         testing::Values(SpanPath::locked, SpanPath::rseq, SpanPath::unregistered,
                                         SpanPath::without_fsgsbase),
                         [](const auto& path) { return text_of(path.param); });

TEST_P(Span, IsRecordedOncePerStartAndEnd) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  for (int i = 0; i < 10000; ++i) {
    on[0]();
    on[1]();
  }
  EXPECT_EQ(points.recorded(), 10000u);
  EXPECT_EQ(points.repeated() + points.unmatched() + points.missed() + points.pending(), 0u);
}

TEST_P(Span, LastsFromItsFirstStartAndCountsLaterOnes) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  const uint64_t before = monotonic_ns();
  on[0]();
  wait_ns(3'000'000);
  on[0]();
  on[0]();
  on[1]();
  const uint64_t elapsed = monotonic_ns() - before;
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(points.repeated(), 2u);
  EXPECT_GE(points.histogram().sum(), 2.99e6);
  EXPECT_LE(points.histogram().sum(), static_cast<double>(elapsed) * 1.001 + 1000);
}

TEST_P(Span, CountsAnEndWithoutAStart) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  on[1]();
  EXPECT_EQ(points.unmatched(), 1u);
  EXPECT_EQ(points.only_entry(), nullptr) << "an end takes no entry";
  on[0]();
  on[1]();
  on[1]();
  EXPECT_EQ(points.unmatched(), 2u);
  EXPECT_EQ(points.recorded(), 1u);
}

TEST_P(Span, FromAPointToItselfLastsFromHitToHit) {
  Points points(GetParam());
  const auto on = points.functions({{kEnd, kStart}});
  for (int i = 0; i < 1000; ++i) on[0]();
  EXPECT_EQ(points.recorded(), 999u);
  EXPECT_EQ(points.unmatched(), 1u);
  EXPECT_EQ(points.repeated(), 0u);
}

TEST_P(Span, SharesOnlyPointsWithOtherSpans) {
  Points points(GetParam(), 9);  // an entry is larger than a line of the cache
  // a..b, b..c as the last one, and c..a.
  const auto on = points.functions(
      {{end_of(1), start_of(0)}, {end_of(0), start_of(8)}, {end_of(8), start_of(1)}});
  for (int i = 0; i < 100; ++i)
    for (auto* point : on) point();
  on[0]();
  on[0]();
  EXPECT_EQ(points.recorded(0), 100u);
  EXPECT_EQ(points.recorded(8), 100u);
  EXPECT_EQ(points.recorded(1), 100u);
  EXPECT_EQ(points.unmatched(1), 2u) << "the first hit, and the last";
  EXPECT_EQ(points.repeated(0), 1u);
  EXPECT_EQ(points.repeated(8) + points.repeated(1) + points.unmatched(0) + points.unmatched(8),
            0u);
}

TEST_P(Span, IsNotEndedByAnotherThread) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  on[0]();
  std::thread([&] { on[1](); }).join();
  EXPECT_EQ(points.recorded(), 0u);
  EXPECT_EQ(points.unmatched(), 1u);
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
}

TEST_P(Span, LosesNothingWithSeveralThreads) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  constexpr uint64_t kThreads = 8, kPairs = 100'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kPairs; ++i) {
        on[0]();
        if (i % 8 == 0) on[0]();
        on[1]();
        if (i % 4 == 0) on[1]();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(points.recorded(), kThreads * kPairs);
  EXPECT_EQ(points.repeated(), kThreads * kPairs / 8);
  EXPECT_EQ(points.unmatched(), kThreads * kPairs / 4);
  EXPECT_EQ(points.missed(), 0u);
}

// A new thread on the stack of an ended one has the same control block, with another TID.
TEST_P(Span, IsNotEndedByANewThreadInTheMemoryOfAnEndedOne) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  constexpr size_t kStack = 1 << 18;
  void* const stack =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStack);
  constexpr uint64_t kThreads = 1000;
  for (uint64_t i = 0; i < kThreads; ++i) {
    pthread_t thread;
    const auto run = [](void* of) -> void* {
      const auto& functions = *static_cast<const std::vector<Points::Function*>*>(of);
      functions[1]();
      functions[0]();
      functions[1]();
      functions[0]();  // a start without an end
      return nullptr;
    };
    ASSERT_EQ(
        pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&on))),
        0);
    pthread_join(thread, nullptr);
  }
  pthread_attr_destroy(&attributes);
  munmap(stack, kStack);
  EXPECT_EQ(points.recorded(), kThreads);
  EXPECT_EQ(points.unmatched(), kThreads);
  EXPECT_EQ(points.repeated(), 0u);
  EXPECT_NE(points.only_entry(), nullptr) << "all had the same";
}

TEST_P(Span, IsMissedWithoutAFreeEntryUntilTheControllerMarksADeadThread) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  for (auto* entry : points.entries()) {
    *entry = {.owner = uint64_t{0x4711} << 32 | 77, .tid = 77, .dead = 0};
    *points.starts(entry) = 1;
  }
  on[0]();
  on[1]();
  EXPECT_EQ(points.missed(), 1u);
  EXPECT_EQ(points.unmatched(), 1u);
  for (auto* entry : points.entries()) entry->dead = 77;
  on[1]();
  EXPECT_EQ(points.unmatched(), 2u) << "nor has it what the one that ended began";
  on[0]();
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(points.missed(), 1u);
}

TEST_P(Span, IsNotEndedByAForkedChild) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  on[0]();
  const pid_t child = fork();
  if (child == 0) {
    on[1]();
    if (points.recorded() != 0 || points.unmatched() != 1) _exit(1);
    on[0]();
    on[1]();
    _exit(points.recorded() == 1 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
}

// The sum over all hits, whatever happened in between.
struct Hits {
  std::atomic<uint64_t> starts = 0, ends = 0;
};
void expect_exact(Points& points, const Hits& hits, uint64_t owner = 0,
                  const std::string& where = {}) {
  EXPECT_EQ(points.recorded() + points.repeated() + points.pending(owner), hits.starts.load())
      << where;
  EXPECT_EQ(points.recorded() + points.unmatched(), hits.ends.load()) << where;
  EXPECT_EQ(points.missed(), 0u) << where;
}

TEST_P(Span, CountsExactlyIfSignalHandlersPassTheSamePoints) {
  Points points(GetParam());
  static std::vector<Points::Function*> on;
  static Hits hits;
  on = points.functions({{kStart}, {kEnd}});
  hits.starts = hits.ends = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {
    static std::atomic<unsigned> turn = 0;
    switch (turn++ % 3) {
      case 0:
        ++hits.starts;
        on[0]();
        break;
      case 1:
        ++hits.ends;
        on[1]();
        break;
      default:
        ++hits.starts;
        on[0]();
        ++hits.ends;
        on[1]();
    }
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before);
  const itimerval often = {{0, 50}, {0, 50}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  constexpr uint64_t kThreads = 4, kPairs = 400'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kPairs; ++i) {
        on[0]();
        on[1]();
      }
      hits.starts += kPairs;
      hits.ends += kPairs;
    });
  for (auto& thread : threads) thread.join();
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  expect_exact(points, hits);
}

// --- A handler at each instruction

// With locked instructions, as a restartable sequence never ends under single steps.
TEST(SpanSteps, CountExactlyWhereverAHandlerInterrupts) {
  Points points(SpanPath::locked);
  static std::vector<Points::Function*> on;
  on = points.functions({{kStart}, {kEnd}});
  struct sigaction action = {}, before;
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  stepping.is_ours = [&](Address at) { return points.is_stub(at) || points.code().contains(at); };
  static Hits hits;
  const auto pass = [](bool ends) {
    ++(ends ? hits.ends : hits.starts);
    on[ends ? 1 : 0]();
  };
  on[0]();
  const uint64_t own = points.only_entry()->owner;
  points.narrow_to_window_of(points.only_entry());
  // What the thread finds in its window.
  enum Found : uint8_t {
    nothing,
    what_it_has_begun,
    its_predecessors,
    half_claimed,
    all_ended,
    end
  };
  const std::vector<std::vector<bool>> handlers = {{false}, {true}, {false, true}, {true, false}};
  uint64_t most_steps = 0;
  for (int found = nothing; found != Found::end; ++found)
    for (const bool ends : {false, true})
      for (const auto& handler : handlers)
        for (uint64_t steps = 0;; ++steps) {
          points.forget_all();
          hits.starts = hits.ends = 0;
          if (found == what_it_has_begun) pass(false);
          for (auto* entry : points.entries()) {
            if (found <= what_it_has_begun) break;
            entry->tid = 5;
            *points.starts(entry) = 7;
            entry->owner = own + 1;  // another TID
            if (found == half_claimed) entry->owner |= uint64_t{1} << 63;
            if (found != all_ended) break;
            entry->owner = uint64_t{1} << 40 | 5;
            entry->dead = 5;
          }
          stepping.steps = steps;
          stepping.visits.clear();
          stepping.is_done = false;
          stepping.then = [&] {
            for (const bool one : handler) pass(one);
          };
          ++(ends ? hits.ends : hits.starts);
          step_through(
              [](long at) {
                on[static_cast<size_t>(at)]();
                return 0L;
              },
              ends ? 1 : 0);
          const std::string where = "found " + std::to_string(found) + (ends ? " end" : " start") +
                                    " step " + std::to_string(steps);
          expect_exact(points, hits, own, where);
          pass(true);
          expect_exact(points, hits, own, where);
          EXPECT_EQ(points.pending(own), 0u);
          if (testing::Test::HasFailure() || !stepping.is_done) {
            most_steps = std::max(most_steps, steps);
            break;
          }
        }
  EXPECT_GT(most_steps, 100u);
  sigaction(SIGTRAP, &before, nullptr);
}

TEST_P(Span, PreservesAllRegistersAndFlags) {
  Points points(GetParam());
  // Each point without an entry, with an entry, and where it counts.
  const auto on = points.functions({{kEnd}, {kStart}, {kStart}, {kEnd}, {kEnd}, {kEnd, kStart}});
  for (const uint64_t flags : kFlagsToPreserve) {
    points.forget_all();
    for (auto* point : on) expect_preserved(point, flags);
    EXPECT_EQ(points.recorded(), 1u);
    EXPECT_EQ(points.repeated(), 1u);
    EXPECT_EQ(points.unmatched(), 3u);
  }
}

}  // namespace
}  // namespace pinprick::runtime
