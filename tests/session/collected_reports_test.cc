#include "session/collected_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pinprick::session {
namespace {

using testing::ElementsAre;

// What it is given, as a line for each report.
class Lines : public ReportSink {
 public:
  std::vector<std::string> lines;

  bool shows_idle(size_t) const override { return false; }
  void report(const Report& report) override {
    std::string line = report.process.command + " " + report.name;
    for (const Row& row : report.rows)
      line += " " + std::string(row.name.function) + "=" + std::to_string(row.count());
    lines.push_back(line + " idle=" + std::to_string(report.idle));
  }
};

// Of one process: two measures, of which the second has a function without a hit.
void add_process(CollectedReports& collected, pid_t pid, const std::string& command,
                 uint64_t hits) {
  for (uint32_t measure = 0; measure < 2; ++measure) {
    // The names are gone when the reports are shown.
    const std::string function = "f";
    Report report;
    report.process = {pid, command};
    report.measure = measure;
    report.name = measure == 0 ? "first" : "second";
    for (const uint64_t n : {hits, measure == 0 ? hits : 0}) {
      Row& row = report.rows.emplace_back();
      row.name.object = "a.so";
      row.name.function = function;
      row.name.offset = report.rows.size();
      row.measure = measure;
      row.hits = n;
    }
    collected.report(report);
  }
}

TEST(CollectedReports, AddBudgetsUpAndKeepWhenProbesWereOut) {
  class Last : public ReportSink {
   public:
    Report last;
    bool shows_idle(size_t) const override { return true; }
    void report(const Report& report) override { last = report; }
  };
  CollectedReports collected(Keep::sum);
  for (const double from_s : {1.0, 2.0}) {
    Report report;
    report.budget = BudgetFigures{0.02, 10, 1000, 1};
    Row& row = report.rows.emplace_back();
    row.name.function = "f";
    row.absences = std::vector<Absence>{{from_s, {}}};
    collected.report(report);
  }
  Last sink;
  collected.show(sink, {0, "all"}, 1, Period::whole);
  ASSERT_TRUE(sink.last.budget);
  EXPECT_EQ(sink.last.budget->limit, 0.02);
  EXPECT_EQ(sink.last.budget->added_ns, 20);
  EXPECT_EQ(sink.last.budget->own_ns, 2000);
  EXPECT_EQ(sink.last.budget->partial, 1u) << "a row of two processes is one";
  ASSERT_EQ(sink.last.rows.size(), 1u);
  ASSERT_TRUE(sink.last.rows[0].absences);
  EXPECT_EQ(sink.last.rows[0].absences->size(), 2u);
}

TEST(CollectedReports, AreThoseOfOneProcessAfterTheOtherAndThenTheSumOfEachMeasure) {
  CollectedReports collected(Keep::each);
  add_process(collected, 1, "one", 10);
  add_process(collected, 2, "two", 5);
  Lines sink;
  collected.show(sink, {0, "all"}, 1, Period::whole);
  EXPECT_THAT(sink.lines, ElementsAre("one first f=10 f=10 idle=0", "one second f=10 idle=1",
                                      "two first f=5 f=5 idle=0", "two second f=5 idle=1",
                                      "all first f=15 f=15 idle=0", "all second f=15 idle=1"));
}

TEST(CollectedReports, AreTheSumsAloneIfNoProcessIsKept) {
  CollectedReports collected(Keep::sum);
  add_process(collected, 1, "one", 10);
  add_process(collected, 2, "two", 5);
  Lines sink;
  collected.show(sink, {0, "all"}, 1, Period::whole);
  EXPECT_THAT(sink.lines, ElementsAre("all first f=15 f=15 idle=0", "all second f=15 idle=1"));
  collected.clear();
  sink.lines.clear();
  collected.show(sink, {0, "all"}, 1, Period::whole);
  EXPECT_TRUE(sink.lines.empty());
  EXPECT_TRUE(collected.has_rows());
}

}  // namespace
}  // namespace pinprick::session
