// The gaps between timed calls: from the end of one to the start of the next, on one CPU or thread.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "call_with_registers.h"
#include "probed_function.h"

namespace pinprick::runtime {
namespace {

class SlotGaps : public OnEachPath {};
INSTANTIATE_TEST_SUITE_P(Paths, SlotGaps, kPaths, name_of_path);

// One metric, and the gaps between its calls, with other fraction bits.
const std::vector<unsigned> kWithGaps = {3, 1};

constexpr Gap kKindsOfGaps[] = {Gap::cpu, Gap::thread};

TEST_P(SlotGaps, BeginOnTheirCpuOrThreadWhenTheCallReturns) {
  const OnOneCpu here;
  for (const Gap gap : kKindsOfGaps) {
    Probed probed(kIncrement, GetParam(), kSlots, 0, kWithGaps, gap);
    auto* increment = probed.function<long(long)>();
    constexpr long kCalls = 10000;
    for (long i = 0; i < kCalls; ++i) ASSERT_EQ(increment(i), i + 1);
    EXPECT_EQ(probed.histogram(0).count(), uint64_t{kCalls});
    EXPECT_EQ(probed.histogram(1).count(), uint64_t{kCalls - 1});
    EXPECT_EQ(probed.missed(0) + probed.missed(1), 0u);
    EXPECT_EQ(probed.gaps_begun().size(), gap == Gap::cpu ? 1u : 0u) << "the last call's end";
    EXPECT_EQ(probed.slots_in_use(), 0u);
  }
}

TEST_P(SlotGaps, DoNotHaveTheCallItself) {
  const OnOneCpu here;
  static uint64_t ended;
  for (const Gap gap : kKindsOfGaps) {
    Probed probed(kCallBack, GetParam(), kSlots, 0, kWithGaps, gap);
    auto* call = probed.function<long(long (*)(long), long)>();
    const auto busy = [](long ns) {
      const uint64_t until = monotonic_ns() + static_cast<uint64_t>(ns);
      do ended = monotonic_ns();
      while (ended < until);
      return 0L;
    };
    call(busy, 50'000'000);
    const uint64_t before = ended;
    busy(2'000'000);
    call(busy, 0);
    const uint64_t elapsed = monotonic_ns() - before;
    EXPECT_EQ(probed.histogram(1).count(), 1u);
    EXPECT_GE(probed.histogram(1).sum(), 1.99e6);
    EXPECT_LE(probed.histogram(1).sum(), static_cast<double>(elapsed) * 1.001 + 1000);
  }
}

TEST_P(SlotGaps, DoNotBeginAtTheEndOfADroppedCall) {
  static Probed* probed = nullptr;
  const OnOneCpu here;
  for (const Gap gap : kKindsOfGaps) {
    Probed own(kCallBack, GetParam(), kSlots, 0, kWithGaps, gap);
    probed = &own;
    auto* call = own.function<long(long (*)(long), long)>();
    const auto drop = [](long value) {
      probed->drop_calls();
      return value;
    };
    const auto step = [](long value) { return value + 1; };
    ASSERT_EQ(call(drop, 7), 7);
    EXPECT_TRUE(own.gaps_begun().empty());
    ASSERT_EQ(call(step, 7), 8);
    EXPECT_EQ(own.histogram(0).count(), 1u);
    EXPECT_EQ(own.histogram(1).count(), 0u);
    ASSERT_EQ(call(step, 7), 8);
    EXPECT_EQ(own.histogram(1).count(), 1u);
    EXPECT_EQ(own.slots_in_use(), 0u);
  }
}

TEST_P(SlotGaps, LoseNothingByCallsWithoutASlotOrThatAreAbandoned) {
  static Probed* probed = nullptr;
  const OnOneCpu here;
  for (const Gap gap : kKindsOfGaps) {
    Probed own(kCallBack, GetParam(), kSlots, 0, kWithGaps, gap);
    probed = &own;
    const auto step = [](long value) { return value + 1; };
    auto* call = own.function<long(long (*)(long), long)>();
    for (uint64_t i = 0; i < 10 * kSlots; ++i) {
      leave_by_longjmp(own);
      ASSERT_EQ(call(step, 7), 8);
    }
    EXPECT_GT(own.abandoned(0), 0u);
    EXPECT_EQ(own.histogram(1).count() + own.unmatched_starts(1), 20 * kSlots);
    struct Recurse {
      static long down(long depth) {
        return depth == 0 ? 0 : probed->function<long(long (*)(long), long)>()(&down, depth - 1);
      }
    };
    ASSERT_EQ(Recurse::down(2 * kSlots), 0);
    EXPECT_GT(own.missed(0), 0u);
    EXPECT_EQ(own.missed(1), 0u);
  }
}

TEST_P(SlotGaps, LoseNoCallWithSeveralThreads) {
  for (const Gap gap : kKindsOfGaps) {
    Probed probed(kIncrement, GetParam(), kSlots, 0, kWithGaps, gap);
    auto* increment = probed.function<long(long)>();
    constexpr int kThreads = 8;
    constexpr long kCalls = 20000;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (long i = 0; i < kCalls; ++i) increment(i);
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(probed.histogram(0).count(), uint64_t{kThreads} * kCalls);
    EXPECT_LE(probed.histogram(1).count(), uint64_t{kThreads} * kCalls);
    EXPECT_GT(probed.histogram(1).count(), uint64_t{kThreads} * kCalls / 2);
    EXPECT_EQ(probed.missed(0) + probed.missed(1), 0u);
    EXPECT_EQ(probed.slots_in_use(), 0u);
  }
}

TEST_P(SlotGaps, PreserveAllRegistersAndFlags) {
  const OnOneCpu here;
  for (const Gap gap : kKindsOfGaps) {
    Probed probed({0xc3}, GetParam(), kSlots, 0, kWithGaps, gap);
    for (const uint64_t flags : kFlagsToPreserve)
      expect_preserved(probed.function<void()>(), flags);
    EXPECT_EQ(probed.histogram(0).count(), 5u);
    EXPECT_EQ(probed.histogram(1).count(), 4u);
  }
}

}  // namespace
}  // namespace pinprick::runtime
