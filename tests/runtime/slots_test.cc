// Runs the runtime of return probes in this process: stubs, slots and histograms in the test's
// memory, and functions that check the results of their calls.
#include <gtest/gtest.h>
#include <ucontext.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "call_with_registers.h"
#include "probed_function.h"

namespace pinprick::runtime {
namespace {

class Slots : public OnEachPath {};
INSTANTIATE_TEST_SUITE_P(Paths, Slots, kPaths, name_of_path);

// Several owners time one function: each has its own counters, and its own resolution of
// histograms.
const std::vector<unsigned> kSeveral = {3, 0, 5};

TEST_P(Slots, RecordEveryCallOnceAndAreAllGivenBack) {
  Probed probed(kIncrement, GetParam());
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 10000; ++i) ASSERT_EQ(increment(i), i + 1);
  EXPECT_EQ(probed.histogram().count(), 10000u);
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, RecordNothingWithEmptyTablesAndAreAllGivenBack) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  own.empty_tables();
  EXPECT_EQ(Recurse::down(2 * kSlots), 2 * kSlots) << "some of them without a slot";
  EXPECT_EQ(own.histogram().count(), 0u);
  EXPECT_EQ(own.missed(), 0u);
  EXPECT_EQ(own.slots_in_use(), 0u);
}

TEST_P(Slots, LoseNothingWithSeveralThreads) {
  Probed probed(kIncrement, GetParam());
  auto* increment = probed.function<long(long)>();
  constexpr int kThreads = 8;
  constexpr long kCalls = 200000;
  std::atomic<long> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kCalls; ++i)
        if (increment(i) != i + 1) ++wrong;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(probed.histogram().count() + probed.missed(), uint64_t{kThreads} * kCalls);
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, RecordACallInEachOfItsMetricsAndTimeItOnce) {
  Probed probed(kIncrement, GetParam(), kSlots, 0, kSeveral);
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 10000; ++i) ASSERT_EQ(increment(i), i + 1);
  const stats::Histogram finest = probed.histogram(2);
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(probed.histogram(metric).count(), 10000u) << metric;
    EXPECT_EQ(probed.missed(metric), 0u) << metric;
    // The times are the same, so each cell of the finest lies within one of the coarser.
    stats::Histogram coarser(kSeveral[metric]);
    for (uint32_t slot = 0; slot < finest.cells().size(); ++slot)
      coarser.add(stats::slot_of(stats::slot_floor(slot, 5), kSeveral[metric]),
                  finest.cells()[slot]);
    for (uint32_t slot = 0; slot < coarser.cells().size(); ++slot)
      EXPECT_EQ(probed.histogram(metric).cells()[slot].count, coarser.cells()[slot].count)
          << metric << " " << slot;
  }
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, LoseNothingOfAnyMetricWithSeveralThreads) {
  Probed probed(kIncrement, GetParam(), kSlots, 0, kSeveral);
  auto* increment = probed.function<long(long)>();
  constexpr int kThreads = 8;
  constexpr long kCalls = 50000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kCalls; ++i) increment(i);
    });
  for (auto& thread : threads) thread.join();
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(probed.histogram(metric).count(), uint64_t{kThreads} * kCalls) << metric;
    EXPECT_EQ(probed.missed(metric), 0u) << metric;
  }
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, CountAnUnrecordedCallAsMissedInEachOfItsMetrics) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam(), kSlots, 0, kSeveral);
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  constexpr uint64_t kDepth = kSlots + 10;
  EXPECT_EQ(Recurse::down(kDepth), static_cast<long>(kDepth));
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(own.histogram(metric).count(), kSlots) << metric;
    EXPECT_EQ(own.missed(metric), 10u) << metric;
  }
  EXPECT_EQ(own.slots_in_use(), 0u);
}

TEST_P(Slots, CountACallWithoutABlockAsMissedInEachOfItsMetrics) {
  Probed probed(kIncrement, GetParam(), kSlots, 0, kSeveral);
  probed.allow_blocks(0, 0);
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 100; ++i) ASSERT_EQ(increment(i), i + 1);
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(probed.histogram(metric).count(), 0u) << metric;
    EXPECT_EQ(probed.missed(metric), 100u) << metric;
  }
  EXPECT_EQ(probed.pool().refused, 100 * kSeveral.size());
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, TakeMemoryForAHistogramOnlyOnceSomethingIsRecorded) {
  Probed probed(kIncrement, GetParam());
  EXPECT_EQ(probed.pool().taken, 0u);
  for (long i = 0; i < 1000; ++i) probed.function<long(long)>()(i);
  EXPECT_GE(probed.areas_with_a_block(), 1u);
  EXPECT_LE(probed.areas_with_a_block(), probed.cpus());
  EXPECT_EQ(probed.pool().taken, probed.areas_with_a_block() * kBlock);
  EXPECT_EQ(probed.pool().refused, 0u);
}

TEST_P(Slots, ShareABlockIfCpusHaveNoneAndLoseNothing) {
  Probed probed(kIncrement, GetParam());
  probed.allow_blocks(1, 0);
  auto* increment = probed.function<long(long)>();
  constexpr int kThreads = 8;
  constexpr long kCalls = 20000;
  increment(0);  // the block is there from now on: while a thread takes it, others miss
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kCalls; ++i) increment(i);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(probed.histogram().count(), uint64_t{kThreads} * kCalls + 1);
  EXPECT_EQ(probed.pool().taken, kBlock);
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, CountOrMissEachCallWhileTheLastBlockIsTaken) {
  constexpr int kThreads = 8;
  constexpr long kCalls = 100;
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    Probed probed(kIncrement, GetParam());
    probed.allow_blocks(1, 0);
    auto* increment = probed.function<long(long)>();
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (long i = 0; i < kCalls; ++i) increment(i);
      });
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(probed.histogram().count() + probed.missed(), uint64_t{kThreads} * kCalls) << round;
    ASSERT_EQ(probed.pool().taken, kBlock) << round;
  }
}

TEST_P(Slots, CountCallsAsMissedUntilThereIsABlock) {
  Probed probed(kIncrement, GetParam());
  probed.allow_blocks(0, 0);
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 100; ++i) ASSERT_EQ(increment(i), i + 1);
  EXPECT_EQ(probed.histogram().count(), 0u);
  EXPECT_EQ(probed.missed(), 100u);
  EXPECT_EQ(probed.pool().refused, 100u);
  EXPECT_EQ(probed.pool().taken, 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
  probed.allow_blocks(probed.cpus() + 1, probed.cpus());
  for (long i = 0; i < 100; ++i) ASSERT_EQ(increment(i), i + 1);
  EXPECT_EQ(probed.histogram().count(), 100u);
  EXPECT_EQ(probed.missed(), 100u);
}

TEST_P(Slots, DoNotFollowABlockOffsetOutsideThePool) {
  Probed probed(kIncrement, GetParam());
  auto* increment = probed.function<long(long)>();
  std::vector<uint64_t> canary(1 << 13);
  const uint64_t size = layout::histogram_size(kBits);
  uint64_t missed = 0;
  for (uint64_t offset : {probed.offset_of(canary.data()), probed.end_of_pool() - size + 8,
                          probed.end_of_pool(), UINT64_MAX, uint64_t{1} << 63}) {
    probed.put_blocks(offset);
    for (long i = 0; i < 10; ++i) ASSERT_EQ(increment(i), i + 1);
    missed += 10;
    EXPECT_EQ(probed.missed(), missed) << std::hex << offset;
  }
  EXPECT_EQ(std::count(canary.begin(), canary.end(), 0u), static_cast<long>(canary.size()));
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, TakeNoBlockFromAPoolThatClaimsMoreThanItHas) {
  Probed probed(kIncrement, GetParam());
  auto* increment = probed.function<long(long)>();
  uint64_t missed = 0;
  for (uint64_t taken :
       {(uint64_t{probed.cpus()} + 1) * kBlock, uint64_t{1} << 40, UINT64_MAX - kBlock}) {
    probed.pool().taken = taken;
    probed.allow_blocks(UINT64_MAX, UINT64_MAX);
    for (long i = 0; i < 10; ++i) ASSERT_EQ(increment(i), i + 1);
    missed += 10;
    EXPECT_EQ(probed.missed(), missed) << taken;
    EXPECT_EQ(probed.areas_with_a_block(), 0u);
  }
}

// The controller adds blocks while threads run short of them.
TEST_P(Slots, RecordOrMissEachCallWhileBlocksAreAdded) {
  Probed probed(kIncrement, GetParam());
  probed.allow_blocks(0, 0);
  auto* increment = probed.function<long(long)>();
  constexpr int kThreads = 4;
  std::atomic<bool> enough = false;
  std::atomic<uint64_t> calls = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (; !enough; ++calls) increment(1);
    });
  const auto wait_for_calls = [&](uint64_t more) {
    for (const uint64_t begin = calls; calls < begin + more;) std::this_thread::yield();
  };
  for (uint32_t blocks = 0; blocks <= probed.cpus(); ++blocks) {
    wait_for_calls(1000);
    probed.allow_blocks(blocks + 1, blocks);
  }
  wait_for_calls(1000);
  enough = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(probed.histogram().count() + probed.missed(), calls);
  EXPECT_EQ(probed.missed(), probed.pool().refused);
  EXPECT_GT(probed.missed(), 0u);
  EXPECT_GT(probed.histogram().count(), 0u);
}

// Until it registers, a new thread in the memory of one that ended has an rseq area that names a
// CPU, but no registration with the kernel. So its sequences are not restarted, and several such
// threads use the lists of one CPU at once.
TEST(SlotsUnregistered, NeverHaveTwoOwnersWhateverTheRseqAreaSays) {
  if (!own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  Probed probed(kCallBack, Path::rseq);
  const auto step = [](long i) { return i + 1; };
  constexpr int kThreads = 8;
  std::atomic<long> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      auto* area = own_area();
      call_rseq(RSEQ_FLAG_UNREGISTER);
      __atomic_store_n(&area->cpu_id, 0, __ATOMIC_RELAXED);
      auto* call = probed.function<long(long (*)(long), long)>();
      for (long i = 0; i < 400000; ++i)
        if (call(step, i) != i + 1) ++wrong;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

// As such threads may leave it: a list that leads to a slot in use, and from there to itself.
TEST_P(Slots, MeasureAllCallsWithADamagedList) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      probed->damage_list();
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  constexpr long kDepth = 5;
  EXPECT_EQ(Recurse::down(kDepth), kDepth);
  EXPECT_EQ(own.histogram().count(), static_cast<uint64_t>(kDepth));
  EXPECT_EQ(own.missed(), 0u);
  EXPECT_EQ(own.slots_in_use(), 0u);
}

// The kernel also follows the area's pointer when a thread registers: a thread that gets the memory
// of one that ended would be killed once our code is gone.
TEST(SlotsRegistered, ThreadsDoNotKeepAPointerToASequenceThatTheyLeft) {
  if (!own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  Probed probed(kIncrement, Path::rseq);
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 1000; ++i) {
    ASSERT_EQ(increment(i), i + 1);
    ASSERT_EQ(__atomic_load_n(&own_area()->rseq_cs, __ATOMIC_RELAXED), 0u);
  }
}

TEST_P(Slots, CountCallsBeyondTheLastSlotAsMissed) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  constexpr long kDepth = 100;
  EXPECT_EQ(Recurse::down(kDepth), kDepth);
  EXPECT_EQ(own.histogram().count(), kSlots);
  EXPECT_EQ(own.missed(), kDepth - kSlots);
  EXPECT_EQ(own.slots_in_use(), 0u);
  EXPECT_EQ(Recurse::down(10), 10);  // they can be used again
  EXPECT_EQ(own.histogram().count(), kSlots + 10);
}

// The recursion takes more slots than there are, while slots are added.
TEST_P(Slots, ThatAreAddedAreUsedWithoutLosingACall) {
  static Probed* probed = nullptr;
  constexpr uint64_t kCapacity = 4096;
  Probed own(kCallBack, GetParam(), 1, kCapacity);
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  constexpr long kThreads = 4, kRounds = 200, kDepth = 300;
  std::atomic<long> wrong = 0;
  std::vector<std::thread> threads;
  for (long t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kRounds; ++i)
        if (Recurse::down(kDepth) != kDepth) ++wrong;
    });
  for (uint64_t there = 1; there < kCapacity; there += 7)
    own.add_slots(std::min<uint64_t>(7, kCapacity - there));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(own.histogram().count() + own.missed(), uint64_t{kThreads * kRounds * kDepth});
  const uint64_t missed = own.missed();
  EXPECT_EQ(Recurse::down(kDepth), kDepth);
  EXPECT_EQ(own.missed(), missed) << "there are enough now";
}

TEST_P(Slots, OfAbandonedCallsAreReusedByCallsFromTheSamePlace) {
  Probed probed(kCallBack, GetParam());
  auto* call = probed.function<long(long (*)(long), long)>();
  const auto step = [](long i) { return i + 1; };
  constexpr uint64_t kRounds = 100 * kSlots;
  for (uint64_t i = 0; i < kRounds; ++i) {
    leave_by_longjmp(probed);
    ASSERT_EQ(call(step, 7), 8);
  }
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.histogram().count(), kRounds);
  EXPECT_LT(probed.slots_in_use(), kSlots / 2);
  // The last abandoned call was not followed by another one, which would reuse its slot.
  EXPECT_EQ(probed.abandoned() + probed.slots_in_use(), kRounds);
}

TEST_P(Slots, OfAbandonedCallsAreCountedByEachMetric) {
  Probed probed(kCallBack, GetParam(), kSlots, 0, kSeveral);
  constexpr uint64_t kRounds = 10 * kSlots;
  const auto step = [](long i) { return i + 1; };
  auto* call = probed.function<long(long (*)(long), long)>();
  for (uint64_t i = 0; i < kRounds; ++i) {
    leave_by_longjmp(probed);
    ASSERT_EQ(call(step, 7), 8);
  }
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(probed.histogram(metric).count(), kRounds) << metric;
    EXPECT_EQ(probed.abandoned(metric) + probed.slots_in_use(), kRounds) << metric;
  }
}

TEST_P(Slots, OfAbandonedCallsAreReusedByCallsThatReturn) {
  Probed probed(kCallBack, GetParam());
  auto* call = probed.function<long(long (*)(long), long)>();
  uint64_t returned = 0;
  const auto step = [](long i) { return i % 3 == 0 ? leap(i + 1) : i; };
  for (long i = 1; i < 10000; ++i)
    if (setjmp(leave_to) == 0) {
      ASSERT_EQ(call(step, i), i);
      ++returned;
    }
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.histogram().count(), returned);
  EXPECT_LT(probed.slots_in_use(), kSlots / 2);
}

__attribute__((noinline)) void leave_deeper(Probed& probed, size_t bytes) {
  auto* const room = static_cast<char*>(__builtin_alloca(bytes));
  asm volatile("" : : "r"(room) : "memory");
  leave_by_longjmp(probed);
  asm volatile("" : : "r"(room) : "memory");
}

// How much deeper the stack has to be for nearly the same hash.
size_t depth_with_the_same_hash() {
  constexpr uint32_t kNear = 1u << (32 - PP_REUSABLE_LOG2 - 1);
  uint32_t bytes = 16;
  while (bytes * 0x9e3779b1u >= kNear && bytes * 0x9e3779b1u <= -kNear) bytes += 16;
  return bytes;
}

// Of three places at such distances, at least two have the same hash.
TEST_P(Slots, OfAbandonedCallsAreReusedIfSeveralPlacesHaveTheSameHash) {
  Probed probed(kCallBack, GetParam());
  const auto step = [](long i) { return i + 1; };
  auto* call = probed.function<long(long (*)(long), long)>();
  const size_t deeper = depth_with_the_same_hash();
  ASSERT_LT(deeper, size_t{2} << 20) << "of a stack that has 8 MiB";
  constexpr uint64_t kRounds = 20 * kSlots;
  for (uint64_t i = 0; i < kRounds; ++i) {
    for (const size_t depth : {size_t{16}, 16 + deeper, 16 + 2 * deeper})
      leave_deeper(probed, depth);
    ASSERT_EQ(call(step, 7), 8);
  }
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.histogram().count(), kRounds);
  EXPECT_LT(probed.slots_in_use(), kSlots / 2);
}

// Two contexts take turns on the same stack, and their parts of it are copied away and back, as
// greenlet does. Both are in a call from the same call site, so that the second gets the slot of
// the first when slots are scarce.
TEST_P(Slots, ThatAreReusedReturnEachCallToItsCaller) {
  static Probed* probed = nullptr;
  static ucontext_t home, contexts[2];
  static int turn;
  static long results[2];
  Probed own(kCallBack, GetParam());
  probed = &own;
  for (uint64_t i = 0; i < kSlots; ++i) leave_by_longjmp(own);  // now they are scarce

  static std::vector<uint8_t> stack;
  struct Coroutine {
    static long pause(long value) {
      const int me = turn;
      swapcontext(&contexts[me], &home);
      return value * 10;
    }
    static void run() {
      const int me = turn;
      const long value = probed->function<long(long (*)(long), long)>()(&pause, me + 1);
      results[me] = value;
    }
  };
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&down, depth - 1) + 1;
    }
  };
  std::vector<uint8_t> aside[2];
  const auto resume = [&](int number) {
    turn = number;
    std::copy(aside[number].begin(), aside[number].end(), stack.begin());
    swapcontext(&home, &contexts[number]);
    aside[number] = stack;
  };
  // More than once, as another slot may have the same hash and be found instead.
  std::vector<std::vector<uint8_t>> stacks;
  uint64_t shared = 0;
  while (stacks.size() < 5) {
    stacks.push_back(std::exchange(stack, std::vector<uint8_t>(65536)));  // at another address
    for (turn = 0; turn < 2; ++turn) {
      getcontext(&contexts[turn]);
      contexts[turn].uc_stack.ss_sp = stack.data();
      contexts[turn].uc_stack.ss_size = stack.size();
      contexts[turn].uc_link = &home;
      makecontext(&contexts[turn], &Coroutine::run, 0);
      aside[turn] = stack;
      results[turn] = 0;
    }
    resume(0);
    Recurse::down(2 * kSlots);  // no slot is free, so all are noted
    const uint64_t left = own.abandoned();
    resume(1);
    shared += own.abandoned() - left;
    resume(0);
    for (uint64_t i = 0; i < 2 * kSlots; ++i)  // these would take a slot that was given back
      ASSERT_EQ(own.function<long(long (*)(long), long)>()([](long value) { return value; }, 3), 3);
    resume(1);
    ASSERT_EQ(results[0], 10);
    ASSERT_EQ(results[1], 20);
  }
  EXPECT_GT(shared, 0u);
}

TEST_P(Slots, MeasureTheTimeInNanoseconds) {
  Probed probed(kCallBack, GetParam());
  auto* call = probed.function<long(long (*)(long), long)>();
  const auto busy = [](long ns) {
    const uint64_t until = monotonic_ns() + static_cast<uint64_t>(ns);
    while (monotonic_ns() < until) {
    }
    return 0L;
  };
  const uint64_t before = monotonic_ns();
  call(busy, 3'000'000);
  const uint64_t elapsed = monotonic_ns() - before;
  const auto histogram = probed.histogram();
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_GE(histogram.sum(), 2.99e6);
  EXPECT_LE(histogram.sum(), static_cast<double>(elapsed) * 1.001 + 1000);
}

TEST_P(Slots, ShiftTheSumsOfLongCallsByTheFormula) {
  Probed probed(kCallBack, GetParam());
  auto* call = probed.function<long(long (*)(long), long)>();
  const auto nap = [](long ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    return 0L;
  };
  call(nap, 40);  // beyond 2^22 ns, where shifting begins
  const auto histogram = probed.histogram();
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_GE(histogram.sum(), 39.9e6);
  EXPECT_LT(histogram.sum(), 5e9);
}

// --- Calls that a reset drops

TEST_P(Slots, OfCallsThatAreDroppedAreGivenBackWithoutARecord) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam(), kSlots, 0, kSeveral);
  probed = &own;
  auto* call = own.function<long(long (*)(long), long)>();
  const auto drop = [](long value) {
    probed->drop_calls();
    return value;
  };
  const auto step = [](long value) { return value + 1; };
  for (uint64_t i = 0; i < 2 * kSlots; ++i) ASSERT_EQ(call(drop, 7), 7);
  EXPECT_EQ(call(step, 7), 8);
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(own.histogram(metric).count(), 1u) << "the one that was not dropped";
    EXPECT_EQ(own.missed(metric), 0u) << metric;
  }
  EXPECT_EQ(own.slots_in_use(), 0u);
}

TEST_P(Slots, OfDroppedCallsOnTopOfOthersLoseNoOther) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 5) probed->drop_calls();
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&down, depth - 1) + 1;
    }
  };
  EXPECT_EQ(Recurse::down(20), 20);
  EXPECT_EQ(own.histogram().count(), 5u) << "those that began after the others were dropped";
  EXPECT_EQ(own.slots_in_use(), 0u);
}

// The slot of an abandoned call stays in use: it is dropped, too, and reused later.
TEST_P(Slots, OfAbandonedCallsThatAreDroppedAreReused) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  auto* call = own.function<long(long (*)(long), long)>();
  const auto step = [](long value) { return value + 1; };
  const auto drop = [](long value) {
    probed->drop_calls();
    return value;
  };
  constexpr uint64_t kRounds = 10 * kSlots;
  uint64_t recorded = 0;
  for (uint64_t i = 0; i < kRounds; ++i) {
    leave_by_longjmp(own);
    const bool drops = i % 3 == 0;
    ASSERT_EQ(call(drops ? +drop : +step, 7), drops ? 7 : 8);
    recorded += drops ? 0 : 1;
  }
  EXPECT_EQ(own.missed(), 0u);
  EXPECT_EQ(own.histogram().count(), recorded);
  EXPECT_LT(own.slots_in_use(), kSlots / 2);
}

TEST_P(Slots, PreserveAllRegistersAndFlagsInBothDirections) {
  Probed probed({0xc3}, GetParam());  // the function changes nothing at all
  for (const uint64_t flags : kFlagsToPreserve) expect_preserved(probed.function<void()>(), flags);
  EXPECT_EQ(probed.histogram().count(), 5u);
}

// The function does what a reset does to the only slot:
//     push %rax; mov $&tsc_of_slot, %rax; mov (%rax), %rax; movq $-1, (%rax); pop %rax; ret
TEST_P(Slots, PreserveAllRegistersAndFlagsOfADroppedCall) {
  static uint64_t* tsc_of_slot;
  std::vector<uint8_t> code = {0x50, 0x48, 0xb8, 0,    0,    0,    0,    0,
                               0,    0,    0,    0x48, 0x8b, 0x00, 0x48, 0xc7,
                               0x00, 0xff, 0xff, 0xff, 0xff, 0x58, 0xc3};
  const auto address = reinterpret_cast<Address>(&tsc_of_slot);
  std::memcpy(code.data() + 3, &address, sizeof address);
  for (const std::vector<unsigned>& bits : {std::vector<unsigned>{kBits}, kSeveral}) {
    Probed probed(code, GetParam(), 1, 0, bits);
    tsc_of_slot = probed.tsc_of_first_slot();
    for (const uint64_t flags : kFlagsToPreserve)
      expect_preserved(probed.function<void()>(), flags);
    EXPECT_EQ(probed.histogram().count(), 0u);
    EXPECT_EQ(probed.missed(), 0u);
    EXPECT_EQ(probed.slots_in_use(), 0u);
  }
}

}  // namespace
}  // namespace pinprick::runtime
