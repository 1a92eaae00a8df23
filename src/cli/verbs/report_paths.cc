#include "cli/verbs/report_paths.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cli/measure/event_order.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "image/pattern.h"
#include "recording/call_graph.h"

namespace pinprick::cli {
namespace {

// A pattern that matches more functions would fill many screens.
constexpr size_t kMostGraphs = 10;

recording::GraphLimits graph_limits(const Options& options) {
  // So many levels fit 80 columns, and paths with less of the time are of little interest.
  constexpr size_t kDepth = 12;
  constexpr double kLeast = 0.01;
  const bool is_for_people = !options.json;
  recording::GraphLimits limits;
  if (options.depth != 0)
    limits.depth = options.depth;
  else if (is_for_people)
    limits.depth = kDepth;
  if (options.top != 0) limits.top = options.top;
  limits.least = options.least.value_or(is_for_people && options.top == 0 ? kLeast : 0);
  return limits;
}

std::string_view name_in_folder(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

ShowPaths::ShowPaths(const Options& options, const recording::Header& header, Renderer& renderer)
    : options_(options),
      renderer_(renderer),
      started_ns_(header.clocks.realtime_ns),
      after_(ticks_in(header.after_ns, header.clocks.ns_multiplier)),
      paths_(header.is_tree, header.clocks.ns_multiplier) {}

void ShowPaths::event(const session::Event& event) {
  if (event.triggers_end) paths_.end_after(event.tsc, after_);
  paths_.add(event);
}

void ShowPaths::report(const session::Report& report) {
  seconds_ = std::max(seconds_, report.seconds);
  losses_ += session::losses_of(report.rows);
}

std::optional<Message> ShowPaths::finish() {
  paths_.finish();
  const recording::PathTree& tree = paths_.tree();
  if (tree.within(recording::PathTree::kRoot).empty())
    return recording_without_paths(options_.recording);
  if (const auto lack = warning::figures_lack(options_.recording, losses_))
    renderer_.warning(*lack);
  if (const uint64_t calls = tree.calls(recording::PathTree::kNowhere); calls != 0)
    renderer_.warning(warning::paths_left_out(calls));
  if (!options_.graph.empty()) return show_graphs();
  renderer_.call_paths({paths_, started_ns_, seconds_});
  return std::nullopt;
}

std::optional<Message> ShowPaths::show_graphs() {
  const auto pattern = image::Pattern::parse(options_.graph, image::PatternSyntax::glob);
  const auto functions =
      recording::called_functions(paths_, [&](const recording::Function& function) {
        const std::vector<std::string> objects = {std::string(function.object),
                                                  std::string(name_in_folder(function.file))};
        return pattern->matches_function(function.function) && pattern->matches_object(objects);
      });
  if (functions.empty()) return no_such_call(options_.graph, options_.recording);
  const size_t shown = std::min(functions.size(), kMostGraphs);
  const recording::GraphLimits limits = graph_limits(options_);
  for (size_t i = 0; i < shown; ++i)
    renderer_.call_graph(recording::graph_of(paths_, functions[i], limits));
  if (shown != functions.size())
    renderer_.warning(warning::graphs_left_out(functions.size() - shown));
  return std::nullopt;
}

}  // namespace pinprick::cli
