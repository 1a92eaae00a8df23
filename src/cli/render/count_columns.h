// The columns that a table of counted hits has if they have a key, a sum, or both: the key, and of
// what was added up the sum, the average, the least and the greatest number. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/render/renderer.h"
#include "cli/render/sum_figures.h"

namespace pinprick::cli {

// How the sums and keys of a probe are to be read.
layout::NumberOrder order_of_sums(const ProbeName& name);
layout::NumberOrder order_of_keys(const ProbeName& name);
// Returns the number that these bits are, without separators.
std::string plain_number(uint64_t bits, layout::NumberOrder order);
layout::NumberOrder order_of_part(layout::KeyParts::Is is);  // of a key

// These are of a row that has a sum.
double sum_of(const Row& row);
std::optional<double> average_of(const Row& row);  // nullopt if there was no hit

// Returns the least and the greatest number that was added up; nullopt if none is known, or if they
// are not kept.
std::optional<uint64_t> least_of(const Row& row);
std::optional<uint64_t> greatest_of(const Row& row);

// Returns by which figure such rows are ordered, the largest first: the first one that is shown of
// the sum, the average, the greatest and the least.
double rank_of(const Row& row, const SumFigures& shown);

class CountColumns {
 public:
  // The widths are those that these rows need, of which there is at least one. All have a key, or
  // none, and all have a sum, or none. They must outlive this.
  CountColumns(std::span<const Row* const> rows, SumFigures figures);
  // These end with the blanks before the next column.
  std::string heading() const;
  std::string of(const Row& row) const;
  std::string none() const;

 private:
  // A column of numbers.
  struct Column {
    std::string heading;
    std::string (*text_of)(const Row& row) = nullptr;
    std::string_view after = "  ";
    size_t width = 0;
  };
  void add_column(std::string heading, std::string (*text_of)(const Row& row), size_t least_width,
                  std::string_view after = "  ");
  std::string key_column(std::string_view key) const;

  const Row& first_;
  size_t key_width_ = 0;  // 0: there is no such column
  std::vector<Column> numbers_;
};

}  // namespace pinprick::cli
