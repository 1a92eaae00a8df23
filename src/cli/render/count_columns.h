// The columns that a table of counted hits has if they have a key, a sum, or both: the key, the
// sum, and the mean of what was added up. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/render/renderer.h"

namespace pinprick::cli {

double sum_of(const Row& row);  // of a row that has one

class CountColumns {
 public:
  // The widths are those that these rows need, of which there is at least one. All have a key, or
  // none, and all have a sum, or none. They must outlive this.
  explicit CountColumns(std::span<const Row* const> rows);
  // These end with the blanks before the next column.
  std::string heading() const;
  std::string of(const Row& row) const;
  std::string none() const { return columns("", "", ""); }

 private:
  std::string columns(std::string_view key, std::string_view sum, std::string_view mean) const;

  const Row& first_;
  size_t key_width_ = 0, sum_width_ = 0;  // 0: there is no such column
};

}  // namespace pinprick::cli
