// A table of figures, as a page shows it: rows that can be sorted and searched. Pure.
//
// A page is to be opened by a browser, so the number of rows and of their bytes is limited: the
// first ones are kept, and the others are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stats/histogram.h"

namespace pinprick::exports {

class Table {
 public:
  enum class Kind : uint8_t {
    function,   // what the search box looks for
    text,       // hidden if all rows have the same one
    stack,      // frames with semicolons between them, the outermost first
    count,      // a number
    number,     // one that may be large, or negative
    rate,       // per second
    duration,   // nanoseconds
    durations,  // a histogram of these
    values,     // a histogram of numbers
    lost,       // a number, hidden if all are 0
  };
  struct Column {
    std::string name;
    Kind kind = Kind::text;
    bool sorts = false;  // the rows, at first, the largest first
  };
  struct Limits {
    size_t rows = 100'000;
    size_t bytes = 32 << 20;
  };
  Table(std::string title, std::vector<Column> columns, Limits limits)
      : title_(std::move(title)), columns_(std::move(columns)), limits_(limits) {}
  Table(std::string title, std::vector<Column> columns)
      : Table(std::move(title), std::move(columns), Limits{}) {}

  // A row has as many cells as there are columns.
  void begin_row();
  void add(std::string_view text);
  void add(uint64_t number);
  void add(double number);
  void add_nothing();
  void add(const stats::Histogram& values);
  bool empty() const { return rows_.empty(); }
  uint64_t left_out() const { return left_out_; }
  std::string json() const;

 private:
  void put(std::string_view json);

  std::string title_;
  std::vector<Column> columns_;
  Limits limits_;
  std::string rows_;
  size_t kept_ = 0;
  uint64_t left_out_ = 0;  // rows
  bool is_kept_ = true;    // the current row
  bool is_first_ = true;   // the next cell
};

}  // namespace pinprick::exports
