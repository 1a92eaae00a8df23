// Draws a histogram as density: each bar is as long as the number of values per unit of the axis.
// Raw counts of log-linear slots would show a step at each power of two, where slots become twice
// as wide, although the values have none. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/render/units.h"
#include "stats/histogram.h"

namespace pinprick::cli {

struct DensityStyle {
  size_t lines = 10;  // how many to draw at most, at least 3
  size_t width = 60;  // columns of the longest bar, at least 1
  std::string (*show)(double) = duration_ns;
  bool unicode = false;  // bars of eighths of a column; otherwise of '#'
};

// The values from `floor` up to the next line's floor.
struct DensityLine {
  double floor = 0;
  double density = 0;   // values per unit
  double fraction = 0;  // of all values
  std::string label;    // the floor
  std::string bar;      // of a line with values, at least the shortest one
  size_t bar_width = 0;
  std::string percentage;
};

// Returns no line for an empty histogram. Lines cover equally many slots each. If the slots in use
// do not fit, the first and the last line also cover what is far from nearly all values (1% in
// all), so that single outliers leave the other lines their resolution.
std::vector<DensityLine> density_lines(const stats::Histogram& histogram,
                                       const DensityStyle& style);

// Returns the line as text: label, bar and percentage, each at the same column of all lines.
std::string text_of(const DensityLine& line, const DensityStyle& style);

}  // namespace pinprick::cli
