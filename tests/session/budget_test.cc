// Simulated processes, whose load changes, under a budget: what the probes really cost in them, in
// every window of 200 ms that begins 200 ms after a change of the load.
#include "session/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

namespace pinprick::session {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr double kHitNs = 5;

// Hits per millisecond of a unit, and how much of one CPU the process uses for itself, at a time.
using Rate = std::function<double(uint64_t ms, size_t unit)>;
using Use = std::function<double(uint64_t ms)>;

// A process with probes, looked at as the controller does, in steps of one millisecond.
class Process {
 public:
  Process(
      BudgetRule rule, size_t units, Rate rate, Use use = [](uint64_t) { return 1.0; })
      : rule_(rule), budget_(rule, 0), rate_(std::move(rate)), use_(std::move(use)) {
    for (size_t i = 0; i < units; ++i) {
      in_.insert(i);
      unit_of_.push_back(budget_.add());
    }
    cost_.resize(units);
  }

  void run(uint64_t milliseconds) {
    for (const uint64_t end = now_ms_ + milliseconds; now_ms_ < end; ++now_ms_) step();
  }

  bool is_in(size_t unit) const { return in_.contains(unit); }
  size_t in() const { return in_.size(); }
  size_t taken_out() const { return taken_out_; }
  size_t brought_back() const { return brought_back_; }
  // What was added from one moment to another, as a share of what the process used for itself.
  double share(uint64_t from_ms, uint64_t until_ms) const {
    const auto sum = [&](const std::vector<double>& of) {
      return std::accumulate(of.begin() + static_cast<std::ptrdiff_t>(from_ms),
                             of.begin() + static_cast<std::ptrdiff_t>(until_ms), 0.0);
    };
    const double own = sum(own_ms_);
    return own == 0 ? 0 : sum(added_ms_) / own;
  }
  // The largest share in 200 ms, within a time.
  double worst(uint64_t from_ms, uint64_t until_ms) const {
    double most = 0;
    for (uint64_t at = from_ms; at + 200 <= until_ms; ++at)
      most = std::max(most, share(at, at + 200));
    return most;
  }
  uint64_t now_ms() const { return now_ms_; }
  Budget& budget() { return budget_; }

 private:
  void step() {
    const double own = use_(now_ms_) * static_cast<double>(kMs);
    double added = 0;
    for (const size_t unit : in_) {
      const double cost = rate_(now_ms_, unit) * kHitNs;
      cost_[unit] += cost;
      added += cost;
    }
    used_ns_ += own + added;
    own_ms_.push_back(own);
    added_ms_.push_back(added);
    const uint64_t now_ns = (now_ms_ + 1) * kMs;
    if (now_ns >= budget_.next_ns()) look(now_ns);
  }

  std::vector<double> take_costs() {
    std::vector<double> costs(budget_.units());
    for (size_t i = 0; i < cost_.size(); ++i) costs[unit_of_[i]] += cost_[i];
    std::fill(cost_.begin(), cost_.end(), 0.0);
    return costs;
  }

  void look(uint64_t now_ns) {
    const auto decision = budget_.feed(now_ns, take_used(), take_costs());
    for (const uint32_t unit : decision.out) {
      ASSERT_EQ(in_.erase(number_of(unit)), 1u) << "it is out already";
      ++taken_out_;
    }
    for (const uint32_t unit : decision.back) {
      const size_t number = number_of(unit);
      ASSERT_TRUE(in_.insert(number).second) << "it is in";
      const uint32_t failures = budget_.failures(unit);
      budget_.forget(unit);
      unit_of_[number] = budget_.add(failures);
      ++brought_back_;
    }
  }
  uint64_t take_used() {
    const auto used = static_cast<uint64_t>(used_ns_);
    used_ns_ = 0;
    return used;
  }
  size_t number_of(uint32_t unit) const {
    return static_cast<size_t>(std::find(unit_of_.begin(), unit_of_.end(), unit) -
                               unit_of_.begin());
  }

  const BudgetRule rule_;
  Budget budget_;
  const Rate rate_;
  const Use use_;
  std::set<size_t> in_;
  std::vector<uint32_t> unit_of_;  // the present one
  std::vector<double> cost_;       // since the last look
  std::vector<double> own_ms_, added_ms_;
  double used_ns_ = 0;
  uint64_t now_ms_ = 0;
  size_t taken_out_ = 0, brought_back_ = 0;
};

// Hits per millisecond of one CPU that cost this share of it.
constexpr double hits(double share) {
  return share * static_cast<double>(kMs) / kHitNs;
}

TEST(Budget, LeavesProbesInThatCostLessThanTheBudget) {
  Process process({0.02}, 3, [](uint64_t, size_t) { return hits(0.006); });
  process.run(60'000);
  EXPECT_EQ(process.taken_out(), 0u);
}

TEST(Budget, TakesTheCostliestOutFirst) {
  Process process({0.02}, 3,
                  [](uint64_t, size_t unit) { return unit == 1 ? hits(0.1) : hits(0.003); });
  process.run(500);
  EXPECT_FALSE(process.is_in(1));
  EXPECT_TRUE(process.is_in(0) && process.is_in(2));
}

TEST(Budget, HoldsTheShareWithin200MsOfALoadThatGrowsAHundredfold) {
  for (const double share : {0.005, 0.02, 0.1})
    for (const double burst : {0.05, 0.5, 2.0}) {
      if (burst <= share) continue;
      SCOPED_TRACE(testing::Message() << share << " " << burst);
      Process process({share}, 1, [&](uint64_t ms, size_t) {
        return hits(ms < 1000 || ms >= 2000 ? burst / 100 : burst);
      });
      process.run(1000);
      const bool fits = burst / 100 <= share;
      EXPECT_EQ(process.in(), fits ? 1u : 0u);
      process.run(1000);
      EXPECT_LE(process.worst(1200, 2000), share);
      EXPECT_LE(process.share(0, 2000), share + 0.04 * burst + 0.001);
      if (!fits) continue;
      // After the burst it is quiet.
      process.run(70'000);
      EXPECT_EQ(process.in(), 1u);
      // The account is full at first.
      EXPECT_LE(process.share(0, process.now_ms()),
                share * (1 + Budget::kWindowNs / (70.0 * static_cast<double>(kSecond))));
    }
}

TEST(Budget, TakesManyOutThatAreCheapAlone) {
  constexpr size_t kUnits = 1000;
  Process process({0.02}, kUnits, [](uint64_t, size_t) { return hits(0.3 / kUnits); });
  process.run(1000);
  EXPECT_LE(process.worst(300, 1000), 0.02);
  EXPECT_GT(process.in(), kUnits / 50) << "some of them fit into the budget";
}

TEST(Budget, HoldsTheShareInTheLongRunThoughItTriesAgain) {
  for (const double cost : {0.03, 0.3, 3.0}) {
    SCOPED_TRACE(cost);
    Process process({0.02}, 5, [&](uint64_t, size_t) { return hits(cost / 5); });
    process.run(300'000);
    EXPECT_LE(process.share(500, 300'000), 0.02);
    EXPECT_GT(process.brought_back(), 1u);
    EXPECT_LT(process.brought_back(), 100u) << "each pause is longer than the last";
  }
}

TEST(Budget, HoldsTheShareInTheLongRunUnderALoadThatComesAndGoes) {
  for (const uint64_t period : {100u, 400u, 1'000u, 2'500u, 10'000u}) {
    SCOPED_TRACE(period);
    Process process({0.02}, 2, [&](uint64_t ms, size_t) {
      return hits(ms / (period / 2) % 2 == 0 ? 0.4 : 0.002);
    });
    process.run(200'000);
    EXPECT_LE(process.share(500, 200'000), 0.02);
  }
}

TEST(Budget, BringsProbesBackSoonAfterAShortBurst) {
  Process process({0.02}, 1,
                  [](uint64_t ms, size_t) { return hits(ms >= 3000 && ms < 3300 ? 0.2 : 0.001); });
  process.run(3300);
  EXPECT_EQ(process.in(), 0u);
  process.run(2700);
  EXPECT_EQ(process.in(), 1u);
  process.run(20'000);
  EXPECT_EQ(process.taken_out(), 1u);
}

TEST(Budget, BringsNothingBackIfItIsToBeOnce) {
  Process process({.share = 0.02, .once = true}, 1,
                  [](uint64_t ms, size_t) { return hits(ms < 300 ? 0.2 : 0.0001); });
  process.run(200'000);
  EXPECT_EQ(process.taken_out(), 1u);
  EXPECT_EQ(process.brought_back(), 0u);
}

// 50 us each second, of which one fifth is the cost of the probes.
TEST(Budget, DoesNotJudgeAProcessByMicroseconds) {
  Process process(
      {0.02}, 1, [](uint64_t ms, size_t) { return ms % 1000 == 0 ? hits(0.01) : 0; },
      [](uint64_t ms) { return ms % 1000 == 0 ? 0.04 : 0.0; });
  process.run(30'000);
  EXPECT_EQ(process.taken_out(), 0u);
}

TEST(Budget, HoldsTheShareOfAProcessThatSleepsMostOfTheTime) {
  Process process(
      {0.02}, 1, [](uint64_t ms, size_t) { return ms % 100 < 2 ? hits(0.3) : 0; },
      [](uint64_t ms) { return ms % 100 < 2 ? 1.0 : 0.0; });
  process.run(600'000);
  EXPECT_GE(process.taken_out(), 1u);
  // A debt is forgiven as if it used a twentieth of a CPU, where it uses a fiftieth.
  EXPECT_LE(process.share(20'000, 600'000), 0.02 * 2.5);
}

TEST(Budget, ForgivesADebtOfAProcessThatIsIdle) {
  Process process(
      {0.02}, 1, [](uint64_t ms, size_t) { return ms < 100 ? hits(0.5) : 0; },
      [](uint64_t ms) { return ms < 100 ? 1.0 : 0.0; });
  process.run(60'000);
  EXPECT_EQ(process.in(), 1u);
}

TEST(Budget, PaysForStopsBeforeItTriesAgain) {
  Process process({0.02}, 1, [](uint64_t ms, size_t) { return hits(ms < 300 ? 0.2 : 0.0001); });
  process.run(500);
  ASSERT_EQ(process.in(), 0u);
  process.budget().charge(100 * kMs);  // which are 2% of 5 seconds
  process.run(4000);
  EXPECT_EQ(process.in(), 0u);
  process.run(2000);
  EXPECT_EQ(process.in(), 1u);
}

TEST(Budget, DoesNotTakeProbesOutForADebtThatTheyPay) {
  Process process({0.02}, 1, [](uint64_t, size_t) { return hits(0.01); });
  process.budget().charge(kSecond);
  process.run(10'000);
  EXPECT_EQ(process.taken_out(), 0u);
}

TEST(Budget, ChoosesAgainWhatCouldNotBeTakenOutAndLeavesWhatNeverCan) {
  Budget budget({0.02}, 0);
  for (int i = 0; i < 2; ++i) budget.add();
  uint64_t now = 0;
  const auto look = [&] {
    now += 20 * kMs;
    const std::vector<double> costs = {5.0 * kMs, 4.0 * kMs};
    return budget.feed(now, 20 * kMs, costs).out;
  };
  ASSERT_EQ(look(), (std::vector<uint32_t>{0, 1}));
  budget.still_in(0);
  budget.keep_in(1);
  EXPECT_EQ(look(), std::vector<uint32_t>{0});
}

// The estimate of a cost is on the safe side, and may exceed all that the process has used.
TEST(Budget, LeavesCheapProbesInWhereOthersSeemToCostMoreThanAllThatWasUsed) {
  Budget budget({0.02}, 0);
  for (int i = 0; i < 3; ++i) budget.add();
  const std::vector<double> costs = {30.0 * kMs, 0.01 * kMs, 0.02 * kMs};
  EXPECT_EQ(budget.feed(20 * kMs, 20 * kMs, costs).out, std::vector<uint32_t>{0});
}

// What the probes have cost is part of what the process has used, whatever is estimated.
TEST(Budget, NeverComputesMoreCostsThanTheProcessHasUsed) {
  Budget budget({0.02}, 0);
  budget.add();
  const std::vector<double> costs = {300.0 * kMs};
  budget.feed(20 * kMs, 20 * kMs, costs);
  EXPECT_LT(budget.spent_ns(), 20.0 * kMs);
  EXPECT_LE(budget.spent_ns() + budget.own_ns(), 20.0 * kMs + 1);
}

// A program whose probes come and go for days has as many units as probes.
TEST(Budget, DropsWhatWasForgottenAndKeepsTheOthersStates) {
  Budget budget({0.02}, 0);
  const uint32_t stays = budget.add();
  std::vector<uint32_t> gone;
  for (int i = 0; i < 1000; ++i) gone.push_back(budget.add());
  const uint32_t out = budget.add();
  budget.try_later(out);
  budget.try_later(out);
  EXPECT_TRUE(budget.drop_forgotten().empty());
  for (const uint32_t unit : gone) budget.forget(unit);
  const auto numbers = budget.drop_forgotten();
  ASSERT_EQ(numbers.size(), 1002u);
  EXPECT_EQ(budget.units(), 2u);
  EXPECT_EQ(numbers[gone[7]], Budget::kNoUnit);
  EXPECT_FALSE(budget.is_out(numbers[stays]));
  EXPECT_TRUE(budget.is_out(numbers[out]));
  EXPECT_EQ(budget.failures(numbers[out]), 2u);
}

}  // namespace
}  // namespace pinprick::session
