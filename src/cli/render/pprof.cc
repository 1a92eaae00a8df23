#include "cli/render/pprof.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/render/count_columns.h"
#include "image/names/frame_name.h"

namespace pinprick::cli {
namespace {

std::vector<exports::Profile::ValueType> types_of(const Options& options) {
  if (options.verb == "latency") return {{"calls", "count"}, {"time", "nanoseconds"}};
  if (!options.sum.empty()) return {{"calls", "count"}, {options.sum, "sum"}};
  return {{"calls", "count"}};
}

std::vector<int64_t> values_of(const Row& row) {
  std::vector<int64_t> values = {static_cast<int64_t>(row.count())};
  if (!row.only_counts())
    values.push_back(std::llround(row.histogram().sum()));
  else if (row.sum)
    values.push_back(static_cast<int64_t>(*row.sum));
  return values;
}

}  // namespace

PprofRenderer::PprofRenderer(TextRenderer text, const Options& options)
    : ExportRenderer(std::move(text), exports::Format::pprof, options.output),
      profile_(types_of(options)),
      started_ns_(realtime_ns()) {}

void PprofRenderer::add(const Report& report) {
  seconds_ = std::max(seconds_, report.seconds);
  for (const Row& row : report.rows) {
    if (row.count() == 0) continue;
    std::vector<exports::Profile::Frame> frames = {
        {point_text(row.name), std::string(row.name.file), std::string(row.name.build_id),
         row.name.address}};
    for (const std::string& name : frames_of(row))
      frames.push_back({.function = std::string(image::function_of_frame(name))});
    std::vector<exports::Profile::Label> labels = {{"command", report.process.command}};
    if (report.process.pid != 0)
      labels.push_back({"process", fmt::format("{}", report.process.pid)});
    if (row.key)
      if (std::string key = key_text(row); !key.empty())
        labels.push_back({std::string(row.name.key), std::move(key)});
    profile_.add(frames, values_of(row), labels);
  }
}

void PprofRenderer::call_paths(const RecordedPaths& recorded) {
  begin();
  started_ns_ = recorded.started_ns;
  seconds_ = recorded.seconds;
  const recording::CallPaths& paths = recorded.paths;
  const recording::PathTree& tree = paths.tree();
  std::vector<exports::Profile::ValueType> types = {{"calls", "count"}};
  if (paths.has_times()) types.emplace_back("time", "nanoseconds");
  profile_ = exports::Profile(types);
  tree.for_each_path([&](std::span<const recording::PathTree::Node> path) {
    if (tree.calls(path.back()) == 0) return;
    std::vector<exports::Profile::Frame> frames;
    for (size_t i = path.size(); i-- > 0;) {
      const recording::Function& one = paths.functions()[tree.function(path[i])];
      frames.push_back({std::string(one.function), std::string(one.file), std::string(one.build_id),
                        one.address});
    }
    std::vector<int64_t> values = {static_cast<int64_t>(tree.calls(path.back()))};
    if (paths.has_times()) values.push_back(static_cast<int64_t>(tree.self_ns(path.back())));
    profile_.add(frames, values, {});
  });
}

void PprofRenderer::finish() {
  data().write(profile_.compressed(started_ns_, static_cast<uint64_t>(seconds_ * 1e9)));
}

}  // namespace pinprick::cli
