// What reports of hits become with --once: what was executed, and what of that is new.
#include "cli/measure/coverage_reports.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pinprick::cli {
namespace {

using session::Period;
using session::Report;
using session::Row;

class Sink : public session::ReportSink {
 public:
  bool shows_idle(size_t) const override { return true; }
  void report(const Report& report) override {
    executed.clear();
    for (const Row& row : report.rows)
      executed += std::string(row.name.function) + (row.has_calls() ? " " : "- ");
    coverage = report.coverage.value();
    idle = report.idle;
  }
  std::string executed;
  session::Coverage coverage;
  size_t idle = 0;
};

Row row_of(std::string_view function, Address address, uint64_t hits,
           std::string_view file = "/bin/a") {
  Row row;
  row.name = {.object = "a", .function = function, .file = file, .address = address};
  row.hits = hits;
  return row;
}

class CoverageReportsTest : public testing::Test {
 protected:
  // As of one process and one period.
  void report(Period period, std::vector<Row> rows, size_t idle = 0, pid_t pid = 1) {
    coverage_.begin(period);
    Report report;
    report.process.pid = pid;
    report.is_final = period == Period::whole;
    report.rows = std::move(rows);
    report.idle = idle;
    coverage_.report(report);
  }
  Sink sink_;
  CoverageReports coverage_{sink_};
};

TEST_F(CoverageReportsTest, HaveEachFunctionInTheFirstIntervalOfItsHits) {
  report(Period::interval, {row_of("f", 1, 5), row_of("g", 2, 0)}, 3);
  EXPECT_EQ(sink_.executed, "f ");
  EXPECT_EQ(sink_.coverage.executed, 1u);
  EXPECT_EQ(sink_.coverage.all, 5u);
  // A probe that had to stay is hit again.
  report(Period::interval, {row_of("f", 1, 7), row_of("g", 2, 1)}, 3);
  EXPECT_EQ(sink_.executed, "g ");
  EXPECT_EQ(sink_.coverage.executed, 2u);
  report(Period::interval, {row_of("f", 1, 7)}, 4);
  EXPECT_EQ(sink_.executed, "");
  EXPECT_EQ(sink_.coverage.executed, 2u);
  EXPECT_EQ(sink_.idle, 5u);
}

TEST_F(CoverageReportsTest, KnowWhatIsNewInEachProcessAndInTheirSum) {
  for (const pid_t pid : {1, 2, 0}) {
    report(Period::interval, {row_of("f", 1, 5)}, 0, pid);
    EXPECT_EQ(sink_.executed, "f ") << pid;
  }
  for (const pid_t pid : {1, 2, 0}) {
    report(Period::interval, {row_of("f", 1, 5)}, 0, pid);
    EXPECT_EQ(sink_.executed, "") << pid;
  }
}

// The names in the rows do not outlive a report.
TEST_F(CoverageReportsTest, TellFunctionsApartByFileAndAddress) {
  for (const char* const file : {"/bin/a", "/bin/b"})
    for (const Address address : {1, 2}) {
      const std::string function = "f", name = file;
      report(Period::interval, {row_of(function, address, 1, name)});
      EXPECT_EQ(sink_.executed, "f ") << file << address;
    }
  report(Period::interval, {row_of("f", 2, 1, "/bin/b")});
  EXPECT_EQ(sink_.executed, "");
  EXPECT_EQ(sink_.coverage.executed, 4u);
}

TEST_F(CoverageReportsTest, HaveAllFunctionsAtTheEndInTheOrderOfTheirAddresses) {
  report(Period::interval, {row_of("f", 3, 5)});
  report(Period::whole, {row_of("f", 3, 5), row_of("g", 1, 0), row_of("h", 2, 9)}, 0);
  EXPECT_EQ(sink_.executed, "g- h f ");
  EXPECT_EQ(sink_.coverage.executed, 2u);
  EXPECT_EQ(sink_.coverage.all, 3u);
}

TEST_F(CoverageReportsTest, AskForFunctionsWithoutAHitAtTheEndAlone) {
  coverage_.begin(Period::interval);
  EXPECT_FALSE(coverage_.shows_idle(1));
  coverage_.begin(Period::whole);
  EXPECT_TRUE(coverage_.shows_idle(1'000'000));
}

}  // namespace
}  // namespace pinprick::cli
