#include "compare/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compare/made_records.h"

namespace pinprick::compare {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Random = std::mt19937_64;

constexpr int kFunctions = 12;

// A program of some functions, each with a time and a rate of its own. Their times spread as those
// of real calls do, and each run and each interval is a little off.
struct Program {
  double of_run = 0, of_interval = 0.01;  // how much, as fractions
  double slower = 1;                      // how many times as long function 3 takes
  double tail = 1;                        // and its slowest calls, of which there are 3 in 100
  double busier = 1;                      // how many times as often function 5 is called
  double whole = 1;                       // how many times as long all of them take
  int calls = 600;                        // of each function in each interval
  int intervals = 1;
  unsigned bits = 3;
};

double around(Random& random, double spread) {
  return std::exp(std::normal_distribution<double>(0, spread)(random));
}

stats::Histogram times_of(Random& random, const Program& program, int function, double scale,
                          int calls) {
  std::lognormal_distribution<double> noise(0, 0.3);
  std::uniform_real_distribution<double> chance(0, 1);
  stats::Histogram times(program.bits);
  for (int call = 0; call < calls; ++call) {
    const bool is_slow = chance(random) < 0.03;
    const double slow = is_slow ? 8 * (function == 3 ? program.tail : 1) : 1;
    times.record(static_cast<uint64_t>(200 * (function + 1) * scale * slow * noise(random)));
  }
  return times;
}

Run run_of(Random& random, const Program& program) {
  std::string intervals, sums;
  std::vector<stats::Histogram> all(kFunctions, stats::Histogram(program.bits));
  std::vector<double> scales;
  for (int function = 0; function < kFunctions; ++function)
    scales.push_back(around(random, program.of_run) * program.whole *
                     (function == 3 ? program.slower : 1));
  for (int interval = 0; interval < program.intervals; ++interval)
    for (int function = 0; function < kFunctions; ++function) {
      const double calls = program.calls * around(random, program.of_interval + program.of_run) *
                           (function == 5 ? program.busier : 1);
      const auto times =
          times_of(random, program, function,
                   scales[static_cast<size_t>(function)] * around(random, program.of_interval),
                   static_cast<int>(calls));
      all[static_cast<size_t>(function)].merge(times);
      intervals +=
          latency_record({"f" + std::to_string(function), 1, 1 + 0.001 * interval, false}, times);
    }
  for (int function = 0; function < kFunctions; ++function)
    sums += latency_record({"f" + std::to_string(function), 1, double(program.intervals), true},
                           all[static_cast<size_t>(function)]);
  return run_from((program.intervals > 1 ? intervals : "") + sums);
}

std::vector<Run> runs_of(Random& random, const Program& program, int runs) {
  std::vector<Run> all;
  for (int i = 0; i < runs; ++i) all.push_back(run_of(random, program));
  return all;
}

std::vector<std::string> changed(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const Change& row : comparison.rows)
    if (row.is_change()) names.push_back(row.name.function);
  return names;
}

const Change& change_of(const Comparison& comparison, const std::string& function) {
  for (const Change& row : comparison.rows)
    if (row.name.function == function) return row;
  ADD_FAILURE() << "no row of " << function;
  return comparison.rows.front();
}

std::vector<Figure> figures_of(const Change& change) {
  std::vector<Figure> figures;
  for (const Finding& finding : change.findings)
    if (finding.is_change) figures.push_back(finding.figure);
  return figures;
}

TEST(Comparison, OfRepeatedRunsFindsTheFunctionThatIsFivePercentSlowerAndNoOther) {
  Random random(11);
  const Program before = {.of_run = 0.005, .of_interval = 0.005, .calls = 4000};
  Program after = before;
  after.slower = 1.05;
  for (int trial = 0; trial < 10; ++trial) {
    const auto comparison =
        compare(runs_of(random, before, 3), runs_of(random, after, 3), std::nullopt);
    EXPECT_EQ(comparison.noise, Noise::runs);
    EXPECT_THAT(changed(comparison), ElementsAre("f3")) << trial;
    const Finding& finding = change_of(comparison, "f3").findings[1];
    ASSERT_EQ(finding.figure, Figure::typical) << "after that of calls";
    EXPECT_NEAR(finding.difference.change(), 0.05, 0.02);
  }
}

TEST(Comparison, OfIntervalsFindsTheFunctionThatIsFivePercentSlowerAndNoOther) {
  Random random(12);
  const Program before = {.calls = 3000, .intervals = 15};
  Program after = before;
  after.slower = 1.05;
  for (int trial = 0; trial < 10; ++trial) {
    const auto comparison =
        compare({run_of(random, before)}, {run_of(random, after)}, std::nullopt);
    EXPECT_EQ(comparison.noise, Noise::intervals);
    EXPECT_THAT(changed(comparison), ElementsAre("f3")) << trial;
  }
}

// Each run moves each function by another 3%, and each interval by 1%; more than one alarm in 60
// comparisons would be more than the rate of 1% that is allowed.
TEST(Comparison, OfTheSameProgramCriesWolfAlmostNever) {
  Random random(13);
  struct Case {
    Program program;
    int runs;
  };
  for (const auto& [program, runs] :
       {Case{{.of_run = 0.03}, 1}, Case{{.of_run = 0.03, .intervals = 10}, 1},
        Case{{.of_run = 0.03}, 4}}) {
    int alarms = 0;
    for (int trial = 0; trial < 20; ++trial)
      alarms += changed(compare(runs_of(random, program, runs), runs_of(random, program, runs),
                                std::nullopt))
                        .empty()
                    ? 0
                    : 1;
    EXPECT_LE(alarms, 1) << runs << " runs, " << program.intervals << " intervals";
  }
}

TEST(Comparison, SaysThatAllRowsMovedTogetherAndOnlyNamesThoseThatDidNot) {
  Random random(14);
  const auto comparison =
      compare({run_of(random, {.intervals = 10})},
              {run_of(random, {.slower = 1.5, .whole = 1.3, .intervals = 10})}, std::nullopt);
  ASSERT_EQ(comparison.shifts.size(), 3u);
  EXPECT_EQ(comparison.shifts[0].figure, Figure::typical);
  EXPECT_EQ(comparison.shifts[1].figure, Figure::mean);
  EXPECT_EQ(comparison.shifts[2].figure, Figure::tail);
  EXPECT_NEAR(comparison.shifts[0].change, 0.3, 0.03);
  EXPECT_THAT(changed(comparison), ElementsAre("f3"));
}

TEST(Comparison, TellsSlowCallsFromCallsThatAreSlower) {
  Random random(15);
  const auto comparison = compare({run_of(random, {.intervals = 10})},
                                  {run_of(random, {.tail = 2, .intervals = 10})}, std::nullopt);
  EXPECT_THAT(changed(comparison), ElementsAre("f3"));
  EXPECT_THAT(figures_of(change_of(comparison, "f3")), ElementsAre(Figure::mean, Figure::tail));
}

TEST(Comparison, FindsWhatIsCalledMoreOften) {
  Random random(16);
  const auto comparison = compare({run_of(random, {.intervals = 10})},
                                  {run_of(random, {.busier = 1.3, .intervals = 10})}, std::nullopt);
  EXPECT_THAT(changed(comparison), ElementsAre("f5"));
  EXPECT_THAT(figures_of(change_of(comparison, "f5")), ElementsAre(Figure::calls));
}

TEST(Comparison, WithoutRepeatsFindsLargeChanges) {
  Random random(17);
  const auto comparison =
      compare({run_of(random, {})}, {run_of(random, {.slower = 1.5})}, std::nullopt);
  EXPECT_EQ(comparison.noise, Noise::calls);
  EXPECT_THAT(changed(comparison), ElementsAre("f3"));
}

TEST(Comparison, ComparesRatesAsRunsDifferInLength) {
  const auto comparison = compare({run_from(count_record({.seconds = 10}, 1000))},
                                  {run_from(count_record({.seconds = 60}, 6000))}, std::nullopt);
  EXPECT_THAT(changed(comparison), IsEmpty());
  EXPECT_DOUBLE_EQ(comparison.rows[0].before.per_exposure, 100);
  EXPECT_DOUBLE_EQ(comparison.rows[0].after.per_exposure, 100);
}

// A timer of ten times a second hits an interval of 1.02 s ten or eleven times.
TEST(Comparison, OfWhatATimerDoesIsNotMisledByOneHitMore) {
  const auto timer = [](int intervals, uint64_t hits) {
    std::string text;
    for (int i = 0; i < intervals; ++i)
      text += count_record({.seconds = 1.02 + 0.0001 * i, .is_final = false}, hits);
    return run_from(text);
  };
  EXPECT_THAT(changed(compare({timer(10, 10)}, {timer(1, 11)}, std::nullopt)), IsEmpty());
  EXPECT_THAT(changed(compare({timer(10, 10)}, {timer(10, 20)}, std::nullopt)), ElementsAre("f"));
}

// The second program takes twice as long, and does the same.
TEST(Comparison, ComparesProgramsByRunAndNotBySecond) {
  const auto run = [](double seconds, uint64_t hits) {
    return run_from(program_records(count_record({.seconds = seconds}, hits)));
  };
  const auto same = compare({run(1, 1000)}, {run(2, 1000)}, std::nullopt);
  EXPECT_TRUE(same.is_per_run);
  EXPECT_THAT(changed(same), IsEmpty());
  const auto more =
      compare({run(1, 1000), run(1.1, 1000)}, {run(1, 1050), run(1.2, 1050)}, std::nullopt);
  EXPECT_THAT(changed(more), ElementsAre("f")) << "without any spread, each difference is real";
  EXPECT_DOUBLE_EQ(more.rows[0].after.per_exposure, 1050);
}

TEST(Comparison, TellsWhatCameAndWhatWent) {
  const auto comparison = compare(
      {run_from(count_record({}, 50) + count_record({"old"}, 1) + count_record({"idle"}, 0))},
      {run_from(count_record({}, 50) + count_record({"late"}, 1))}, std::nullopt);
  EXPECT_EQ(change_of(comparison, "old").presence, Presence::disappeared);
  EXPECT_EQ(change_of(comparison, "late").presence, Presence::appeared);
  EXPECT_TRUE(change_of(comparison, "late").is_change());
  EXPECT_FALSE(change_of(comparison, "idle").is_change()) << "it was never called";
}

TEST(Comparison, KnowsFunctionsThatCouldNotBeProbed) {
  const auto comparison = compare(
      {run_from(count_record({}, 50) + count_record({"g"}, 1))},
      {run_from(
          R"({"type":"skipped","pid":1,"object":"server","function":"g","reason":"r","version":1})"
          "\n" +
          count_record({}, 50))},
      std::nullopt);
  EXPECT_TRUE(change_of(comparison, "g").after.is_skipped);
}

// One hit more of a key is chance; a row without hits has no record.
TEST(Comparison, TakesAKeyWithoutARecordForOneWithoutHits) {
  const auto keys = [](uint64_t of_1, uint64_t of_2) {
    std::string text = count_record({"f", 1, 1, true, R"("by":"fd","key":1,)"}, of_1);
    if (of_2 != 0) text += count_record({"f", 1, 1, true, R"("by":"fd","key":2,)"}, of_2);
    return run_from(text);
  };
  EXPECT_THAT(changed(compare({keys(50, 0)}, {keys(50, 2)}, std::nullopt)), IsEmpty());
  EXPECT_THAT(changed(compare({keys(50, 0)}, {keys(50, 40)}, std::nullopt)), ElementsAre("f"));
}

TEST(Comparison, PutsFirstWhatChangedMost) {
  const auto run = [](uint64_t a, uint64_t b, uint64_t c) {
    return run_from(count_record({"a"}, a) + count_record({"b"}, b) + count_record({"c"}, c));
  };
  const auto comparison = compare({run(100, 10000, 500)}, {run(200, 15000, 500)}, std::nullopt);
  EXPECT_THAT(changed(comparison), ElementsAre("b", "a"));
  EXPECT_EQ(comparison.rows.back().name.function, "c");
}

TEST(Comparison, CountsOnlyWhatTheUserCallsLarge) {
  Random random(18);
  const auto before = run_of(random, {.intervals = 10});
  const auto after = run_of(random, {.slower = 1.2, .intervals = 10});
  EXPECT_THAT(changed(compare({before}, {after}, 0.1)), ElementsAre("f3"));
  EXPECT_THAT(changed(compare({before}, {after}, 0.5)), IsEmpty());
}

TEST(Comparison, OfDifferentSlotsIsThatOfTheWiderOnesWithoutTails) {
  Random random(19);
  const auto comparison =
      compare({run_of(random, {.intervals = 10, .bits = 5})},
              {run_of(random, {.slower = 1.3, .intervals = 10, .bits = 2})}, std::nullopt);
  EXPECT_TRUE(comparison.have_different_bits);
  EXPECT_EQ(comparison.rows[0].before.figures.histogram.bits(), 2u);
  EXPECT_THAT(changed(comparison), ElementsAre("f3"));
  for (const Finding& finding : change_of(comparison, "f3").findings)
    EXPECT_NE(finding.figure, Figure::tail);
}

TEST(Comparison, OfStatisticsHasNoRates) {
  const std::string text =
      R"({"type":"statistic","pid":1,"name":"query","count":2,"sum_ns":16.0,"bits":3,)"
      R"("slots":[[8,2,8]],"version":1})";
  const auto comparison = compare({run_from(text)}, {run_from(text)}, std::nullopt);
  EXPECT_FALSE(comparison.is_rate_known);
  EXPECT_THAT(changed(comparison), IsEmpty());
}

TEST(Comparison, NeedsFiguresOfOneKind) {
  const auto counts = run_from(count_record({}, 1));
  const auto times = run_from(latency_record({}, stats::Histogram(3)));
  EXPECT_TRUE(are_comparable({counts}, {counts}));
  EXPECT_FALSE(are_comparable({counts}, {times}));
}

}  // namespace
}  // namespace pinprick::compare
