// A table of rows of two measurements, all of one measure and kind, for people.
#pragma once

#include <cstddef>
#include <span>

#include "cli/output.h"
#include "compare/change.h"

namespace pinprick::cli {

// Which rows are shown.
struct ChangesShown {
  bool all = false;  // those within noise, too
  size_t most = 0;   // 0: any number
};

// Prints the rows, which are at least one, and how many others there are. Up to ten rows have all
// their figures in lines of their own; more rows have a line each.
void print_changes(Output& output, const compare::Comparison& comparison,
                   std::span<const compare::Change> rows, ChangesShown shown);

}  // namespace pinprick::cli
