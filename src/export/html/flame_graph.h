// The boxes of a flame graph: each path of functions has one, with its value and its count. Pure;
// not thread-safe.
//
// A path's own value is without those of the paths that go on from it: the page adds these up. It
// may be in any unit. (recording/path_tree.h has calls and their times by path.)
//
// There may be many paths, as in a recursion: beyond a limit, a new path is counted in the one that
// it goes on from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace pinprick::exports {

class FlameGraph {
 public:
  static constexpr uint32_t kNoPath = 0;  // from which all paths start
  static constexpr size_t kMostPaths = 100'000;

  explicit FlameGraph(size_t most = kMostPaths) : most_(most), nodes_(1) {}

  // Returns the path that goes on from `path` with this function.
  uint32_t after(uint32_t path, uint32_t function);
  void add(uint32_t path, uint64_t own, uint64_t count);
  bool empty() const { return nodes_.size() == 1; }
  // How often a new path was counted in another one.
  uint64_t left_out() const { return left_out_; }

  // Returns the members of a JSON object: the path before each, its function, its own value, its
  // count. Paths are numbered from 1 on, and each comes after the one that it goes on from.
  std::string json() const;

 private:
  struct Node {
    uint32_t before = kNoPath, function = 0;
    uint64_t own = 0, count = 0;
  };
  size_t most_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> numbers_;  // by the path before, and the function
  uint64_t left_out_ = 0;
};

}  // namespace pinprick::exports
