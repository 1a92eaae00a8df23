// `report --graph`: what calls a function, and what it calls, as two trees.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cli/render/text.h"
#include "cli/render/text_width.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

using recording::CallNode;

std::string time_of(uint64_t ns) {
  return duration_ns(static_cast<double>(ns));
}

// Prints the lines of one tree.
class Tree {
 public:
  enum class Columns : uint8_t { calls, calls_and_total, calls_total_and_self };

  Tree(Output& output, Columns columns) : output_(output), columns_(columns) {}

  void heading(const char* function) {
    output_.print("{}  {}\n", figures("calls", "total", "self"), function);
  }
  void lines(const std::vector<CallNode>& nodes, size_t depth) {
    for (const CallNode& one : nodes) line(one, depth);
  }
  // Prints the line of the node, and those of the nodes below it.
  void line(const CallNode& node, size_t depth) {
    const std::string name = indentation(depth) + name_of(node);
    output_.print("{}  {}{}{}\n", figures_of(node), depth == 0 ? output_.bold(name) : Styled{name},
                  node.has_deeper ? " ..." : "", left_out(node, " "));
    lines(node.others, depth + 1);
  }
  // Returns how many nodes below it have no line, in words.
  Styled left_out(const CallNode& node, const char* before) const {
    if (node.left_out == 0) return {};
    return output_.faint(fmt::format("{}({} more)", before, with_commas(node.left_out)));
  }
  void left_out(const CallNode& node) {
    if (node.left_out != 0) output_.print("{}  {}\n", figures("", "", ""), left_out(node, ""));
  }
  void direct(uint64_t calls) {
    output_.print("{}  {}\n", figures(with_commas(calls), "", ""),
                  output_.faint("(no recorded caller)"));
  }

 private:
  static std::string indentation(size_t depth) { return std::string(2 * depth, ' '); }
  // Only a terminal has no room for long names.
  std::string name_of(const CallNode& node) const {
    constexpr size_t kLeast = 24, kFigures = 32;
    const std::string name = printable(node.function->function, true);
    if (!output_.is_terminal()) return name;
    const auto columns = static_cast<size_t>(output_.columns());
    return shortened(name, std::max(kLeast, columns - std::min(columns, kFigures)), true);
  }
  std::string figures(const std::string& calls, const std::string& total,
                      const std::string& self) const {
    std::string text = fmt::format("{:>12}", calls);
    if (columns_ != Columns::calls) text += fmt::format(" {:>8}", total);
    if (columns_ == Columns::calls_total_and_self) text += fmt::format(" {:>8}", self);
    return text;
  }
  std::string figures_of(const CallNode& node) const {
    return figures(with_commas(node.calls), time_of(node.total_ns), time_of(node.self_ns));
  }

  Output& output_;
  Columns columns_;
};

}  // namespace

void TextRenderer::call_graph(const recording::CallGraph& graph) {
  using Columns = Tree::Columns;
  const CallNode& callers = graph.callers;
  const bool has_times = graph.callees.total_ns != 0;
  if (std::exchange(has_graph_, true)) data_.print("\n");
  Tree above(data_, has_times ? Columns::calls_and_total : Columns::calls);
  above.heading("called by");
  above.lines(callers.others, 0);
  above.left_out(callers);
  if (graph.outermost_calls != 0) above.direct(graph.outermost_calls);
  data_.print("\n");
  Tree below(data_, has_times ? Columns::calls_total_and_self : Columns::calls);
  below.heading("function, and what it calls");
  below.line(graph.callees, 0);
  if (graph.inner_calls != 0)
    data_.print("{}\n", data_.faint(fmt::format("{} of it lie in these, and are not told again",
                                                plural(graph.inner_calls, "more call"))));
}

}  // namespace pinprick::cli
