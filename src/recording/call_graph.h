// The graph of a function: what calls it, and what it calls, by the paths between (call_paths.h).
// Pure.
//
// If a function calls itself, directly or through others, its inner calls are among its callees and
// are not counted a second time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "recording/call_paths.h"

namespace pinprick::recording {

// The calls by one path.
struct CallNode {
  const Function* function = nullptr;
  uint64_t calls = 0, total_ns = 0;
  uint64_t self_ns = 0;               // total_ns without that of all callees, or of all callers
  std::vector<CallNode> others = {};  // its callers, or its callees
  size_t left_out = 0;                // how many more of those there are
  bool has_deeper = false;            // those beyond GraphLimits::depth are left out
};

struct CallGraph {
  // Both start with the function itself and have the same figures for it, except for self_ns.
  CallNode callers, callees;
  uint64_t inner_calls = 0;      // that lie in other calls of the function
  uint64_t outermost_calls = 0;  // that lie in no recorded call
};

struct GraphLimits {
  size_t depth = SIZE_MAX;  // the most levels above and below the function
  size_t top = SIZE_MAX;    // the most callers, or callees, of each node
  double least = 0;  // smallest share of the function's time, or of its calls if none has a time
};

// Returns the numbers of the functions that were called and for which `is_meant` returns true,
// those with the most time first.
std::vector<uint32_t> called_functions(const CallPaths& paths,
                                       const std::function<bool(const Function&)>& is_meant);

// Returns the graph of a function that was called. `paths` must outlive it.
CallGraph graph_of(const CallPaths& paths, uint32_t function, const GraphLimits& limits);

}  // namespace pinprick::recording
