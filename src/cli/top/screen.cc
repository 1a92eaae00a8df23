#include "cli/top/screen.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/render/density.h"
#include "cli/render/text_width.h"
#include "cli/render/units.h"
#include "cli/top/table.h"

namespace pinprick::cli::top {
namespace {

constexpr size_t kHeaderLines = 2;
constexpr size_t kFrameLines = kHeaderLines + 2;  // with the heading and the last line
constexpr size_t kHistogramHeads = 2;

// How many lines of bars the selected row's histogram has: a third of the screen, and what a short
// table leaves.
size_t bars_on(const Model& model, ScreenSize size) {
  constexpr size_t kMost = 20;
  const size_t third = std::clamp<size_t>((size.height - 6) / 3, 6, kMost);
  const size_t others = kFrameLines + kHistogramHeads + model.shown().size() + 1;
  const size_t spare = size.height > others ? size.height - others : 0;
  return std::min(std::max(third, spare), kMost);
}

size_t histogram_lines(const Model& model, ScreenSize size) {
  return model.shows_histogram() ? kHistogramHeads + bars_on(model, size) : 0;
}

std::string clock_of(double seconds) {
  const auto all = static_cast<uint64_t>(seconds);
  return fmt::format("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60);
}

class Drawing {
 public:
  Drawing(const Model& model, ScreenSize size, bool unicode)
      : model_(model), size_(size), unicode_(unicode) {}

  std::vector<Line> draw();

 private:
  // Adds the pieces of a line, as far as they fit.
  void add(Line line);
  void add(const std::string& text, Style style = Style::plain) { add(Line{{text, style}}); }

  void draw_header();
  void draw_table();
  void draw_histogram();
  void draw_help();
  Line last_line() const;
  std::string why_empty() const;
  std::string process_text() const;
  std::string ended_text() const;
  std::string title_of(const Row& row) const;
  std::string figures_text(const stats::Histogram& histogram, const layout::Losses& losses) const;

  const Model& model_;
  ScreenSize size_;
  bool unicode_;
  std::vector<Line> lines_;
};

void Drawing::add(Line line) {
  size_t room = size_.width;
  Line fitting;
  for (Piece& piece : line) {
    const size_t width = width_of(piece.text);
    if (width > room) piece.text = shortened(piece.text, room, unicode_);
    room -= std::min(width, room);
    if (!piece.text.empty()) fitting.push_back(std::move(piece));
  }
  lines_.push_back(std::move(fitting));
}

std::string Drawing::process_text() const {
  const auto& processes = model_.processes();
  if (processes.size() != 1) return fmt::format("{} processes", processes.size());
  const session::ProcessName& name = processes.begin()->second.name;
  return fmt::format("{} ({})", name.pid, printable(name.command, unicode_));
}

void Drawing::draw_header() {
  const std::string left = "pinprick top  ";
  const std::string middle = fmt::format("{}  {}, {} called", process_text(),
                                         plural(model_.row_count(), model_.words().row),
                                         with_commas(model_.called_rows()));
  const std::string right = clock_of(model_.now_s());
  const size_t used = width_of(left) + width_of(right) + 1;
  const size_t room = size_.width - std::min(used, size_.width);
  add({{left, Style::bold}, {fitted(middle, room, unicode_) + " "}, {right}});

  Line state;
  double interval = 0;
  for (const auto& [pid, process] : model_.processes())
    interval = std::max(interval, process.interval_s);
  state.push_back(
      {fmt::format("{}: {} {}s/s",
                   model_.period() == Period::interval ? fmt::format("the last {:.1f} s", interval)
                                                       : "the whole time",
                   rate(model_.total_rate()), model_.words().event)});
  if (!model_.filter().empty())
    state.push_back({"  filter: " + printable(model_.filter(), unicode_), Style::bold});
  if (model_.is_frozen()) state.push_back({"  FROZEN (space goes on)", Style::warning});
  if (model_.total_missed() != 0)
    state.push_back({"  missed " + with_commas(model_.total_missed()), Style::warning});
  add(std::move(state));
}

std::string Drawing::why_empty() const {
  const Words words = model_.words();
  if (!model_.filter().empty())
    return fmt::format("no {} with a {} matches the filter; Esc clears it", words.row, words.event);
  return model_.shows_idle() ? fmt::format("no {}s", words.row)
                             : fmt::format("no {} yet; `a` shows {}s without a {}, too",
                                           words.event, words.row, words.event);
}

void Drawing::draw_table() {
  constexpr size_t kMark = 1;
  const TableLayout layout = layout_of(model_, size_.width - kMark, unicode_);
  Line title = {{std::string(kMark, ' '), Style::heading}};
  for (const TableCell& cell : heading(model_, layout)) {
    const bool is_sorted = cell.column == model_.sort_column();
    title.push_back({cell.text, is_sorted ? Style::sorted : Style::heading});
  }
  add(std::move(title));
  const size_t rows = rows_on(model_, size_);
  const size_t selected = model_.selected();
  const size_t first = model_.first_of_page(rows);
  const size_t end = std::min(first + rows, model_.shown().size());
  for (size_t position = first; position < end; ++position) {
    const size_t index = model_.shown()[position];
    const std::vector<TableCell> cells = cells_of(model_, index, layout);
    if (position == selected) {
      add(fitted(">" + text_of(cells), size_.width, unicode_), Style::selected);
      continue;
    }
    const bool is_faint = model_.has_ended(model_.row(index)) || model_.figures(index).calls == 0;
    Line line = {{std::string(kMark, ' ')}};
    for (const TableCell& cell : cells)
      line.push_back({cell.text, is_faint                      ? Style::faint
                                 : cell.is_bars                ? Style::bar
                                 : cell.column == Column::name ? Style::bold
                                                               : Style::plain});
    add(std::move(line));
  }
  if (model_.shown().empty()) add("  " + why_empty(), Style::faint);
}

std::string Drawing::figures_text(const stats::Histogram& h, const layout::Losses& losses) const {
  const auto time = [&](double p) { return duration_ns(static_cast<double>(h.quantile(p))); };
  std::string text = h.count() == 0
                         ? "no call"
                         : fmt::format("n={}  p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
                                       with_commas(h.count()), time(0.5), time(0.9), time(0.99),
                                       time(0.999), duration_ns(static_cast<double>(h.maximum())));
  losses.for_each([&](const layout::LossWords& words, uint64_t calls) {
    if (calls != 0) text += fmt::format("  {} {}", words.text, with_commas(calls));
  });
  return text;
}

// Functions without a symbol have the object in their names.
std::string Drawing::title_of(const Row& row) const {
  const std::string pid =
      model_.processes().size() > 1 ? fmt::format("{} ", row.pid) : std::string();
  const bool has_object = row.object.empty() || row.name.starts_with(row.object + "+");
  return pid + printable(has_object ? row.name : row.object + ":" + row.name, unicode_);
}

void Drawing::draw_histogram() {
  const size_t end = lines_.size() + histogram_lines(model_, size_);
  if (!model_.shown().empty()) {
    const Row& row = model_.row(model_.shown()[model_.selected()]);
    const std::string what = "bars: calls per ns";
    const size_t room = size_.width - width_of(what) - 1;
    add({{fitted(title_of(row), room, unicode_) + " ", Style::bold}, {what, Style::faint}});
    const stats::Histogram& histogram = row.histogram(model_.period());
    add(figures_text(histogram, row.losses));
    constexpr size_t kAroundBars = 20;
    DensityStyle style;
    style.lines = bars_on(model_, size_);
    style.width = size_.width - kAroundBars;
    style.unicode = unicode_;
    for (const DensityLine& line : density_lines(histogram, style)) {
      const std::string gap(style.width - std::min(style.width, line.bar_width), ' ');
      add({{fmt::format("{:>10} |", line.label)},
           {line.bar, Style::bar},
           {gap + fmt::format("{:>8}", line.percentage)}});
    }
  }
  while (lines_.size() < end) add("");
}

void Drawing::draw_help() {
  static constexpr const char* kHelp[] = {
      "Keys",
      "  up down j k PgUp PgDn End   move the selection; Home: always the first row",
      "  c m 5 9 x t n p             order by CALLS/S MEAN P50 P99 MAX TIME% name PID;",
      "                              the same key again reverses it, and so does r",
      "  < > left right              order by the column beside",
      "  i Tab                       figures of the last interval, or of the whole time",
      "  a                           show functions that were not called yet, too",
      "  /                           filter by a part of the name; Esc clears it",
      "  Enter                       hide or show the histogram of the selected row",
      "  space                       freeze the screen; the probes go on recording",
      "  w                           write what is seen to pinprick-top-TIME.txt",
      "  ^L                          draw the screen anew",
      "  ^Z                          suspend; the probes stay in until `fg`, and go on",
      "  q ^C                        take the probes out, and end",
      "",
      "TIME%: a row's part of the time of all rows. The time of a function includes",
      "that of the functions that it calls. LAST MINUTE: calls per second, in relation",
      "to the most of the row. Bars of the histogram: calls per nanosecond, so times",
      "that are equally frequent have equal bars. Its percentages are of the calls.",
      "OLDEST, on wide screens: for how long the oldest call in flight has lasted.",
      "",
      "Any key leaves this page.",
  };
  for (const char* line : kHelp) add(line, line == kHelp[0] ? Style::bold : Style::plain);
}

std::string Drawing::ended_text() const {
  std::vector<std::string> ended;
  for (const auto& [pid, process] : model_.processes())
    if (process.has_ended)
      ended.push_back(fmt::format("{} ({})", pid, printable(process.name.command, unicode_)));
  if (ended.empty()) return "";
  const bool is_one = ended.size() == 1;
  const std::string all =
      fmt::format("{} {} ended", fmt::join(ended, ", "), is_one ? "has" : "have");
  return ended.size() == model_.processes().size() ? all + "; q ends pinprick" : all;
}

Line Drawing::last_line() const {
  if (model_.edits_filter())
    return {{"filter: " + printable(model_.filter(), unicode_) + "_", Style::bold},
            {"   Enter keeps it, Esc drops it", Style::faint}};
  if (!model_.note().empty()) return {{printable(model_.note(), unicode_), Style::warning}};
  if (const std::string ended = ended_text(); !ended.empty()) return {{ended, Style::warning}};
  return {{"q end  ? help  / filter  < > order  i interval/whole  space freeze  w write",
           Style::faint}};
}

std::vector<Line> Drawing::draw() {
  if (size_.width < kSmallestScreen.width || size_.height < kSmallestScreen.height) {
    add(fmt::format("pinprick top needs {}x{}, this is {}x{}", kSmallestScreen.width,
                    kSmallestScreen.height, size_.width, size_.height));
  } else if (model_.shows_help()) {
    draw_help();
  } else {
    draw_header();
    draw_table();
    while (lines_.size() < kHeaderLines + 1 + rows_on(model_, size_)) add("");
    if (model_.shows_histogram()) draw_histogram();
    add(last_line());
  }
  lines_.resize(size_.height);
  return std::move(lines_);
}

}  // namespace

std::string text_of(const Line& line) {
  std::string text;
  for (const Piece& piece : line) text += piece.text;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

size_t rows_on(const Model& model, ScreenSize size) {
  const size_t others = kFrameLines + histogram_lines(model, size);
  return size.height > others ? size.height - others : 1;
}

std::vector<Line> draw(const Model& model, ScreenSize size, bool unicode) {
  return Drawing(model, size, unicode).draw();
}

}  // namespace pinprick::cli::top
