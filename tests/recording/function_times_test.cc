#include "recording/function_times.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace pinprick::recording {
namespace {

// Calls by their start and end, with one tick a nanosecond.
class Program {
 public:
  Program& call(const std::string& function, uint64_t from, uint64_t to, pid_t thread = 1) {
    const auto [found, is_new] = names_.try_emplace(function);
    if (is_new)
      found->second = {.object = "m",
                       .function = found->first,
                       .at_return = true,
                       .file = "/m",
                       .address = names_.size()};
    times_.add({process_, to, to, thread, {}, "t", found->second, {}, to - from});
    return *this;
  }
  Program& told_until(uint64_t tsc) {
    times_.told_until(tsc);
    return *this;
  }
  // `FUNCTION calls total self longest`, each.
  std::vector<std::string> figures() {
    std::vector<std::string> all;
    for (const FunctionTime& one : times_.finish())
      all.push_back(std::string(one.function) + " " + std::to_string(one.calls) + " " +
                    std::to_string(one.total_ns) + " " + std::to_string(one.self_ns) + " " +
                    std::to_string(one.longest_ns));
    return all;
  }

 private:
  session::ProcessName process_ = {1, "p"};
  std::map<std::string, engine::ProbeName> names_;
  FunctionTimes times_;
};

using Figures = std::vector<std::string>;

TEST(FunctionTimes, AreWithAndWithoutTheCallsInside) {
  EXPECT_EQ(Program()
                .call("leaf", 20, 30)
                .call("leaf", 40, 45)
                .call("middle", 15, 60)
                .call("leaf", 70, 72)
                .call("outer", 10, 100)
                .figures(),
            (Figures{"outer 1 90 43 90", "middle 1 45 30 45", "leaf 3 17 17 10"}));
}

TEST(FunctionTimes, OfCallsOneAfterTheOtherAreTheirOwn) {
  EXPECT_EQ(Program().call("f", 0, 10).call("g", 10, 30).call("f", 30, 35).figures(),
            (Figures{"g 1 20 20 20", "f 2 15 15 10"}));
}

TEST(FunctionTimes, OfARecursionAddUpInTheTotalAndNotInSelf) {
  EXPECT_EQ(Program().call("f", 20, 30).call("f", 10, 50).call("f", 0, 100).figures(),
            (Figures{"f 3 150 100 100"}));
}

TEST(FunctionTimes, OfThreadsDoNotMix) {
  EXPECT_EQ(Program().call("g", 20, 30, 2).call("f", 10, 50, 1).figures(),
            (Figures{"f 1 40 40 40", "g 1 10 10 10"}));
}

TEST(FunctionTimes, AreTheSameInWhateverOrderEventsCome) {
  EXPECT_EQ(Program()
                .call("outer", 10, 100)
                .call("leaf", 40, 45)
                .call("leaf", 20, 30)
                .told_until(50)
                .call("late", 110, 120)
                .call("leaf", 60, 70)
                .told_until(200)
                .figures(),
            (Figures{"outer 1 90 65 90", "leaf 3 25 25 10", "late 1 10 10 10"}));
}

TEST(FunctionTimes, OfCallsAfterTheEndAreNotCounted) {
  FunctionTimes times;
  const session::ProcessName process = {1, "p"};
  const engine::ProbeName name = {.object = "m", .function = "f", .at_return = true, .file = "/m"};
  for (const uint64_t end : {10, 20, 30}) {
    if (end == 20) times.end_after(end, 0);
    times.add({process, end, end, 1, {}, "t", name, {}, 5});
  }
  const auto found = times.finish();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].calls, 2u);
}

TEST(FunctionTimes, OfNoCallAreNone) {
  EXPECT_TRUE(Program().figures().empty());
}

}  // namespace
}  // namespace pinprick::recording
