// What `top` shows: rows with their figures and histories, and what the user has chosen by keys:
// order, filter, selection, period, and whether the screen is frozen. Pure: it takes reports and
// keys; screen.h draws it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/top/history.h"
#include "cli/top/keys.h"
#include "session/report.h"
#include "session/results.h"
#include "session/timed_calls.h"
#include "stats/histogram.h"

namespace pinprick::cli::top {

using session::Period;

// In the order of the screen.
enum class Column : uint8_t { pid, rate, mean, p50, p99, maximum, share, name };
inline constexpr size_t kColumns = 8;

// A function or a span of one process.
struct Row {
  pid_t pid = 0;
  std::string object;
  std::string name;
  Address address = 0;     // of a function, in its object's file
  uint64_t oldest_ns = 0;  // age of its oldest call in flight; 0: there is none
  bool is_span = false;
  enum class Budget : uint8_t { in, was_out, is_out } budget = Budget::in;  // since the start
  stats::Histogram interval;
  stats::Histogram whole;
  double self_interval_ns = 0;  // of calls that have a time of their own (--self)
  double self_whole_ns = 0;
  layout::Losses losses;  // since the start
  History history;

  double self_ns(Period period) const {
    return period == Period::interval ? self_interval_ns : self_whole_ns;
  }
  const stats::Histogram& histogram(Period period) const {
    return period == Period::interval ? interval : whole;
  }
  bool has_calls() const { return whole.count() + losses.total() + oldest_ns != 0; }
};

struct Process {
  session::ProcessName name;
  double interval_s = 0;  // the length of the last interval
  double whole_s = 0;
  bool has_ended = false;
};

// All times in nanoseconds.
struct Figures {
  uint64_t calls = 0;
  double rate = 0;  // calls per second
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double maximum = 0;
  double total = 0;        // the self time, where rows have one
  double share = 0;        // of the total time of all rows, 0 to 1
  bool has_calls = false;  // since the start
};

// What the rows are: functions or spans that are timed for the view, which their reports tell
// apart, or statistics that others have made.
enum class RowKind : uint8_t { timed, statistics };

// What the kind of rows makes of the words on the screen.
struct Words {
  const char* row;         // of one row: "function"
  const char* event;       // of one time: "call"
  const char* rate_title;  // of the column: "CALLS/S"
  const char* row_title;   // "FUNCTION"
};

// What a key asks of the program around the model.
enum class Request : uint8_t { none, quit, write, redraw };

class Model {
 public:
  using Report = session::Report;

  // `show_idle`: also show rows that have had no call yet.
  explicit Model(bool show_idle = false, RowKind kind = RowKind::timed)
      : show_idle_(show_idle), kind_(kind) {}

  // Takes what one process has recorded in an interval that ends now; `now_s` is the time since the
  // start. Call settle() after the reports of all processes.
  void update(const Report& report, double now_s);
  // Takes the calls that are in flight in a process now.
  void set_calls(pid_t pid, const std::vector<session::TimedCall>& calls);
  void set_ended(pid_t pid);
  // Brings figures and order up to date, unless the screen is frozen.
  void settle();

  // Carries out what a key means.
  Request press(Key key);
  // How many rows a page has: what PgUp and PgDn move by.
  void set_page(size_t rows);
  void set_period(Period period);
  // Shows a sentence in the last line until the next key.
  void set_note(std::string note) { note_ = std::move(note); }

  const std::map<pid_t, Process>& processes() const { return data().processes; }
  double now_s() const { return data().now_s; }
  size_t row_count() const { return data().rows.size(); }
  // The rows to show, in their order.
  const std::vector<size_t>& shown() const { return shown_; }
  const Row& row(size_t index) const { return data().rows[index]; }
  const Figures& figures(size_t index) const { return figures_[index]; }
  bool has_ended(const Row& row) const { return processes().at(row.pid).has_ended; }
  // The position of the selected row in shown(); 0 if there is none.
  size_t selected() const;
  // The position of the first row of the page with the selected row, if a page has `rows` rows.
  size_t first_of_page(size_t rows) const;

  // These return sums over all rows: calls per second, calls that were not timed since the start,
  // and the number of rows with calls.
  double total_rate() const { return total_rate_; }
  uint64_t total_missed() const { return total_missed_; }
  size_t called_rows() const { return called_rows_; }

  Period period() const { return period_; }
  Column sort_column() const { return sort_column_; }
  bool is_reversed() const { return is_reversed_; }
  bool is_frozen() const { return frozen_.has_value(); }
  bool shows_histogram() const { return shows_histogram_; }
  bool shows_help() const { return shows_help_; }
  bool shows_idle() const { return show_idle_; }
  bool edits_filter() const { return edits_filter_; }
  // Are shares those of self times?
  bool has_self_times() const { return has_self_times_; }
  Words words() const;
  const std::string& filter() const { return filter_; }
  const std::string& note() const { return note_; }

 private:
  struct Data {
    std::map<pid_t, Process> processes;
    std::vector<Row> rows;
    double now_s = 0;
  };
  // Functions with the same name are told apart by their address, and those of a file that is
  // loaded twice by their order in the report.
  using Name = std::tuple<std::string, std::string, uint64_t>;
  struct Known {
    std::vector<size_t> in_order;  // the row of each row of the last report
    std::map<std::pair<Name, size_t>, size_t> by_name;
  };

  const Data& data() const { return frozen_ ? *frozen_ : live_; }
  // Returns the indices of the rows of the report.
  std::vector<size_t> rows_of(const Report& report);
  bool is_row_of(size_t index, const session::Row& row) const;
  size_t add_row(pid_t pid, const session::Row& row);
  bool is_call_of(const Row& row, const session::TimedCall& call) const;

  void compute_figures();
  void arrange();
  bool matches_filter(const Row& row) const;
  bool comes_before(size_t a, size_t b) const;

  void edit_filter(Key key);
  void set_filter(std::string filter);
  Request press_character(char32_t character);
  void sort_by(Column column);
  void move_sort(bool right);
  void move(std::ptrdiff_t rows);
  void select(size_t position);
  void toggle_frozen();

  Data live_;
  std::optional<Data> frozen_;  // a copy from when the screen was frozen
  std::map<pid_t, Known> known_;

  std::vector<Figures> figures_;
  std::vector<size_t> shown_;
  double total_rate_ = 0;
  uint64_t total_missed_ = 0;
  size_t called_rows_ = 0;

  // The selected row; nullopt selects the first of the screen, whichever it is.
  std::optional<size_t> selected_;
  size_t page_ = 1;
  size_t first_ = 0;  // of the page that was shown last
  Period period_ = Period::interval;
  Column sort_column_ = Column::share;
  bool is_reversed_ = false;
  bool show_idle_ = false;
  bool shows_histogram_ = true;
  bool shows_help_ = false;
  bool edits_filter_ = false;
  bool has_spans_ = false;
  bool has_self_times_ = false;
  RowKind kind_;
  std::string filter_;
  std::string filter_before_;  // what Escape returns to
  std::string note_;
};

}  // namespace pinprick::cli::top
