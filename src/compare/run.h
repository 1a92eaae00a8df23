// One measurement: the figures of each row of one file that `--json` wrote, over the whole time and
// by interval.
//
// Pure. Memory grows with the number of rows, and by some numbers for each of their intervals.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/record.h"
#include "stats/histogram.h"

namespace pinprick::compare {

// The figures of a row in one interval, or in one run.
struct Observation {
  size_t round = 0;  // which interval
  double seconds = 0;
  double calls = 0;
  double calls_per_second = 0;
  double sum_per_second = 0;
  std::optional<double> mean;     // likewise
  std::optional<double> typical;  // time or value; nullopt if there were too few calls
  std::optional<double> p99;
};

struct RowFigures {
  uint64_t calls = 0;
  stats::Histogram histogram;
  uint64_t negative = 0;
  double total = 0, sum = 0;
  // By round. A row with a key has none of a round without a hit.
  std::vector<Observation> intervals;

  // Histograms of different slots are added with the wider ones.
  void add(const Figures& figures);
  void add(const RowFigures& figures);
};

// Returns the observation that these figures are. Of fewer than 500 calls, 5 are beyond the p99.
Observation observation_of(const RowFigures& figures, double seconds);

// Returns the value below which the fraction p of all values lies; nullopt if it is negative, or if
// there is no value.
std::optional<double> quantile(const RowFigures& figures, double p);

struct Run {
  std::string path, command;
  double seconds = 0;  // 0: not known
  std::map<RowName, RowFigures> rows;
  std::vector<double> intervals;  // by round, how long it took
  // Returns how many of them can be compared: the last one may have been short.
  size_t compared_intervals() const;
  layout::Losses losses;
  std::set<std::pair<std::string, std::string>> skipped;  // objects and functions without a probe
  bool is_program = false;     // from its start to its end: what counts is how often, not how fast
  bool has_no_end = false;     // the last figures are missing
  bool was_cut_short = false;  // in the midst of a line
  size_t partial_rows = 0;
};

// Takes the records of one file, in their order.
class RunBuilder {
 public:
  void add(const Record& record);
  // Returns what was taken; the path is left to the caller. To be called once.
  Run finish();
  // The type of some record, of a file without figures; empty: there was none.
  const std::string& first_type() const { return first_type_; }
  // Why the measurement failed, if it has; else empty.
  const std::string& error() const { return error_; }
  bool has_figures() const { return sums_.has_any() || processes_.has_any(); }

 private:
  // The rows of all records that are of one sort.
  class Rows {
   public:
    void add(const Figures& figures);
    bool has_any() const { return has_any_; }
    void move_to(Run& run);

   private:
    // A report has one length of time, by which the records of the next one are recognised.
    using Source = std::tuple<pid_t, std::string, Kind>;
    struct Now {
      RowFigures figures;
      double calls_per_second = 0, sum_per_second = 0, seconds = 0;
    };
    void add_final(const Figures& figures);
    void add_to_round(const Figures& figures);
    void end_round();

    std::map<RowName, RowFigures> rows_, rows_of_rounds_;
    std::map<RowName, Now> now_;
    std::map<Source, double> lengths_now_, last_lengths_, all_lengths_;
    std::vector<double> rounds_;
    bool has_any_ = false, has_final_ = false;
    size_t partial_ = 0;
    layout::Losses losses_, losses_of_rounds_;
  };

  // With `--by pid`, and of many processes, a record of the sum stands beside those of each.
  Rows sums_, processes_;
  std::string first_type_, command_, error_;
  std::set<std::pair<std::string, std::string>> skipped_;
  bool starts_command_ = false, has_ended_ = false;
};

}  // namespace pinprick::compare
