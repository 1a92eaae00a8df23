#include "recording/call_graph.h"

#include <algorithm>
#include <utility>

namespace pinprick::recording {
namespace {

using Node = PathTree::Node;

// The paths of one function, before they are put into their order.
class Collected {
 public:
  Collected(const PathTree& tree, uint32_t function) : tree_(tree), function_(function) {
    walk(PathTree::kRoot, false);
  }
  uint64_t inner_calls() const { return inner_calls_; }
  uint64_t outermost_calls() const { return outermost_calls_; }
  // Each has the function alone at its root.
  const PathTree& callers() const { return callers_; }
  const PathTree& callees() const { return callees_; }

 private:
  // The recursion goes as deep as the tree is high.
  void walk(Node node, bool is_inside) {
    for (const Node one : tree_.within(node)) {
      const bool is_it = tree_.function(one) == function_;
      if (is_it && is_inside) inner_calls_ += tree_.calls(one);
      if (is_it && !is_inside) add(one);
      path_.push_back(one);
      walk(one, is_inside || is_it);
      path_.pop_back();
    }
  }
  void add(Node node) {
    const uint64_t calls = tree_.calls(node), total_ns = tree_.total_ns(node);
    Node to = callers_.within(PathTree::kRoot, function_);
    callers_.add(to, calls, total_ns);
    for (size_t i = path_.size(); i-- > 0;) {
      to = callers_.within(to, tree_.function(path_[i]));
      callers_.add(to, calls, total_ns);
    }
    to = callees_.within(PathTree::kRoot, function_);
    callees_.add(to, calls, total_ns);
    callees_.add_copy(to, tree_, node);
    if (path_.empty()) outermost_calls_ += calls;
  }

  const PathTree& tree_;
  uint32_t function_;
  std::vector<Node> path_;  // to the node that is looked at, the outermost first
  PathTree callers_, callees_;
  uint64_t inner_calls_ = 0, outermost_calls_ = 0;
};

// Makes nodes of a tree of paths.
class Shown {
 public:
  Shown(const FunctionTable& functions, const PathTree& tree, const GraphLimits& limits)
      : functions_(functions), tree_(tree), limits_(limits) {}

  // Returns the node of the function. Paths that are too long have other nodes beside it.
  CallNode of(uint32_t function) {
    const auto& all = tree_.within(PathTree::kRoot);
    const Node node = *std::find_if(all.begin(), all.end(),
                                    [&](Node one) { return tree_.function(one) == function; });
    by_time_ = tree_.total_ns(node) != 0;
    least_ = limits_.least * static_cast<double>(weight(node));
    return shown(node, 0);
  }

 private:
  uint64_t weight(Node node) const { return by_time_ ? tree_.total_ns(node) : tree_.calls(node); }

  CallNode shown(Node node, size_t depth) {
    CallNode result = {.function = &functions_[tree_.function(node)],
                       .calls = tree_.calls(node),
                       .total_ns = tree_.total_ns(node),
                       .self_ns = tree_.self_ns(node)};
    std::vector<Node> others;
    for (const Node one : tree_.within(node))
      if (tree_.calls(one) != 0) others.push_back(one);
    result.has_deeper = depth == limits_.depth && !others.empty();
    if (depth == limits_.depth) return result;
    std::stable_sort(others.begin(), others.end(), [this](Node a, Node b) {
      return std::pair(weight(a), tree_.calls(a)) > std::pair(weight(b), tree_.calls(b));
    });
    for (const Node one : others) {
      if (result.others.size() == limits_.top || static_cast<double>(weight(one)) < least_) break;
      result.others.push_back(shown(one, depth + 1));
    }
    result.left_out = others.size() - result.others.size();
    return result;
  }

  const FunctionTable& functions_;
  const PathTree& tree_;
  const GraphLimits& limits_;
  bool by_time_ = false;
  double least_ = 0;
};

}  // namespace

std::vector<uint32_t> called_functions(const CallPaths& paths,
                                       const std::function<bool(const Function&)>& is_meant) {
  struct Figures {
    uint64_t total_ns = 0, calls = 0;
    auto operator<=>(const Figures&) const = default;
  };
  const PathTree& tree = paths.tree();
  std::vector<Figures> figures(paths.functions().size());
  std::vector<Node> left = tree.within(PathTree::kRoot);
  while (!left.empty()) {
    const Node node = left.back();
    left.pop_back();
    Figures& one = figures[tree.function(node)];
    one.total_ns += tree.total_ns(node);
    one.calls += tree.calls(node);
    left.insert(left.end(), tree.within(node).begin(), tree.within(node).end());
  }
  std::vector<uint32_t> found;
  for (uint32_t number = 0; number < figures.size(); ++number)
    if (figures[number].calls != 0 && is_meant(paths.functions()[number])) found.push_back(number);
  std::stable_sort(found.begin(), found.end(),
                   [&](uint32_t a, uint32_t b) { return figures[a] > figures[b]; });
  return found;
}

CallGraph graph_of(const CallPaths& paths, uint32_t function, const GraphLimits& limits) {
  const Collected collected(paths.tree(), function);
  return {.callers = Shown(paths.functions(), collected.callers(), limits).of(function),
          .callees = Shown(paths.functions(), collected.callees(), limits).of(function),
          .inner_calls = collected.inner_calls(),
          .outermost_calls = collected.outermost_calls()};
}

}  // namespace pinprick::recording
