#include "cli/render/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "cli/measure/patterns.h"
#include "cli/render/count_columns.h"
#include "cli/render/event_text.h"

namespace pinprick::cli {
namespace {

using exports::csv_line;
using exports::CsvCell;

bool is_time(const Row& row) {
  return row.kind == placement::Kind::latency || row.kind == placement::Kind::span;
}

// A histogram has no sum of the values below 0: it only has their number.
bool has_sum(const Row& row) {
  return !row.only_counts() && row.negative() == 0;
}

CsvCell quantile_cell(const Row& row, double p) {
  if (row.only_counts() || row.count() == 0) return {};
  const auto value = row.quantile(p);
  return value ? CsvCell(*value) : CsvCell();
}

CsvCell kind_cell(const Report&, const Row& row) {
  return std::string(row.only_counts() ? "count" : is_time(row) ? "latency" : "hist");
}

CsvCell pid_cell(const Report& report, const Row&) {
  // A sum of many processes has no number.
  return report.process.pid == 0 ? CsvCell() : CsvCell(int64_t{report.process.pid});
}

CsvCell key_cell(const Report&, const Row& row) {
  if (!row.key) return {};
  std::string all;
  for (const std::string& one : key_texts(row)) all += (all.empty() ? "" : ", ") + one;
  return all;
}

CsvCell rate_cell(const Report& report, const Row& row) {
  if (report.seconds <= 0) return {};
  return static_cast<double>(row.count()) / report.seconds;
}

CsvCell number_cell(const Row& row, std::optional<uint64_t> bits) {
  if (!bits) return {};
  switch (order_of_sums(row.name)) {
    case layout::NumberOrder::real:
      return std::bit_cast<double>(*bits);
    case layout::NumberOrder::with_sign:
      return static_cast<int64_t>(*bits);
    case layout::NumberOrder::without_sign:
      break;
  }
  return *bits;
}

CsvCell added_cell(const Report&, const Row& row) {
  return number_cell(row, row.sum);
}
CsvCell least_cell(const Report&, const Row& row) {
  return number_cell(row, least_of(row));
}
CsvCell greatest_cell(const Report&, const Row& row) {
  return number_cell(row, greatest_of(row));
}

CsvCell sum_cell(const Report&, const Row& row) {
  return has_sum(row) ? CsvCell(row.histogram().sum()) : CsvCell();
}

CsvCell average_cell(const Report&, const Row& row) {
  if (!has_sum(row) || row.count() == 0) return {};
  return row.histogram().sum() / static_cast<double>(row.count());
}

CsvCell maximum_cell(const Report&, const Row& row) {
  if (row.only_counts() || row.histogram().count() == 0) return {};
  return row.histogram().maximum();
}

CsvCell lost_cell(const Report&, const Row& row) {
  return row.distribution ? row.distribution->losses.total() : uint64_t{0};
}

// Returns the time in the local time zone, in a form that spreadsheets know.
std::string date_and_time(uint64_t realtime_ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  std::tm day = {};
  const auto seconds = static_cast<time_t>(realtime_ns / kSecond);
  ::localtime_r(&seconds, &day);
  return fmt::format("{:04}-{:02}-{:02} {}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday,
                     time_of_day(realtime_ns));
}

CsvCell value_cell(const session::EventValue& value) {
  using Kind = session::EventValue::Kind;
  switch (value.kind) {
    case Kind::number:
      return value.number;
    case Kind::signed_number:
      return static_cast<int64_t>(value.number);
    case Kind::hexadecimal:
      return fmt::format("{:#x}", value.number);
    case Kind::error:
      return error_text(value.number);
    case Kind::words:
    case Kind::code:
      return std::string(value.words);
    case Kind::cut:
      return std::string(value.words) + "...";
    case Kind::floating:
      return std::bit_cast<double>(value.number);
    case Kind::character:
    case Kind::none:
    case Kind::members:
    case Kind::elements:
    case Kind::variant:
      return shown_value(value);
    case Kind::unread:
      return std::string("?");
    case Kind::other:
      return std::string("(no room)");
    case Kind::stack:
      break;
  }
  std::string frames;
  for (const std::string_view name : split_lines(value.words))
    frames = std::string(name) + (frames.empty() ? "" : ";") + frames;
  return frames;
}

std::string text_of_cell(const CsvCell& cell) {
  const std::string line =
      std::holds_alternative<std::string>(cell) ? std::get<std::string>(cell) : csv_line({cell});
  return line.ends_with('\n') ? line.substr(0, line.size() - 1) : line;
}

}  // namespace

FiguresCsvRenderer::FiguresCsvRenderer(TextRenderer text, const Options& options)
    : ExportRenderer(std::move(text), exports::Format::csv, options.output) {
  const bool is_measure = options.verb == "measure";
  const bool counts = options.verb == "count";
  const bool times = options.verb == "latency";
  const std::string unit = times ? "_ns" : "";
  const auto column = [&](std::string name, auto cell) {
    columns_.push_back({std::move(name), cell});
  };
  column("pid", pid_cell);
  column("command",
         [](const Report& report, const Row&) -> CsvCell { return report.process.command; });
  if (is_measure) {
    column("measure", [](const Report& report, const Row&) -> CsvCell { return report.name; });
    column("kind", kind_cell);
  }
  column("function", [](const Report&, const Row& row) -> CsvCell { return point_text(row.name); });
  column("object",
         [](const Report&, const Row& row) -> CsvCell { return std::string(row.name.object); });
  column("address", [](const Report&, const Row& row) -> CsvCell {
    return fmt::format("{:#x}", row.name.address);
  });
  if (!options.key.empty()) column(options.key, key_cell);
  if (!counts && !times)
    column("value",
           [](const Report&, const Row& row) -> CsvCell { return std::string(row.name.value); });
  const std::string count = counts ? "hits" : times ? "calls" : "count";
  column(count, [](const Report&, const Row& row) -> CsvCell { return row.count(); });
  column(count + "_per_second", rate_cell);
  if (!options.sum.empty()) column("sum " + options.sum, added_cell);
  if (options.figures_of_sums.least) column("min " + options.sum, least_cell);
  if (options.figures_of_sums.greatest) column("max " + options.sum, greatest_cell);
  column("not_recorded", lost_cell);
  if (!counts) {
    if (is_measure)
      column("unit", [](const Report&, const Row& row) -> CsvCell {
        return std::string(is_time(row) ? "ns" : "");
      });
    if (!times)
      column("negative", [](const Report&, const Row& row) -> CsvCell {
        return row.only_counts() ? CsvCell() : CsvCell(row.negative());
      });
    column("sum" + unit, sum_cell);
    column("average" + unit, average_cell);
    column("p50" + unit, [](const Report&, const Row& row) { return quantile_cell(row, 0.5); });
    column("p90" + unit, [](const Report&, const Row& row) { return quantile_cell(row, 0.9); });
    column("p99" + unit, [](const Report&, const Row& row) { return quantile_cell(row, 0.99); });
    column("p999" + unit, [](const Report&, const Row& row) { return quantile_cell(row, 0.999); });
    column("max" + unit, maximum_cell);
  }
  if (options.budget != 0)
    column("partial", [](const Report&, const Row& row) -> CsvCell {
      return std::string(row.absences ? "yes" : "no");
    });
  column("seconds", [](const Report& report, const Row&) -> CsvCell { return report.seconds; });
}

void FiguresCsvRenderer::write_heading() {
  if (std::exchange(has_heading_, true)) return;
  std::vector<CsvCell> names;
  for (const Column& one : columns_) names.emplace_back(one.name);
  data().write(csv_line(names));
}

void FiguresCsvRenderer::add(const Report& report) {
  write_heading();
  for (const Row& row : report.rows) {
    std::vector<CsvCell> cells;
    for (const Column& one : columns_) cells.push_back(one.cell(report, row));
    data().write(csv_line(cells));
  }
}

// Values with the names that the user gave have columns. Others are known when they come, as those
// of --args: they share the last one.
EventsCsvRenderer::EventsCsvRenderer(TextRenderer text, const Options& options)
    : ExportRenderer(std::move(text), exports::Format::csv, options.output) {
  const auto selection = parse_patterns(options);
  if (!selection) return;  // the verb says what is wrong
  for (const action::Action& action : selection->actions.all())
    for (const action::Field& field : action.fields) {
      if (field.shown == action::Field::Shown::not_at_all) continue;
      if (field.words && !field.words->has_value) continue;
      if (action.at_return && &field == &action.fields.back()) continue;  // the duration
      const session::EventValue value = {.name = field.name, .text = field.value.text};
      const std::string name(name_of(value));
      if (std::ranges::find(values_, name) == values_.end()) values_.push_back(name);
    }
}

void EventsCsvRenderer::write_heading() {
  if (std::exchange(has_heading_, true)) return;
  std::vector<CsvCell> names = {std::string("time"),     std::string("pid"),
                                std::string("tid"),      std::string("command"),
                                std::string("function"), std::string("duration_ns")};
  for (const std::string& name : values_) names.emplace_back(name);
  names.emplace_back(std::string("text"));
  names.emplace_back(std::string("other_values"));
  data().write(csv_line(names));
}

void EventsCsvRenderer::event_lines(const std::string& lines) {
  write_heading();
  data().write(lines);
}

EventsCsvRenderer::Cells EventsCsvRenderer::value_cells(const session::Event& event) const {
  Cells cells(values_.size());
  std::string others;
  for (const session::EventValue& one : event.values) {
    if (one.format != nullptr && !one.format->has_value) continue;
    const std::string_view name = name_of(one);
    const auto column = std::ranges::find(values_, name);
    const auto at = static_cast<size_t>(column - values_.begin());
    if (column != values_.end() && std::holds_alternative<std::monostate>(cells[at]))
      cells[at] = value_cell(one);
    else
      others +=
          fmt::format("{}{}={}", others.empty() ? "" : "; ", name, text_of_cell(value_cell(one)));
  }
  cells.emplace_back(in_words(event).value_or(std::string()));
  cells.emplace_back(std::move(others));
  return cells;
}

std::string EventsCsvRenderer::line_of(const session::Event& event) const {
  const bool returns = event.latency_ns.has_value();
  Cells cells = {date_and_time(event.time_ns),
                 int64_t{event.process.pid},
                 event.tid == 0 ? CsvCell() : CsvCell(int64_t{event.tid}),
                 std::string(event.command),
                 event_name(event.name),
                 returns ? CsvCell(*event.latency_ns) : CsvCell()};
  for (CsvCell& one : value_cells(event)) cells.push_back(std::move(one));
  return csv_line(cells);
}

// A span's line has the time and the thread of its end, and the values of its start.
EventSpans::Event EventsCsvRenderer::part_of_span(const session::Event& event) const {
  std::string text = csv_line(value_cells(event));
  if (!event.span_part->is_start)
    text = csv_line({date_and_time(event.time_ns), int64_t{event.process.pid},
                     event.tid == 0 ? CsvCell() : CsvCell(int64_t{event.tid}),
                     std::string(event.command)});
  text.pop_back();  // the newline
  return {.thread = identity_of_thread(event),
          .span = event.span_part->span,
          .is_start = event.span_part->is_start,
          .time_ns = event.time_ns,
          .name = event_name(event.name),
          .text = std::move(text),
          .is_named = !event.name.event.empty()};
}

std::string EventsCsvRenderer::line_of_span(const EventSpans::Ended& span) const {
  std::string middle = csv_line({span.name(), span.latency_ns()});
  middle.pop_back();
  return span.end.text + "," + middle + "," + span.start.text + "\n";
}

}  // namespace pinprick::cli
