#include "recording/run_figures.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "recording/in_order.h"

namespace pinprick::recording {
namespace {

constexpr uint64_t kSecond = 1'000'000'000, kStart = 500;

Header header() {
  Header one;
  one.clocks.tsc = kStart;
  one.clocks.ns_multiplier = uint64_t{1} << 32;
  return one;
}

// A recording with one tick a nanosecond. Times are from its start on.
class Recorded {
 public:
  explicit Recorded(const Header& of = header())
      : figures_(of, [this](auto rows, double seconds) { end(rows, seconds); }) {}

  Recorded& call(const std::string& function, uint64_t from, uint64_t to) {
    add(function, to, to - from, false, {}, false);
    return *this;
  }
  Recorded& entry(const std::string& function, uint64_t at) {
    add(function, at, {}, true, {}, false);
    return *this;
  }
  Recorded& hit(const std::string& function, uint64_t at) {
    add(function, at, {}, false, {}, false);
    return *this;
  }
  Recorded& part_of_span(const std::string& function, uint64_t at) {
    add(function, at, {}, false, {{1, true}}, false);
    return *this;
  }
  Recorded& triggers_end(const std::string& function, uint64_t at) {
    add(function, at, {}, false, {}, true);
    return *this;
  }
  Recorded& told_until(uint64_t at) {
    figures_.told_until(kStart + at);
    return *this;
  }
  Recorded& lasted(double seconds) {
    session::Report report;
    report.seconds = seconds;
    figures_.report(report);
    return *this;
  }
  // A round a line: `SECONDS: FUNCTION COUNT TOTAL SELF, ...`; places that have no time have two.
  std::vector<std::string> rounds() {
    figures_.finish();
    return rounds_;
  }
  RunFigures& figures() { return figures_; }

 private:
  void add(const std::string& function, uint64_t at, std::optional<uint64_t> latency_ns,
           bool has_return, std::optional<action::Action::SpanPart> part, bool triggers_end) {
    const auto [found, is_new] = names_.try_emplace(function);
    if (is_new)
      found->second = {
          .object = "m", .function = found->first, .file = "/m", .address = names_.size()};
    figures_.event({process_,
                    kStart + at,
                    0,
                    1,
                    {},
                    "t",
                    found->second,
                    {},
                    latency_ns,
                    has_return,
                    part,
                    0,
                    triggers_end});
  }
  void end(std::span<RunFigures::Row* const> rows, double seconds) {
    std::string line = std::to_string(static_cast<int>(seconds * 1000)) + "ms:";
    for (const RunFigures::Row* const row : rows) {
      line += " " + row->function + " " + std::to_string(row->count);
      if (row->has_times)
        line +=
            " " + std::to_string(row->times.total_ns) + " " + std::to_string(row->self.total_ns);
    }
    rounds_.push_back(line);
  }

  session::ProcessName process_ = {1, "p"};
  std::map<std::string, engine::ProbeName> names_;
  std::vector<std::string> rounds_;
  RunFigures figures_;
};

using Rounds = std::vector<std::string>;

TEST(RunFigures, HaveTheCallsOfEachSecondWithAndWithoutThoseInside) {
  Recorded recorded;
  recorded.call("leaf", 20, 30)
      .call("outer", 10, 50)
      .call("leaf", kSecond + 1, kSecond + 8)
      .told_until(2 * kSecond);
  EXPECT_EQ(recorded.rounds(),
            (Rounds{"1000ms: leaf 1 10 10 outer 1 40 30", "1000ms: leaf 1 7 7"}));
  EXPECT_TRUE(recorded.figures().has_inner_calls());
  EXPECT_EQ(recorded.figures().seconds(), 2);
}

TEST(RunFigures, CountHitsAndLeaveEntriesAndPartsOfSpansOut) {
  Header tree = header();
  tree.is_tree = true;
  Recorded recorded(tree);
  recorded.entry("f", 10)
      .hit("point", 12)
      .part_of_span("span", 13)
      .call("f", 10, 20)
      .hit("point", 30);
  EXPECT_EQ(recorded.lasted(0.5).rounds(), (Rounds{"500ms: point 2 f 1 10 10"}));
  EXPECT_FALSE(recorded.figures().has_inner_calls());
}

TEST(RunFigures, SecondsWithoutEventsAreRoundsAndTheLastOneMayBeShort) {
  Recorded recorded;
  recorded.hit("f", 3 * kSecond + 1);
  EXPECT_EQ(recorded.lasted(3.25).rounds(),
            (Rounds{"1000ms:", "1000ms:", "1000ms:", "250ms: f 1"}));
}

TEST(RunFigures, OfEventsThatComeLateAreInTheRoundThatIsOpen) {
  Recorded recorded;
  recorded.told_until(2 * kSecond).hit("late", 5);
  EXPECT_EQ(recorded.lasted(2.5).rounds(), (Rounds{"1000ms:", "1000ms:", "500ms: late 1"}));
}

TEST(RunFigures, EndWithTheHitOfUntil) {
  Header with_after = header();
  with_after.after_ns = 10;
  Recorded recorded(with_after);
  recorded.hit("f", 5).hit("f", 30).triggers_end("g", 15);
  EXPECT_EQ(recorded.lasted(1).rounds(), (Rounds{"1000ms: f 1"}));
}

TEST(RunFigures, OfMoreFunctionsThanAnyProgramCallsAreThoseOfOne) {
  Recorded recorded;
  constexpr uint64_t kFunctions = 70'000, kOwn = 65'536;
  for (uint64_t i = 0; i < kFunctions; ++i) recorded.hit("f" + std::to_string(i), i);
  const Rounds rounds = recorded.lasted(1).rounds();
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_TRUE(rounds[0].ends_with(" f65535 1 (other) " + std::to_string(kFunctions - kOwn)));
}

TEST(RunFigures, OfARecordingThatGoesOnForYearsDoNotTakeYears) {
  Recorded recorded;
  recorded.hit("f", UINT64_MAX / 2).told_until(UINT64_MAX - kStart);
  EXPECT_LE(recorded.rounds().size(), size_t{1} << 18);
}

struct Kept {
  uint64_t tsc = 0;
};

TEST(InOrder, IsByTimeAndUpToTheEarliestEnd) {
  InOrder<Kept> order;
  std::vector<uint64_t> taken;
  const auto take = [&](const Kept& one) { taken.push_back(one.tsc); };
  for (const uint64_t tsc : {5, 3, 9, 7}) order.add({tsc}, take);
  order.take_before(5, take);
  EXPECT_EQ(taken, (std::vector<uint64_t>{3}));
  order.end_after(5, 3);
  order.end_after(20, UINT64_MAX);
  for (const uint64_t tsc : {6, 1}) order.add({tsc}, take);
  order.take_all(take);
  EXPECT_EQ(taken, (std::vector<uint64_t>{3, 1, 5, 6, 7}));
}

TEST(InOrder, TakesTheEarlierHalfIfARecordingNeverSaysThatItIsComplete) {
  InOrder<Kept> order;
  uint64_t taken = 0, last = 0;
  const auto take = [&](const Kept& one) {
    EXPECT_LE(last, one.tsc);
    last = one.tsc;
    ++taken;
  };
  for (uint64_t i = 0; i < kMostWaiting; ++i) order.add({i ^ 1}, take);
  EXPECT_EQ(taken, kMostWaiting / 2);
  order.take_all(take);
  EXPECT_EQ(taken, kMostWaiting);
}

}  // namespace
}  // namespace pinprick::recording
