#include "export/html/flame_graph.h"

#include <fmt/format.h>

#include <iterator>

namespace pinprick::exports {

uint32_t FlameGraph::after(uint32_t path, uint32_t function) {
  constexpr int kBitsOfFunction = 32;
  const uint64_t key = uint64_t{path} << kBitsOfFunction | function;
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  if (nodes_.size() > most_) {
    ++left_out_;
    return path;
  }
  const auto number = static_cast<uint32_t>(nodes_.size());
  numbers_.emplace(key, number);
  nodes_.push_back({path, function});
  return number;
}

void FlameGraph::add(uint32_t path, uint64_t own, uint64_t count) {
  nodes_[path].own += own;
  nodes_[path].count += count;
}

std::string FlameGraph::json() const {
  const auto column = [&](const char* name, auto member) {
    std::string json = fmt::format("\"{}\":[", name);
    for (size_t i = 1; i < nodes_.size(); ++i)
      fmt::format_to(std::back_inserter(json), "{}{}", i == 1 ? "" : ",", nodes_[i].*member);
    return json + "]";
  };
  return column("before", &Node::before) + "," + column("function", &Node::function) + "," +
         column("own", &Node::own) + "," + column("count", &Node::count);
}

}  // namespace pinprick::exports
