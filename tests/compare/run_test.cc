#include "compare/run.h"

#include <gtest/gtest.h>

#include "compare/made_records.h"

namespace pinprick::compare {
namespace {

const RowFigures& row_of(const Run& run, const std::string& function) {
  for (const auto& [name, row] : run.rows)
    if (name.function == function) return row;
  static const RowFigures kNone;
  ADD_FAILURE() << "no row of " << function;
  return kNone;
}

TEST(Run, AddsTheProcessesOfARow) {
  const auto run = run_from(count_record({.pid = 1, .seconds = 10}, 30) +
                            count_record({.pid = 2, .seconds = 4}, 12));
  EXPECT_EQ(row_of(run, "f").calls, 42u);
  EXPECT_DOUBLE_EQ(run.seconds, 10);
}

// With --by pid a record of the sum stands beside those of each process.
TEST(Run, DoesNotCountASumOfProcessesTwice) {
  const auto run = run_from(count_record({.pid = 1}, 30) + count_record({.pid = 2}, 12) +
                            count_record({.pid = 0}, 42));
  EXPECT_EQ(row_of(run, "f").calls, 42u);
}

TEST(Run, HasAnObservationOfEachInterval) {
  std::string text;
  for (const double seconds : {1.01, 0.99, 1.0})
    for (const int pid : {1, 2})
      text += count_record({.pid = pid, .seconds = seconds, .is_final = false}, 99) +
              count_record({"g", pid, seconds, false}, 0);
  text += count_record({.pid = 1, .seconds = 3}, 297) + count_record({.pid = 2, .seconds = 3}, 297);
  const auto run = run_from(text);
  ASSERT_EQ(run.intervals.size(), 3u);
  const auto& intervals = row_of(run, "f").intervals;
  ASSERT_EQ(intervals.size(), 3u);
  EXPECT_DOUBLE_EQ(intervals[1].calls_per_second, 200);
  EXPECT_EQ(row_of(run, "f").calls, 594u) << "the last figures are the sum";
  EXPECT_FALSE(run.has_no_end);
}

TEST(Run, KnowsIntervalsInWhichAKeyHadNoHit) {
  std::string text;
  for (const int round : {0, 1, 2}) {
    const double seconds = 1 + 0.001 * round;
    text += count_record({"f", 1, seconds, false, R"("by":"fd","key":1,)"}, 5);
    if (round == 2) text += count_record({"f", 1, seconds, false, R"("by":"fd","key":2,)"}, 7);
  }
  const auto run = run_from(text);
  EXPECT_EQ(run.intervals.size(), 3u);
  for (const auto& [name, row] : run.rows)
    if (name.key == "2") {
      ASSERT_EQ(row.intervals.size(), 1u);
      EXPECT_EQ(row.intervals[0].round, 2u);
    }
}

TEST(Run, WhoseWriterWasKilledHasTheSumOfItsIntervals) {
  const auto run = run_from(count_record({.seconds = 1.1, .is_final = false}, 5) +
                            count_record({.seconds = 1.2, .is_final = false}, 6) +
                            R"({"type":"count","pid":4242,"sec)");
  EXPECT_EQ(row_of(run, "f").calls, 11u);
  EXPECT_DOUBLE_EQ(run.seconds, 2.3);
  EXPECT_TRUE(run.has_no_end);
  EXPECT_TRUE(run.was_cut_short);
}

TEST(Run, LeavesOutALastIntervalThatWasShort) {
  std::string text;
  for (const double seconds : {1.0, 1.01, 1.02, 0.1})
    text += count_record({.seconds = seconds, .is_final = false}, 1);
  EXPECT_EQ(run_from(text).compared_intervals(), 3u);
}

TEST(Run, OfAProgramIsOneThatWasStartedAndHasEnded) {
  const std::string figures = count_record({}, 3);
  EXPECT_TRUE(run_from(program_records(figures)).is_program);
  EXPECT_FALSE(run_from(figures).is_program);
}

TEST(Run, AddsHistogramsOfDifferentSlotsByTheWiderOnes) {
  stats::Histogram fine(5), coarse(2);
  fine.record(1000);
  coarse.record(3000);
  for (const bool coarse_first : {false, true}) {
    const std::string a = latency_record({.pid = 1}, coarse_first ? coarse : fine);
    const auto run = run_from(a + latency_record({.pid = 2}, coarse_first ? fine : coarse));
    EXPECT_EQ(row_of(run, "f").histogram.bits(), 2u);
    EXPECT_EQ(row_of(run, "f").histogram.count(), 2u);
  }
}

TEST(Run, QuantilesKnowNegativeValues) {
  stats::Histogram values(3);
  for (int i = 0; i < 50; ++i) values.record(7);
  const auto run = run_from(hist_record({}, values, 50));
  EXPECT_FALSE(quantile(row_of(run, "f"), 0.25));
  EXPECT_DOUBLE_EQ(*quantile(row_of(run, "f"), 0.9), 7);
}

TEST(ReadRun, SaysWhatIsWrongWithAFile) {
  const auto cause = [](std::string_view text) {
    const auto run = read_text(text);
    EXPECT_FALSE(run.ok()) << text;
    return run.ok() ? ReadCause::unreadable : run.error().cause;
  };
  const std::string record = count_record({}, 1);
  EXPECT_EQ(cause(""), ReadCause::empty);
  EXPECT_EQ(cause("\n \n"), ReadCause::empty);
  EXPECT_EQ(cause("hits per second\n"), ReadCause::not_json);
  EXPECT_EQ(cause("{\"a\":1}\n"), ReadCause::not_a_record);
  EXPECT_EQ(cause(record + "oops\n" + record), ReadCause::broken_line);
  EXPECT_EQ(cause(record + "{\"a\":1}\n"), ReadCause::not_a_record);
  EXPECT_EQ(cause(std::string(17 << 20, ' ')), ReadCause::line_too_long);
  const auto events = read_text(R"({"type":"event","pid":1,"version":1})");
  ASSERT_FALSE(events);
  EXPECT_EQ(events.error().cause, ReadCause::no_figures);
  EXPECT_EQ(events.error().text, "event");
  const auto failed = read_text(R"({"type":"error","message":"no such","exit":3,"version":1})");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().cause, ReadCause::failed);
  EXPECT_EQ(failed.error().text, "no such");
  EXPECT_EQ(read_run("/no/such/file").error().number, ENOENT);
}

TEST(ReadRun, TakesLinesInPieces) {
  const std::string text = count_record({}, 1) + count_record({.function = "g"}, 2);
  RunText reader;
  for (const char one : text) ASSERT_TRUE(reader.add({&one, 1}));
  const auto run = reader.finish();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->rows.size(), 2u);
}

}  // namespace
}  // namespace pinprick::compare
