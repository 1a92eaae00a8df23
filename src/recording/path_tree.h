// Calls by the path of functions that led to them: a tree, in which all calls by one path are one
// node. Pure; not thread-safe.
//
// Its size is limited, as paths come from a file that may be hostile. Calls that find no room are
// counted in the node kNowhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pinprick::recording {

class PathTree {
 public:
  using Node = uint32_t;
  // Calls without a recorded caller are within the root, which is no call itself.
  static constexpr Node kRoot = 0, kNowhere = 1;
  static constexpr uint32_t kNoFunction = UINT32_MAX;
  static constexpr size_t kMostNodes = 1 << 20, kMostDepth = 1000;

  PathTree() : nodes_(2) {}

  // Returns the node of the calls of a function that lie in those of another node. A path has at
  // most kMostDepth functions: what lies deeper starts a new path at the root.
  Node within(Node node, uint32_t function);
  // Returns a node that is within no other one, until adopt() puts it there.
  Node make(uint32_t function);
  // Puts the calls of `inner`, with those within them, into `outer`. `inner` came from make(), and
  // must not be used afterwards.
  void adopt(Node outer, Node inner);
  // Puts copies of the calls within `node` of another tree into `to`.
  void add_copy(Node to, const PathTree& other, Node node);
  void add(Node node, uint64_t calls, uint64_t total_ns) {
    nodes_[node].calls += calls;
    nodes_[node].total_ns += total_ns;
  }

  uint32_t function(Node node) const { return nodes_[node].function; }
  uint64_t calls(Node node) const { return nodes_[node].calls; }
  uint64_t total_ns(Node node) const { return nodes_[node].total_ns; }
  // Returns the time without that of the calls within.
  uint64_t self_ns(Node node) const;
  // Ordered by their functions.
  const std::vector<Node>& within(Node node) const { return nodes_[node].within; }

  // Calls `f` with each path, as the nodes from the outermost one on.
  template <class F>
  void for_each_path(F&& f) const {
    std::vector<Node> path;
    walk(kRoot, path, f);
  }

 private:
  template <class F>
  void walk(Node node, std::vector<Node>& path, F& f) const {
    for (const Node one : within(node)) {
      path.push_back(one);
      f(std::span<const Node>(path));
      walk(one, path, f);
      path.pop_back();
    }
  }
  struct Calls {
    uint32_t function = kNoFunction;
    uint16_t depth = 0;   // of nodes that came from within(): how many functions lead to it
    uint16_t height = 0;  // how many levels adopt() has put into it
    uint64_t calls = 0, total_ns = 0;
    std::vector<Node> within = {};
  };
  using Place = std::vector<Node>::iterator;
  Place position_of(Node node, uint32_t function);
  void free(Node node);

  std::vector<Calls> nodes_;
  std::vector<Node> free_;
};

}  // namespace pinprick::recording
