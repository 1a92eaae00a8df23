#include "cli/render/folded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "cli/render/count_columns.h"

namespace pinprick::cli {
namespace {

// Without the distance from its start.
std::string function_of(std::string frame) {
  const size_t distance = frame.rfind("+0x");
  const bool is_object = distance != frame.npos && frame.find(".so") < distance;
  if (distance != frame.npos && !is_object) frame.resize(distance);
  std::replace(frame.begin(), frame.end(), ';', ':');
  return frame;
}

uint64_t weight_of(const Row& row) {
  if (row.sum) return static_cast<uint64_t>(std::llround(std::max(sum_of(row), 0.0)));
  if (row.kind == placement::Kind::latency)
    return static_cast<uint64_t>(std::llround(row.histogram().sum()));
  return row.count();
}

}  // namespace

bool is_folded(std::string_view path) {
  return path.ends_with(".folded");
}

void FoldedRenderer::report(const Report& report) {
  if (!report.is_final) return;
  std::map<std::string, uint64_t> stacks;
  for (const Row& row : report.rows) {
    if (weight_of(row) == 0) continue;
    std::string stack;
    const auto frames = frames_of(row);
    for (size_t i = frames.size(); i-- > 0;) stack += function_of(frames[i]) + ";";
    stacks[stack + function_of(label_of(row.name))] += weight_of(row);
  }
  for (const auto& [stack, weight] : stacks) data().print("{} {}\n", stack, weight);
  data().flush();
}

}  // namespace pinprick::cli
