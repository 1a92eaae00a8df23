// Compares two measurements: joins the rows of both by their names, and decides which of the
// differences are more than noise (docs/diff.md).
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/run.h"
#include "stats/comparison.h"
#include "stats/moderation.h"

namespace pinprick::compare {

// The figures of a row by which measurements are compared.
enum class Figure : uint8_t {
  calls,    // per second, or per run of a program
  sum,      // what was added up, likewise
  typical,  // the mean of the middle 90% of times or values
  mean,     // of all times or values
  tail,     // their p99
};
const char* name(Figure figure);  // as in records

struct Finding {
  Figure figure = Figure::calls;
  stats::Difference difference;
  std::optional<stats::RelativeSpread> spread;  // of runs, if the noise is theirs
  bool is_change = false;                       // more than noise, and large enough
};

// One side of a row.
struct SideFigures {
  RowFigures figures;
  bool is_probed = false;   // the function had a probe, though perhaps no hit
  bool is_skipped = false;  // it could not be probed
  double per_exposure = 0;  // calls per second, or per run
  double sum_per_exposure = 0;
  double total_per_exposure = 0;
  std::optional<double> mean, typical, p50, p90, p99;
};

// In one side alone?
enum class Presence : uint8_t { both, appeared, disappeared };

struct Change {
  RowName name;
  SideFigures before, after;
  Presence presence = Presence::both;
  std::vector<Finding> findings;  // of each figure that can be compared
  double weight = 0;              // how much this row matters, among those of its kind

  bool is_change() const;
};

// The kind of observations from whose spread the noise is estimated.
enum class Noise : uint8_t { runs, intervals, calls };

// How far most rows have moved in one direction, as a fraction; each row is judged by how far it is
// from that.
struct Shift {
  Kind kind = Kind::count;
  Figure figure = Figure::calls;
  double change = 0;
  size_t rows = 0;
};

struct SideSummary {
  std::vector<std::string> paths;
  std::string command;
  double seconds = 0;    // of all runs; 0: not known
  double exposure = 0;   // what figures are divided by: seconds, or runs; 0: not known
  size_t intervals = 0;  // that are compared
  layout::Losses losses;
  size_t partial_rows = 0;
};

struct Comparison {
  SideSummary before, after;
  Noise noise = Noise::calls;
  bool is_per_run = false;           // calls are per run of a program, and not per second
  bool is_rate_known = true;         // figures of statistics have no length of time
  bool have_different_bits = false;  // histograms are compared by the wider slots, and no tails
  double least = 0;                  // the smallest change of calls, times and values that is told
  std::vector<Shift> shifts;
  std::vector<Change> rows;  // by measure and kind; of each, what changed most comes first
};

// `least`: nullopt for what suits the kind of noise. Neither side is empty.
Comparison compare(const std::vector<Run>& before, const std::vector<Run>& after,
                   std::optional<double> least);

// Returns whether some row of one has the same kind as some row of the other.
bool are_comparable(const std::vector<Run>& before, const std::vector<Run>& after);

}  // namespace pinprick::compare
