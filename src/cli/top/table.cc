#include "cli/top/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/render/text_width.h"
#include "cli/render/units.h"

namespace pinprick::cli::top {
namespace {

constexpr size_t kRateWidth = 8;
constexpr size_t kFigureWidth = 6;
constexpr size_t kFigures = 5;  // mean, p50, p99, max, share

std::string right(std::string_view text, size_t width) {
  return std::string(width - std::min(width, width_of(text)), ' ') + std::string(text);
}

std::string name_cell(const std::string& text, const TableLayout& layout) {
  const std::string clean = printable(text, layout.unicode);
  return " " + (layout.name == 0 ? clean : fitted(clean, layout.name, layout.unicode));
}

std::string marked_title(const Model& model, Column column, const char* title, bool unicode) {
  if (model.sort_column() != column) return title;
  const bool is_ascending =
      model.is_reversed() != (column == Column::name || column == Column::pid);
  const char* mark = is_ascending ? (unicode ? "▲" : "^") : (unicode ? "▼" : "v");
  return std::string(mark) + title;
}

std::string share_of(double share) {
  return share >= 0.9995 ? "100%" : percentage(share);
}

}  // namespace

TableLayout layout_of(const Model& model, std::optional<size_t> width, bool unicode) {
  TableLayout layout;
  layout.unicode = unicode;
  if (model.processes().size() > 1) {
    const size_t digits = fmt::format("{}", model.processes().rbegin()->first).size();
    layout.pid = std::max<size_t>(digits, 4) + 1;
  }
  constexpr size_t kNarrowHistory = 12;
  layout.history = !width          ? kNarrowHistory
                   : *width >= 220 ? History::kSeconds
                   : *width >= 130 ? History::kSeconds / 2
                   : *width >= 100 ? History::kSeconds / 3
                                   : kNarrowHistory;
  constexpr size_t kWideEnough = 99;  // on a screen of 100: the first column marks the selection
  if (width && *width >= kWideEnough) layout.oldest = 1 + kFigureWidth;
  const size_t before = layout.pid + kRateWidth + kFigures * (1 + kFigureWidth) + layout.oldest +
                        1 + layout.history + 1;
  if (width) layout.name = std::max<size_t>(*width - std::min(before, *width), 1);
  return layout;
}

std::vector<TableCell> heading(const Model& model, const TableLayout& layout) {
  std::vector<TableCell> cells;
  const auto add = [&](Column column, size_t width, const char* title) {
    const std::string text = marked_title(model, column, title, layout.unicode);
    cells.push_back({column, right(text, width)});
  };
  if (layout.pid != 0) add(Column::pid, layout.pid, "PID");
  add(Column::rate, kRateWidth, model.words().rate_title);
  add(Column::mean, 1 + kFigureWidth, "MEAN");
  add(Column::p50, 1 + kFigureWidth, "P50");
  add(Column::p99, 1 + kFigureWidth, "P99");
  add(Column::maximum, 1 + kFigureWidth, "MAX");
  add(Column::share, 1 + kFigureWidth, model.has_self_times() ? "SELF%" : "TIME%");
  if (layout.oldest != 0) cells.push_back({std::nullopt, right("OLDEST", layout.oldest)});
  if (layout.history != 0)
    cells.push_back({std::nullopt, " " + fitted("LAST MINUTE", layout.history, layout.unicode)});
  const std::string title =
      marked_title(model, Column::name, model.words().row_title, layout.unicode);
  cells.push_back({Column::name,
                   " " + (layout.name == 0 ? title : fitted(title, layout.name, layout.unicode))});
  return cells;
}

std::vector<TableCell> cells_of(const Model& model, size_t index, const TableLayout& layout) {
  const Row& row = model.row(index);
  const Figures& figures = model.figures(index);
  std::vector<TableCell> cells;
  if (layout.pid != 0)
    cells.push_back({Column::pid, right(fmt::format("{}", row.pid), layout.pid)});
  cells.push_back({Column::rate, right(rate(figures.rate), kRateWidth)});
  const auto add = [&](Column column, const std::string& text) {
    cells.push_back({column, right(figures.calls == 0 ? "-" : text, 1 + kFigureWidth)});
  };
  add(Column::mean, duration_ns(figures.mean));
  add(Column::p50, duration_ns(figures.p50));
  add(Column::p99, duration_ns(figures.p99));
  add(Column::maximum, duration_ns(figures.maximum));
  add(Column::share, share_of(figures.share));
  if (layout.oldest != 0)
    cells.push_back(
        {std::nullopt,
         right(row.oldest_ns == 0 ? "-" : duration_ns(static_cast<double>(row.oldest_ns)),
               layout.oldest)});
  if (layout.history != 0) {
    const auto rates = row.history.rates(layout.history, model.now_s());
    cells.push_back({std::nullopt, " " + sparkline(rates, layout.unicode), true});
  }
  const char* const mark = model.has_ended(row)                 ? "(ended) "
                           : row.budget == Row::Budget::is_out  ? "(out) "
                           : row.budget == Row::Budget::was_out ? "(partial) "
                                                                : "";
  cells.push_back({Column::name, name_cell(mark + row.name, layout)});
  return cells;
}

std::string text_of(const std::vector<TableCell>& cells) {
  std::string text;
  for (const TableCell& cell : cells) text += cell.text;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace pinprick::cli::top
