#include "recording/path_tree.h"

#include <algorithm>
#include <utility>

namespace pinprick::recording {

PathTree::Place PathTree::position_of(Node node, uint32_t function) {
  auto& all = nodes_[node].within;
  return std::lower_bound(all.begin(), all.end(), function, [this](Node one, uint32_t wanted) {
    return nodes_[one].function < wanted;
  });
}

PathTree::Node PathTree::make(uint32_t function) {
  if (!free_.empty()) {
    const Node node = free_.back();
    free_.pop_back();
    nodes_[node].function = function;
    return node;
  }
  if (nodes_.size() == kMostNodes) return kNowhere;
  nodes_.push_back({.function = function});
  return static_cast<Node>(nodes_.size() - 1);
}

void PathTree::free(Node node) {
  if (node == kNowhere) return;
  nodes_[node] = {};
  free_.push_back(node);
}

PathTree::Node PathTree::within(Node node, uint32_t function) {
  if (node == kNowhere) return kNowhere;
  if (nodes_[node].depth == kMostDepth) node = kRoot;
  const Place place = position_of(node, function);
  if (place != nodes_[node].within.end() && nodes_[*place].function == function) return *place;
  const auto at = place - nodes_[node].within.begin();
  const Node made = make(function);
  if (made == kNowhere) return kNowhere;
  nodes_[made].depth = static_cast<uint16_t>(nodes_[node].depth + 1);
  nodes_[node].within.insert(nodes_[node].within.begin() + at, made);
  return made;
}

// The recursion is as deep as the tree is high.
void PathTree::adopt(Node outer, Node inner) {
  if (inner == kNowhere) return;
  if (outer == kNowhere) outer = kRoot;
  const auto levels = static_cast<uint16_t>(nodes_[inner].height + 1);
  if (outer != kRoot && levels >= kMostDepth) outer = kRoot;
  nodes_[outer].height = std::max(nodes_[outer].height, levels);
  const Place place = position_of(outer, nodes_[inner].function);
  if (place == nodes_[outer].within.end() || nodes_[*place].function != nodes_[inner].function) {
    nodes_[outer].within.insert(place, inner);
    return;
  }
  const Node same = *place;
  add(same, nodes_[inner].calls, nodes_[inner].total_ns);
  for (const Node one : std::exchange(nodes_[inner].within, {})) adopt(same, one);
  free(inner);
}

void PathTree::add_copy(Node to, const PathTree& other, Node node) {
  for (const Node one : other.within(node)) {
    const Node copy = within(to, other.function(one));
    add(copy, other.calls(one), other.total_ns(one));
    add_copy(copy, other, one);
  }
}

uint64_t PathTree::self_ns(Node node) const {
  uint64_t within_ns = 0;
  for (const Node one : nodes_[node].within) within_ns += nodes_[one].total_ns;
  return nodes_[node].total_ns - std::min(nodes_[node].total_ns, within_ns);
}

}  // namespace pinprick::recording
