// The report of `leaks`: blocks of memory that were not freed, by the stacks of their allocations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pinprick::cli {

struct LeakRow {
  std::string function;  // that allocates
  std::string stack;     // its callers, the innermost first, with a line end after each
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint64_t oldest_ns = 0;  // the age of the oldest block
};

struct LeakReport {
  double seconds = 0;              // since the probes are in
  bool is_final = false;           // there is no later one
  std::vector<LeakRow> rows;       // the most bytes first
  uint64_t bytes = 0, blocks = 0;  // of all rows
  uint64_t least_age_ns = 0;       // younger blocks are in no row; 0: all are
  uint64_t young_bytes = 0, young_blocks = 0;

  // These count blocks. All but `dropped` and `sample` are estimates if one of many is followed.
  uint64_t allocated = 0;
  uint64_t freed = 0;
  uint64_t unknown_freed = 0;  // frees of blocks that are not known, as of those from before
  bool tells_unknown = true;   // not if the allocation of blocks that are freed may be left out
  uint64_t reused = 0;         // those that came again without having been freed
  uint64_t no_room = 0;        // those that are not known, as there were too many others
  uint64_t dropped = 0;        // events; if there are any, the figures are unreliable
  uint32_t sample = 1;         // N, if one block of N was followed
};

}  // namespace pinprick::cli
