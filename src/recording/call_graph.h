// The graph of a function: what calls it, and what it calls, by the paths between (call_paths.h).
// Pure.
//
// If a function calls itself, directly or through others, the calls that lie in another one of its
// own are what it calls, and are not told again.
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
  uint64_t self_ns = 0;               // without that of all callees, or of all callers
  std::vector<CallNode> others = {};  // its callers, or its callees
  size_t left_out = 0;                // how many of those there are besides
  bool has_deeper = false;            // those beyond GraphLimits::depth are left out
};

struct CallGraph {
  // These have the function itself, with the same figures but for self_ns; its callers, or its
  // callees, are `others`.
  CallNode callers, callees;
  uint64_t inner_calls = 0;      // that lie in other calls of the function
  uint64_t outermost_calls = 0;  // that lie in no recorded call
};

struct GraphLimits {
  size_t depth = SIZE_MAX;  // the most levels above and below the function
  size_t top = SIZE_MAX;    // the most callers, or callees, of each node
  double least = 0;         // share of the function's time, or of its calls if none has a time
};

// Returns the numbers of the functions that are meant and were called, those with the most time
// first.
std::vector<uint32_t> called_functions(const CallPaths& paths,
                                       const std::function<bool(const Function&)>& is_meant);

// Returns the graph of a function that was called. `paths` must outlive it.
CallGraph graph_of(const CallPaths& paths, uint32_t function, const GraphLimits& limits);

}  // namespace pinprick::recording
