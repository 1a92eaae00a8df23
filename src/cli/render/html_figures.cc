#include "cli/render/html_figures.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cli/render/count_columns.h"
#include "image/names/frame_name.h"

namespace pinprick::cli {
namespace {

using exports::FlameGraph;
using exports::Table;

bool measures_time(placement::Kind kind) {
  return kind == placement::Kind::latency || kind == placement::Kind::span;
}

std::string title_of(const Report& report) {
  if (!report.name.empty()) return report.name;
  switch (report.kind) {
    case placement::Kind::latency:
      return "Calls";
    case placement::Kind::span:
      return "Spans";
    case placement::Kind::value:
      return "Values";
    default:
      return "Hits";
  }
}

// Returns the key without its stack, and the stack.
std::pair<std::string, std::string> key_and_stack(const Row& row) {
  if (!row.key) return {};
  const std::string key = key_text(row);
  if (!has_stack(row)) return {key, ""};
  std::string stack;
  const auto frames = frames_of(row);
  for (size_t i = frames.size(); i-- > 0;) stack += (stack.empty() ? "" : ";") + frames[i];
  return {key, stack};
}

uint64_t weight_of_stack(const Row& row) {
  if (row.sum) return static_cast<uint64_t>(std::llround(std::max(sum_of(row), 0.0)));
  if (measures_time(row.kind)) return static_cast<uint64_t>(std::llround(row.histogram().sum()));
  return row.count();
}

}  // namespace

Table HtmlFiguresRenderer::table_of(const Measure& measure) {
  using Of = Table::Kind;
  const bool is_value = measure.kind == placement::Kind::value;
  std::vector<Table::Column> columns = {
      {"function", Of::function}, {"object", Of::text}, {"process", Of::text}};
  if (is_value) columns.push_back({"value", Of::text});
  if (measure.has_key) columns.push_back({measure.key, Of::text});
  if (measure.has_stack) columns.push_back({"stack", Of::stack});
  const bool has_histogram = measures_time(measure.kind) || is_value;
  columns.push_back({measures_time(measure.kind) ? "calls"
                     : is_value                  ? "count"
                                                 : "hits",
                     Of::count, !measures_time(measure.kind) && !measure.has_sum});
  columns.push_back({"per second", Of::rate});
  if (measure.has_sum) {
    columns.push_back({"sum " + measure.sum, Of::number, true});
    columns.push_back({"average", Of::number});
  }
  if (has_histogram) {
    const Of of = is_value ? Of::number : Of::duration;
    columns.push_back({is_value ? "sum" : "total", of, !is_value});
    for (const char* name : {"average", "p50", "p90", "p99", "p99.9", "longest"})
      columns.push_back({is_value && std::string_view(name) == "longest" ? "largest" : name, of});
    columns.push_back({is_value ? "values" : "durations", is_value ? Of::values : Of::durations});
  }
  columns.push_back({"not recorded", Of::lost});
  return {measure.title, std::move(columns)};
}

void HtmlFiguresRenderer::add_row(const Measure& measure, const Report& report, const Row& row,
                                  Table& table) {
  const auto [key, stack] = key_and_stack(row);
  const auto add_figure = [&](std::optional<double> figure) {
    if (figure)
      table.add(*figure);
    else
      table.add_nothing();
  };
  table.begin_row();
  table.add(point_text(row.name));
  table.add(row.name.object);
  table.add(name_of_process(report.process));
  if (measure.kind == placement::Kind::value) table.add(row.name.value);
  if (measure.has_key) table.add(key);
  if (measure.has_stack) table.add(stack);
  table.add(row.count());
  add_figure(report.seconds > 0 ? std::optional(static_cast<double>(row.count()) / report.seconds)
                                : std::nullopt);
  if (measure.has_sum) {
    add_figure(row.sum ? std::optional(sum_of(row)) : std::nullopt);
    add_figure(row.sum ? average_of(row) : std::nullopt);
  }
  if (!row.only_counts()) {
    // The sum of values below 0 is not known.
    const bool has_sum = row.negative() == 0;
    const double sum = row.histogram().sum();
    add_figure(has_sum ? std::optional(sum) : std::nullopt);
    add_figure(has_sum && row.count() != 0 ? std::optional(sum / static_cast<double>(row.count()))
                                           : std::nullopt);
    for (const double p : {0.5, 0.9, 0.99, 0.999}) {
      const auto value = row.count() == 0 ? std::nullopt : row.quantile(p);
      add_figure(value ? std::optional(static_cast<double>(*value)) : std::nullopt);
    }
    if (row.histogram().count() == 0)
      table.add_nothing();
    else
      table.add(row.histogram().maximum());
    table.add(row.histogram());
  }
  table.add(row.distribution ? row.distribution->losses.total() : uint64_t{0});
}

uint32_t HtmlFiguresRenderer::number_of(std::string_view name, std::string_view object) {
  const auto [known, is_new] = numbers_.try_emplace({std::string(name), std::string(object)}, 0);
  if (is_new) known->second = page().add_function(name, object);
  return known->second;
}

// Frames of one function are one, wherever in it they are.
void HtmlFiguresRenderer::add_stack(const Row& row, FlameGraph& stacks) {
  const auto frames = frames_of(row);
  uint32_t path = FlameGraph::kNoPath;
  for (size_t i = frames.size(); i-- > 0;)
    path = stacks.after(path, number_of(image::function_of_frame(frames[i]), ""));
  path = stacks.after(path, number_of(label_of(row.name), row.name.object));
  stacks.add(path, weight_of_stack(row), row.count());
}

void HtmlFiguresRenderer::add(const Report& report) {
  add_facts_of(report);
  if (report.rows.empty()) return;
  const auto [known, is_new] = measures_.try_emplace(report.measure);
  Measure& measure = known->second;
  if (is_new) {
    const auto any = [&](auto has) { return std::ranges::any_of(report.rows, has); };
    measure.title = title_of(report);
    measure.kind = report.kind;
    measure.has_stack = any([](const Row& row) { return has_stack(row); });
    measure.has_key = any([](const Row& row) { return !key_and_stack(row).first.empty(); });
    measure.has_sum = any([](const Row& row) { return row.sum.has_value(); });
    measure.key = report.rows.front().name.key;
    measure.sum = report.rows.front().name.sum;
    measure.tables.push_back(table_of(measure));
  }
  for (const Row& row : report.rows) {
    add_row(measure, report, row, measure.tables.front());
    if (has_stack(row) && row.count() != 0) add_stack(row, measure.stacks);
  }
}

void HtmlFiguresRenderer::fill_page() {
  for (auto& [number, measure] : measures_) {
    page().add(measure.tables.front());
    if (measure.stacks.empty()) continue;
    const bool times = measures_time(measure.kind) && !measure.has_sum;
    page().add(measure.stacks,
               measures_.size() == 1 ? "Flame graph" : "Flame graph of " + measure.title,
               times             ? "ns"
               : measure.has_sum ? measure.sum
                                 : "hits",
               "");
  }
}

}  // namespace pinprick::cli
