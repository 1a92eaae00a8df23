// The rows of `top` as a table, for the screen and for plain text. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/top/model.h"

namespace pinprick::cli::top {

// The widths of the columns that depend on the terminal, or on the processes.
struct TableLayout {
  size_t pid = 0;     // 0: no such column, as there is one process
  size_t oldest = 0;  // 0: no such column
  size_t history = 0;
  size_t name = 0;  // 0: names are not shortened
  bool unicode = false;
};

// For a line of `width` columns; without a width, names are not shortened.
TableLayout layout_of(const Model& model, std::optional<size_t> width, bool unicode);

struct TableCell {
  std::optional<Column> column;  // nullopt: none that gives the order
  std::string text;              // with the spaces before it
  bool is_bars = false;
};

// The cells of the line above the table. A mark is on the column that gives the order.
std::vector<TableCell> heading(const Model& model, const TableLayout& layout);
std::vector<TableCell> cells_of(const Model& model, size_t row, const TableLayout& layout);

// Returns the cells as one line of text.
std::string text_of(const std::vector<TableCell>& cells);

}  // namespace pinprick::cli::top
