#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

namespace pinprick {
namespace {

TEST(Parallel, EveryPieceIsDoneOnceOnAnyNumberOfThreads) {
  for (size_t threads : {0, 1, 2, 3, 8, 40})
    for (size_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> done(count);
      for_each_piece(count, threads, [&](size_t piece) { ++done[piece]; });
      for (size_t i = 0; i < count; ++i)
        EXPECT_EQ(done[i], 1) << "piece " << i << " of " << count << " on " << threads;
    }
}

TEST(Parallel, ThreadsWorkAtTheSameTime) {
  // Each piece waits for the other: on one thread this would never end.
  std::atomic<int> arrived = 0;
  for_each_piece(2, 2, [&](size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(Parallel, TheCallersThreadWorksToo) {
  std::set<std::thread::id> threads;
  for_each_piece(10, 1, [&](size_t) { threads.insert(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(Parallel, TheCallersThreadWorksAloneIfItIsToBeOne) {
  const auto workers = [] {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    for_each_piece(1000, 4, [&](size_t) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    return threads;
  };
  const OneThread one;
  {
    const OneThread nested;
    EXPECT_EQ(workers(), std::set{std::this_thread::get_id()});
  }
  EXPECT_EQ(workers(), std::set{std::this_thread::get_id()}) << "the outer one is still there";
  // Each piece waits for the other.
  std::thread([] {
    std::atomic<int> arrived = 0;
    for_each_piece(2, 2, [&](size_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
  }).join();
}

TEST(Parallel, AnExceptionOnAnyThreadIsRethrownAfterAllHaveEnded) {
  for (size_t threads : {1, 2, 3}) {
    std::atomic<int> begun = 0, ended = 0;
    const auto work = [&](size_t) {
      ++begun;
      // Both threads are working, and both throw.
      while (threads == 2 && begun < 2) std::this_thread::yield();
      ++ended;
      throw std::bad_alloc();
    };
    EXPECT_THROW(for_each_piece(1000, threads, work), std::bad_alloc) << threads;
    EXPECT_EQ(begun, ended);
    EXPECT_LE(begun, static_cast<int>(threads)) << "nothing is begun any more";
  }
}

TEST(Parallel, ThereIsAtLeastOneUsableThread) {
  EXPECT_GE(usable_threads(), 1u);
  EXPECT_LE(usable_threads(), 8u);
}

}  // namespace
}  // namespace pinprick
