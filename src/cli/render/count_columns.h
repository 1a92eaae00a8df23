// The columns that a table of counted hits has if they have a key, a sum, or both: the key, the
// sum, and the average of what was added up. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/render/renderer.h"

namespace pinprick::cli {

// These are of a row that has a sum.
double sum_of(const Row& row);
std::optional<double> average_of(const Row& row);  // nullopt if there was no hit

// Does a table of sums have columns for both sums and averages, or only for averages?
enum class Sums : uint8_t { with_averages, as_averages };

class CountColumns {
 public:
  // The widths are those that these rows need, of which there is at least one. All have a key, or
  // none, and all have a sum, or none. They must outlive this.
  CountColumns(std::span<const Row* const> rows, Sums sums);
  // These end with the blanks before the next column.
  std::string heading() const;
  std::string of(const Row& row) const;
  std::string none() const { return columns("", "", ""); }

 private:
  std::string columns(std::string_view key, std::string_view sum, std::string_view average) const;
  std::string heading_of_sum() const;
  std::string heading_of_average() const;

  const Row& first_;
  Sums sums_;
  size_t key_width_ = 0, sum_width_ = 0, average_width_ = 0;  // 0: there is no such column
};

}  // namespace pinprick::cli
