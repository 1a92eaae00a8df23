// A table of figures, as a page shows it: rows that can be sorted and searched. Pure.
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
  Table(std::string title, std::vector<Column> columns)
      : title_(std::move(title)), columns_(std::move(columns)) {}

  // A row has as many cells as there are columns.
  void begin_row();
  void add(std::string_view text);
  void add(uint64_t number);
  void add(double number);
  void add_nothing();
  void add(const stats::Histogram& values);
  bool empty() const { return rows_.empty(); }
  std::string json() const;

 private:
  void put(std::string_view json);

  std::string title_;
  std::vector<Column> columns_;
  std::string rows_;
  bool is_first_ = true;  // the next cell
};

}  // namespace pinprick::exports
