// The time of calls without that of the calls within them, in the runtime itself.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "probed_function.h"

namespace pinprick::runtime {
namespace {

using arch::AtReturn;
using arch::Operation;
using arch::Source;

// Calls of one probed function, which calls back. What it returns says whether it was one that no
// other lies around.
constexpr long kInner = 1, kOutermost = 2;
constexpr size_t kOutermostTimes = 0, kInnerTimes = 1, kSelfTimes = 2;

AtReturn if_result_is(long value) {
  return {.condition = arch::Expression(
              {{.source = {.register_number = 0}},
               {.source = {.instead = Source::Constant{static_cast<uint64_t>(value)}}},
               {.operation = Operation::equal, .left = 0, .right = 1}})};
}

class SelfTimes : public OnEachPath {
 protected:
  void SetUp() override {
    OnEachPath::SetUp();
    if (IsSkipped()) return;
    probed_.emplace(
        kCallBack, GetParam(), kSlots, 0, std::vector<unsigned>(3, kBits), Gap::none,
        ComputedAtReturn{.by_metric = {if_result_is(kOutermost),
                                       if_result_is(kInner),
                                       {.value = Source{.instead = Source::SelfTime{0}}}},
                         .kept = {},
                         .keeps_accounted_time = true});
    probed = &*probed_;
  }
  // The sum of all self times is the time of the outermost calls, whatever lay in them. Sums of
  // long times are rounded.
  void expect_all_accounted_for(uint64_t calls) {
    const double outermost = probed->histogram(kOutermostTimes).sum();
    EXPECT_EQ(probed->histogram(kSelfTimes).count(), calls);
    EXPECT_NEAR(probed->histogram(kSelfTimes).sum(), outermost, outermost / 1e4);
    EXPECT_GT(outermost, 0);
  }
  static long call(long (*what)(long), long value) {
    return probed->function<long(long (*)(long), long)>()(what, value);
  }
  // Returns the value after a millisecond.
  static long work(long value) {
    const uint64_t begin = monotonic_ns();
    while (monotonic_ns() - begin < 1'000'000) continue;
    return value;
  }

  static inline Probed* probed;

 private:
  std::optional<Probed> probed_;
};
INSTANTIATE_TEST_SUITE_P(, SelfTimes, kPaths, name_of_path);

TEST_P(SelfTimes, OfACallThatMakesOthersAreWhatTheseLeave) {
  const auto outer = [](long value) {
    call(work, kInner);
    work(0);
    call(work, kInner);
    return value;
  };
  EXPECT_EQ(call(outer, kOutermost), kOutermost);
  expect_all_accounted_for(3);
  // A millisecond each, and no more than what the outer one took without the two.
  EXPECT_GE(probed->histogram(kInnerTimes).sum(), 2e6);
  EXPECT_GE(probed->histogram(kSelfTimes).sum(), 3e6);
  EXPECT_EQ(probed->slots_in_use(), 0u);
}

TEST_P(SelfTimes, OfACallThatMakesNoneAreItsWholeTime) {
  for (int i = 0; i < 10; ++i) call(work, kOutermost);
  expect_all_accounted_for(10);
}

TEST_P(SelfTimes, OfARecursionAddUpToTheOutermostCall) {
  static long (*const descend)(long) = [](long depth) {
    if (depth > kOutermost) call(descend, depth - 1);
    work(0);
    return depth == 20 ? kOutermost : kInner;
  };
  EXPECT_EQ(call(descend, 20), kOutermost);
  expect_all_accounted_for(19);
}

TEST_P(SelfTimes, OfCallsThatLongjmpLeavesAreOfTheCallsAroundThem) {
  static std::jmp_buf back;
  const auto outer = [](long value) {
    const auto leaves = [](long) -> long {
      call(work, kInner);  // this one returns
      work(0);
      std::longjmp(back, 1);
    };
    if (setjmp(back) == 0) call(leaves, kInner);
    return value;
  };
  EXPECT_EQ(call(outer, kOutermost), kOutermost);
  expect_all_accounted_for(2);
}

TEST_P(SelfTimes, OfThreadsHaveNothingToDoWithEachOther) {
  if (GetParam() == Path::unregistered) GTEST_SKIP() << "other threads have an area";
  const auto outer = [](long value) {
    for (int i = 0; i < 5; ++i) call(work, kInner);
    return value;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { call(outer, kOutermost); });
  for (std::thread& thread : threads) thread.join();
  expect_all_accounted_for(4 * 6);
}

// The child has another TID, so the outer call finds no entry, or one that knows nothing of it.
TEST_P(SelfTimes, InAForkedChildAreAtMostTheWholeTime) {
  static pid_t child;
  const auto outer = [](long value) {
    call(work, kInner);
    child = ::fork();
    call(work, kInner);
    return value;
  };
  EXPECT_EQ(call(outer, kOutermost), kOutermost);
  if (child == 0) {
    const double sum = probed->histogram(kSelfTimes).sum();
    const double whole =
        probed->histogram(kOutermostTimes).sum() + probed->histogram(kInnerTimes).sum();
    ::_exit(probed->histogram(kSelfTimes).count() == 3 && sum <= whole * 1.001 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_all_accounted_for(3);
}

}  // namespace
}  // namespace pinprick::runtime
