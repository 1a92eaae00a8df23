#include "cli/render/folded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "cli/render/count_columns.h"
#include "image/names/frame_name.h"

namespace pinprick::cli {
namespace {

// Semicolons stand between the parts.
std::string part_of_line_as_it_is(std::string function) {
  std::replace(function.begin(), function.end(), ';', ':');
  return function;
}

std::string part_of_line(const std::string& frame) {
  return part_of_line_as_it_is(std::string(image::function_of_frame(frame)));
}

uint64_t weight_of(const Row& row) {
  if (row.sum) return static_cast<uint64_t>(std::llround(std::max(sum_of(row), 0.0)));
  if (row.kind == placement::Kind::latency)
    return static_cast<uint64_t>(std::llround(row.histogram().sum()));
  return row.count();
}

double weight_of(const compare::RowName& name, const compare::SideFigures& side) {
  if (!name.sum.empty()) return std::max(side.figures.sum, 0.0);
  return name.kind == compare::Kind::latency ? side.figures.total
                                             : static_cast<double>(side.figures.calls);
}

}  // namespace

void FoldedRenderer::comparison(const compare::Comparison& comparison) {
  struct Weights {
    double before = 0, after = 0;
  };
  const bool is_scaled = comparison.before.exposure > 0 && comparison.after.exposure > 0;
  const double scale = is_scaled ? comparison.after.exposure / comparison.before.exposure : 1;
  std::map<std::string, Weights> stacks;
  for (const compare::Change& row : comparison.rows) {
    std::string stack;
    for (size_t i = row.name.frames.size(); i-- > 0;)
      stack += part_of_line(row.name.frames[i]) + ";";
    Weights& weights = stacks[stack + part_of_line(row.name.function)];
    weights.before += weight_of(row.name, row.before) * scale;
    weights.after += weight_of(row.name, row.after);
  }
  for (const auto& [stack, weights] : stacks) {
    const auto before = std::llround(weights.before), after = std::llround(weights.after);
    if (before != 0 || after != 0) data().print("{} {} {}\n", stack, before, after);
  }
  flush();
  if (!is_broken()) notes().print("{}\n", exports::how_to_open_difference(path()));
}

void FoldedRenderer::leaks(const LeakReport& report) {
  if (!report.is_final) return;
  std::map<std::string, uint64_t> stacks;
  for (const LeakRow& row : report.rows) {
    if (row.bytes == 0) continue;
    std::string line;
    for (const std::string_view frame : split_lines(row.stack))
      line = part_of_line(printable(frame, true)) + ";" + line;
    stacks[line + part_of_line(printable(row.function, true))] += row.bytes;
  }
  for (const auto& [stack, bytes] : stacks) data().print("{} {}\n", stack, bytes);
}

void FoldedRenderer::call_paths(const RecordedPaths& recorded) {
  begin();
  const recording::CallPaths& paths = recorded.paths;
  const recording::PathTree& tree = paths.tree();
  // A million deep paths would not fit into memory.
  tree.for_each_path([&](std::span<const recording::PathTree::Node> path) {
    const uint64_t weight = paths.has_times() ? tree.self_ns(path.back()) : tree.calls(path.back());
    if (weight == 0 || data().is_broken()) return;
    std::string stack;
    for (const auto node : path) {
      const std::string_view function = paths.functions()[tree.function(node)].function;
      stack += (stack.empty() ? "" : ";") + part_of_line_as_it_is(printable(function, true));
    }
    data().print("{} {}\n", stack, weight);
  });
}

void FoldedRenderer::add(const Report& report) {
  if (!report.is_final || report.kind == placement::Kind::event) return;
  std::map<std::string, uint64_t> stacks;
  for (const Row& row : report.rows) {
    if (weight_of(row) == 0) continue;
    std::string stack;
    const auto frames = frames_of(row);
    for (size_t i = frames.size(); i-- > 0;) stack += part_of_line(frames[i]) + ";";
    stacks[stack + part_of_line(label_of(row.name))] += weight_of(row);
  }
  for (const auto& [stack, weight] : stacks) data().print("{} {}\n", stack, weight);
}

}  // namespace pinprick::cli
