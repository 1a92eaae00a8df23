// Runs the runtime of spans in this process: the gaps between spans.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "call_with_registers.h"
#include "probed_points.h"

namespace pinprick::runtime {
namespace {

using layout::Gap;

// The points of the gaps with that number: where a call or span ends, and where the next starts.
Passes last_end_of(Gap of, uint64_t gap) {
  return {gap,
          of == Gap::cpu ? layout::Pass::starts_gap_of_cpu : layout::Pass::starts_gap_of_thread};
}
Passes next_start_of(Gap of, uint64_t gap) {
  return {gap, of == Gap::cpu ? layout::Pass::ends_gap_of_cpu : layout::Pass::ends};
}

// One kind of gaps, on one CPU.
class Gaps : public OnSpanPath, public testing::WithParamInterface<std::tuple<SpanPath, Gap>> {
 protected:
  void SetUp() override { take(path()); }
  static SpanPath path() { return std::get<0>(GetParam()); }
  static Gap of() { return std::get<1>(GetParam()); }
  static bool is_of_cpu() { return of() == Gap::cpu; }
  // Leaves every thread's entry to others, so that none is free.
  static void fill_table(Points& points) {
    for (auto* entry : points.entries()) {
      *entry = {.owner = uint64_t{0x4711} << 32 | 77, .tid = 77, .dead = 0};
      *points.starts(entry) = 1;
    }
  }
  // Where the end of the last call or span is kept, by the areas or by the threads with an entry.
  static std::vector<uint64_t*> words(Points& points) {
    if (is_of_cpu()) return points.gap_words();
    std::vector<uint64_t*> words;
    for (auto* entry : points.entries())
      if (entry->owner != 0) words.push_back(points.starts(entry));
    return words;
  }
  static uint64_t pending(Points& points) {
    const auto all = words(points);
    return static_cast<uint64_t>(
        std::count_if(all.begin(), all.end(), [](const uint64_t* word) { return *word != 0; }));
  }

  const OnOneCpu here_;
};
std::string text_of(Gap of) {
  return of == Gap::cpu ? "of_cpu" : "of_thread";
}
INSTANTIATE_TEST_SUITE_P(Paths, Gaps,
                         testing::Combine(testing::Values(SpanPath::locked, SpanPath::rseq,
                                                          SpanPath::unregistered,
                                                          SpanPath::without_fsgsbase),
                                          testing::Values(Gap::cpu, Gap::thread)),
                         [](const auto& one) {
                           return text_of(std::get<0>(one.param)) + "_" +
                                  text_of(std::get<1>(one.param));
                         });

TEST_P(Gaps, LastFromTheLastEndToTheNextStart) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  wait_ns(50'000'000);
  const uint64_t before = monotonic_ns();
  on[0]();
  wait_ns(3'000'000);
  on[1]();
  const uint64_t elapsed = monotonic_ns() - before;
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_GE(points.histogram().sum(), 2.99e6);
  EXPECT_LE(points.histogram().sum(), static_cast<double>(elapsed) * 1.001 + 1000);
}

TEST_P(Gaps, AreTakenOnce) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  EXPECT_EQ(pending(points), 1u);
  for (int i = 0; i < 3; ++i) on[1]();
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(pending(points), 0u);
}

TEST_P(Gaps, AndStartsThatEndNoneAreTogetherAllStarts) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[1]();
  EXPECT_EQ(points.unmatched(), 1u) << "before the first end there is none";
  on[0]();
  on[0]();
  on[1]();
  EXPECT_EQ(points.unmatched(), 1u);
  on[1]();
  EXPECT_EQ(points.unmatched(), 2u) << "the last gap was taken";
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(points.missed() + points.repeated(), 0u);
}

TEST_P(Gaps, AreNoneBeforeTheFirstEnd) {
  Points points(path());
  const auto on = points.functions({{next_start_of(of(), 0)}});
  on[0]();
  EXPECT_EQ(points.recorded(), 0u);
  EXPECT_EQ(points.missed(), 0u);
  EXPECT_EQ(points.only_entry(), nullptr) << "a start takes no entry for them";
}

TEST_P(Gaps, AreNeverNegativeThoughTheClocksOfTwoCpusDiffer) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  for (uint64_t* word : words(points))
    if (*word != 0) *word = uint64_t{1} << 62;
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(points.histogram().sum(), 0.0);
}

TEST_P(Gaps, LieBetweenTheSpansOfOnePoint) {
  Points points(path(), 2);
  const auto on =
      points.functions({{next_start_of(of(), 1), kStart}, {kEnd, last_end_of(of(), 1)}});
  constexpr uint64_t kRounds = 10'000;
  for (uint64_t i = 0; i < kRounds; ++i)
    for (auto* point : on) point();
  EXPECT_EQ(points.recorded(0), kRounds);
  EXPECT_EQ(points.recorded(1), kRounds - 1);
  EXPECT_EQ(points.missed(0) + points.missed(1) + points.repeated(0) + points.repeated(1), 0u);
}

TEST_P(Gaps, OfAThreadAreNotEndedByAnotherButThoseOfACpuAre) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  std::thread([&] { on[1](); }).join();
  EXPECT_EQ(points.recorded(), is_of_cpu() ? 1u : 0u);
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
}

TEST_P(Gaps, OfACpuAreNotEndedOnAnotherButThoseOfAThreadAre) {
  const auto another = here_.another();
  if (!another) GTEST_SKIP() << "there is only one CPU";
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  const int home = ::sched_getcpu();
  on[0]();
  OnOneCpu::move_to(*another);
  on[1]();
  const bool counts_by_cpu = path() == SpanPath::rseq || path() == SpanPath::without_fsgsbase;
  EXPECT_EQ(points.recorded(), is_of_cpu() && counts_by_cpu ? 0u : 1u);
  OnOneCpu::move_to(home);
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
}

TEST_P(Gaps, OfAThreadWithoutAFreeEntryAreNotRecorded) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  fill_table(points);
  on[0]();
  on[1]();
  EXPECT_EQ(points.recorded(), is_of_cpu() ? 1u : 0u);
  EXPECT_EQ(points.missed(), 0u);
  for (auto* entry : points.entries()) ASSERT_EQ(*points.starts(entry), 1u) << "another thread's";
  for (auto* entry : points.entries()) entry->dead = 77;
  on[0]();
  on[1]();
  EXPECT_EQ(points.recorded(), is_of_cpu() ? 2u : 1u);
}

TEST_P(Gaps, ArePassedInAChildThatMustNotCount) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  points.empty_tables();
  on[1]();
  on[0]();
  on[1]();
  EXPECT_EQ(points.recorded(), 0u);
  EXPECT_EQ(points.unmatched(), 0u);
}

TEST_P(Gaps, AreNotTakenTwiceByThreadsOfOneCpu) {
  Points points(path(), 2);
  const auto on =
      points.functions({{next_start_of(of(), 1), kStart}, {kEnd, last_end_of(of(), 1)}});
  constexpr uint64_t kThreads = 8, kRounds = 20'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kRounds; ++i)
        for (auto* point : on) point();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(points.recorded(0), kThreads * kRounds);
  // Each has a start and an end of its own; an end that another one follows first has none.
  const uint64_t most = kThreads * kRounds - (is_of_cpu() ? 1 : kThreads);
  EXPECT_LE(points.recorded(1), most);
  if (is_of_cpu()) {
    EXPECT_GT(points.recorded(1), most / 2);
  } else {
    EXPECT_EQ(points.recorded(1), most);
  }
}

TEST_P(Gaps, PreserveAllRegistersAndFlags) {
  Points points(path());
  const Passes ends = next_start_of(of(), 0), starts = last_end_of(of(), 0);
  // Each point without an entry, with an entry, where there is no end, and where there is one.
  const auto on = points.functions({{ends}, {starts}, {starts}, {ends}, {ends}, {starts, ends}});
  for (const uint64_t flags : kFlagsToPreserve) {
    points.forget_all();
    for (auto* point : on) expect_preserved(point, flags);
    EXPECT_EQ(points.recorded(), 2u);
    fill_table(points);
    for (auto* point : on) expect_preserved(point, flags);
    EXPECT_EQ(points.recorded(), is_of_cpu() ? 4u : 2u);
  }
}

// What is left after ends (false) and starts (true), one after the other.
struct GapsLeft {
  uint64_t recorded = 0;
  bool is_pending = false;
  friend bool operator==(const GapsLeft&, const GapsLeft&) = default;
};
GapsLeft after(bool has_ended, std::initializer_list<std::vector<bool>> parts) {
  GapsLeft left = {0, has_ended};
  for (const auto& part : parts)
    for (const bool is_start : part) {
      left.recorded += is_start && left.is_pending;
      left.is_pending = !is_start;
    }
  return left;
}

class GapSteps : public testing::TestWithParam<std::tuple<bool, Gap>> {};
INSTANTIATE_TEST_SUITE_P(Paths, GapSteps,
                         testing::Combine(testing::Bool(), testing::Values(Gap::cpu, Gap::thread)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param) ? "rseq_" : "locked_") +
                                  text_of(std::get<1>(one.param));
                         });

// A handler runs before the point that it interrupts takes effect, or after that. A sequence that
// it interrupts is started again, as the kernel does that.
TEST_P(GapSteps, AreTakenOnceWhereverAHandlerInterrupts) {
  const auto [has_rseq, of] = GetParam();
  std::optional<arch::RseqArea> area;
  if (has_rseq)
    area = {static_cast<int32_t>(reinterpret_cast<char*>(&pretended_rseq) -
                                 static_cast<char*>(__builtin_thread_pointer()))};
  Points points(area, 1);
  static std::vector<Points::Function*> on;
  on = points.functions({{last_end_of(of, 0)}, {next_start_of(of, 0)}});
  struct sigaction action = {}, before;
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  stepping.is_ours = [&](Address at) { return points.is_stub(at) || points.code().contains(at); };
  const auto is_pending = [&] {
    for (const uint64_t* word : points.gap_words())
      if (*word != 0) return true;
    return points.pending() != 0;
  };
  const std::vector<std::vector<bool>> handlers = {{false}, {true}, {false, true}, {true, false}};
  uint64_t most_steps = 0;
  bool is_first_of_its_thread = true;
  for (const bool has_ended : {false, true})
    for (const bool is_start : {false, true})
      for (const auto& handler : handlers)
        for (uint64_t steps = 0;; ++steps) {
          points.forget_all();
          pretended_rseq = {};
          if (has_ended) on[0]();
          stepping.steps = steps;
          stepping.visits.clear();
          stepping.is_done = false;
          stepping.then = [&] {
            for (const bool one : handler) on[one ? 1 : 0]();
          };
          step_through(
              [](long at) {
                on[static_cast<size_t>(at)]();
                return 0L;
              },
              is_start ? 1 : 0);
          if (is_first_of_its_thread && points.only_entry() != nullptr) {
            points.narrow_to_window_of(points.only_entry());
            is_first_of_its_thread = false;
          }
          if (!stepping.is_done) {
            most_steps = std::max(most_steps, steps);
            break;
          }
          const GapsLeft left = {points.recorded(), is_pending()};
          EXPECT_TRUE(left == after(has_ended, {handler, {is_start}}) ||
                      left == after(has_ended, {{is_start}, handler}))
              << (is_start ? "start" : "end") << (has_ended ? " after an end" : "") << ", step "
              << steps << ": recorded " << left.recorded << (left.is_pending ? ", pending" : "");
          EXPECT_EQ(pretended_rseq.rseq_cs, 0u) << "step " << steps;
          EXPECT_EQ(points.missed(), 0u);
          if (testing::Test::HasFailure()) break;
        }
  EXPECT_GT(most_steps, 30u);
  sigaction(SIGTRAP, &before, nullptr);
}

}  // namespace
}  // namespace pinprick::runtime
