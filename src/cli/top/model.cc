#include "cli/top/model.h"

#include <algorithm>
#include <cctype>

#include "cli/render/renderer.h"
#include "cli/render/text_width.h"

namespace pinprick::cli::top {
namespace {

using Kind = Key::Kind;

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

Figures figures_of(const stats::Histogram& histogram, double seconds) {
  Figures figures;
  figures.calls = histogram.count();
  if (figures.calls == 0) return figures;
  const auto calls = static_cast<double>(figures.calls);
  figures.rate = seconds > 0 ? calls / seconds : 0;
  figures.total = histogram.sum();
  figures.mean = figures.total / calls;
  figures.p50 = static_cast<double>(histogram.quantile(0.5));
  figures.p99 = static_cast<double>(histogram.quantile(0.99));
  figures.maximum = static_cast<double>(histogram.maximum());
  return figures;
}

double figure_in(const Figures& figures, Column column) {
  switch (column) {
    case Column::rate:
      return figures.rate;
    case Column::mean:
      return figures.mean;
    case Column::p50:
      return figures.p50;
    case Column::p99:
      return figures.p99;
    case Column::maximum:
      return figures.maximum;
    case Column::share:
      return figures.total;
    case Column::pid:
    case Column::name:
      break;
  }
  return 0;
}

}  // namespace

Words Model::words() const {
  if (kind_ == RowKind::statistics) return {"statistic", "time", "TIMES/S", "STATISTIC"};
  if (has_spans_) return {"span", "span", "SPANS/S", "SPAN"};
  return {"function", "call", "CALLS/S", "FUNCTION"};
}

bool Model::is_row_of(size_t index, const session::Row& row) const {
  const Row& known = live_.rows[index];
  return known.object == row.name.object && known.name == label_of(row.name);
}

size_t Model::add_row(pid_t pid, const session::Row& row) {
  Row added;
  added.pid = pid;
  added.object = row.name.object;
  added.name = label_of(row.name);
  added.address = row.name.address;
  added.is_span = row.is_span();
  added.interval = added.whole = stats::Histogram(row.histogram().bits());
  has_spans_ |= row.is_span();
  live_.rows.push_back(std::move(added));
  return live_.rows.size() - 1;
}

// Reports have the same rows in the same order until the process loads or unloads something.
std::vector<size_t> Model::rows_of(const Report& report) {
  Known& known = known_[report.process.pid];
  bool is_same = known.in_order.size() == report.rows.size();
  for (size_t i = 0; is_same && i < report.rows.size(); ++i)
    is_same = is_row_of(known.in_order[i], report.rows[i]);
  if (is_same) return known.in_order;
  known.in_order.clear();
  std::map<Name, size_t> seen;
  for (const session::Row& row : report.rows) {
    const Name name(row.name.object, text_of(row.name) + std::string(row.name.condition),
                    row.name.address);
    const auto key = std::pair(name, seen[name]++);
    auto at = known.by_name.find(key);
    if (at == known.by_name.end())
      at = known.by_name.emplace(key, add_row(report.process.pid, row)).first;
    // Another function with its name may have been loaded.
    live_.rows[at->second].name = label_of(row.name);
    known.in_order.push_back(at->second);
  }
  return known.in_order;
}

void Model::update(const Report& report, double now_s) {
  Process& process = live_.processes[report.process.pid];
  process.name = report.process;
  process.interval_s = report.seconds;
  process.whole_s += report.seconds;
  live_.now_s = now_s;
  for (Row& row : live_.rows)
    if (row.pid == report.process.pid) {
      row.interval = stats::Histogram(row.interval.bits());
      row.self_interval_ns = 0;
    }
  const std::vector<size_t> indices = rows_of(report);
  for (size_t i = 0; i < indices.size(); ++i) {
    Row& row = live_.rows[indices[i]];
    const session::Row& recorded = report.rows[i];
    row.interval = recorded.histogram();
    // A statistic may have been made anew, with other steps.
    if (row.whole.bits() != recorded.histogram().bits())
      row.whole = stats::Histogram(recorded.histogram().bits());
    if (recorded.count() != 0) row.whole.merge(recorded.histogram());
    if (recorded.self_time) {
      has_self_times_ = true;
      row.self_interval_ns = recorded.self_time->sum();
      row.self_whole_ns += row.self_interval_ns;
    }
    row.losses += recorded.distribution->losses;
    if (recorded.absences)
      row.budget = recorded.absences->back().until_s ? Row::Budget::was_out : Row::Budget::is_out;
    else if (row.budget == Row::Budget::is_out)
      row.budget = Row::Budget::was_out;
    row.history.add(std::max(now_s - report.seconds, 0.0), now_s,
                    static_cast<double>(recorded.count()));
  }
}

// Statistics are known by their own names. Other owners may time the functions of the view, too,
// and may have seen an older call.
bool Model::is_call_of(const Row& row, const session::TimedCall& call) const {
  if (kind_ == RowKind::statistics) return call.statistic == row.name;
  return call.is_span == row.is_span && call.function.object == row.object &&
         (row.is_span ? call.function.function == row.name : call.function.address == row.address);
}

void Model::set_calls(pid_t pid, const std::vector<session::TimedCall>& calls) {
  for (Row& row : live_.rows) {
    if (row.pid != pid) continue;
    row.oldest_ns = 0;
    for (const session::TimedCall& call : calls)
      if (is_call_of(row, call)) row.oldest_ns = std::max(row.oldest_ns, call.age_ns);
  }
}

void Model::set_ended(pid_t pid) {
  live_.processes[pid].has_ended = true;
  // That is worth knowing on a frozen screen, too.
  if (frozen_) frozen_->processes[pid].has_ended = true;
}

void Model::settle() {
  if (frozen_) return;
  compute_figures();
  arrange();
}

void Model::compute_figures() {
  const Data& from = data();
  figures_.resize(from.rows.size());
  double total = 0;
  total_rate_ = 0;
  total_missed_ = called_rows_ = 0;
  for (size_t i = 0; i < from.rows.size(); ++i) {
    const Row& row = from.rows[i];
    const Process& process = from.processes.at(row.pid);
    const double seconds = period_ == Period::interval ? process.interval_s : process.whole_s;
    figures_[i] = figures_of(row.histogram(period_), seconds);
    if (has_self_times_) figures_[i].total = row.self_ns(period_);
    figures_[i].has_calls = figures_[i].calls != 0 || row.has_calls();
    total += figures_[i].total;
    total_rate_ += figures_[i].rate;
    total_missed_ += row.losses[layout::Loss::missed];
    if (figures_[i].has_calls) ++called_rows_;
  }
  for (Figures& figures : figures_) figures.share = total > 0 ? figures.total / total : 0;
}

bool Model::matches_filter(const Row& row) const {
  if (filter_.empty()) return true;
  const std::string wanted = lower(filter_);
  return lower(row.name).find(wanted) != std::string::npos ||
         lower(row.object).find(wanted) != std::string::npos;
}

// Rows with the same value are in the order of their names, so that they do not change places.
bool Model::comes_before(size_t a, size_t b) const {
  const Row &left = row(a), &right = row(b);
  const auto by_name = std::tie(left.name, left.object, left.pid, a) <
                       std::tie(right.name, right.object, right.pid, b);
  if (sort_column_ == Column::name) return by_name != is_reversed_;
  if (sort_column_ == Column::pid)
    return left.pid == right.pid ? by_name : (left.pid < right.pid) != is_reversed_;
  const double x = figure_in(figures_[a], sort_column_), y = figure_in(figures_[b], sort_column_);
  return x == y ? by_name : (x > y) != is_reversed_;
}

void Model::arrange() {
  shown_.clear();
  for (size_t i = 0; i < figures_.size(); ++i)
    if ((show_idle_ || figures_[i].has_calls) && matches_filter(row(i))) shown_.push_back(i);
  std::sort(shown_.begin(), shown_.end(), [&](size_t a, size_t b) { return comes_before(a, b); });
}

size_t Model::selected() const {
  if (!selected_) return 0;
  const auto at = std::find(shown_.begin(), shown_.end(), *selected_);
  return at == shown_.end() ? 0 : static_cast<size_t>(at - shown_.begin());
}

size_t Model::first_of_page(size_t rows) const {
  const size_t at = selected();
  const size_t last_first = shown_.size() > rows ? shown_.size() - rows : 0;
  return std::clamp(std::min(first_, last_first), at + 1 > rows ? at + 1 - rows : 0, at);
}

void Model::set_page(size_t rows) {
  page_ = std::max<size_t>(rows, 1);
  first_ = first_of_page(page_);
}

void Model::select(size_t position) {
  if (!shown_.empty()) selected_ = shown_[std::min(position, shown_.size() - 1)];
}

void Model::move(std::ptrdiff_t rows) {
  const auto at = static_cast<std::ptrdiff_t>(selected()) + rows;
  select(static_cast<size_t>(std::max<std::ptrdiff_t>(at, 0)));
}

void Model::set_period(Period period) {
  period_ = period;
  compute_figures();
  arrange();
}

void Model::sort_by(Column column) {
  is_reversed_ = column == sort_column_ && !is_reversed_;
  sort_column_ = column;
  arrange();
}

void Model::move_sort(bool right) {
  const bool has_pids = processes().size() > 1;
  const size_t first = has_pids ? 0 : 1;
  const auto at = static_cast<size_t>(sort_column_);
  const size_t next = right ? std::min(at + 1, kColumns - 1) : std::max(at, first + 1) - 1;
  if (next != at) sort_by(static_cast<Column>(next));
}

void Model::toggle_frozen() {
  if (frozen_) {
    frozen_.reset();
    settle();
  } else {
    frozen_ = live_;
  }
}

void Model::set_filter(std::string filter) {
  filter_ = std::move(filter);
  arrange();
}

void Model::edit_filter(Key key) {
  switch (key.kind) {
    case Kind::character:
      set_filter(filter_ + printable(utf8_of(key.character), true));
      return;
    case Kind::backspace: {
      std::string shorter = filter_;
      while (!shorter.empty() && (shorter.back() & 0xc0) == 0x80) shorter.pop_back();
      if (!shorter.empty()) shorter.pop_back();
      set_filter(std::move(shorter));
      return;
    }
    case Kind::escape:
      set_filter(filter_before_);
      [[fallthrough]];
    case Kind::enter:
      edits_filter_ = false;
      return;
    case Kind::control:
      if (key.character == U'u') set_filter("");
      return;
    default:
      return;
  }
}

Request Model::press_character(char32_t character) {
  switch (character) {
    case U'q':
      return Request::quit;
    case U'w':
      return Request::write;
    case U'c':
      sort_by(Column::rate);
      break;
    case U'm':
      sort_by(Column::mean);
      break;
    case U'5':
      sort_by(Column::p50);
      break;
    case U'9':
      sort_by(Column::p99);
      break;
    case U'x':
      sort_by(Column::maximum);
      break;
    case U't':
      sort_by(Column::share);
      break;
    case U'n':
      sort_by(Column::name);
      break;
    case U'p':
      sort_by(Column::pid);
      break;
    case U'r':
      is_reversed_ = !is_reversed_;
      arrange();
      break;
    case U'<':
    case U'>':
      move_sort(character == U'>');
      break;
    case U'i':
      set_period(period_ == Period::interval ? Period::whole : Period::interval);
      break;
    case U'a':
      show_idle_ = !show_idle_;
      arrange();
      break;
    case U'/':
      edits_filter_ = true;
      filter_before_ = filter_;
      break;
    case U' ':
      toggle_frozen();
      break;
    case U'j':
      move(1);
      break;
    case U'k':
      move(-1);
      break;
    case U'?':
    case U'h':
      shows_help_ = true;
      break;
    default:
      break;
  }
  return Request::none;
}

Request Model::press(Key key) {
  note_.clear();
  if (key == Key{Kind::control, U'l'}) return Request::redraw;
  if (shows_help_) {  // any key leaves it
    shows_help_ = false;
    return key == Key{Kind::character, U'q'} ? Request::quit : Request::none;
  }
  const auto page = static_cast<std::ptrdiff_t>(page_);
  switch (key.kind) {
    case Kind::up:
      move(-1);
      return Request::none;
    case Kind::down:
      move(1);
      return Request::none;
    case Kind::page_up:
      move(-page);
      return Request::none;
    case Kind::page_down:
      move(page);
      return Request::none;
    case Kind::home:  // whichever row comes first, from now on
      selected_.reset();
      return Request::none;
    case Kind::end:
      select(shown_.size());
      return Request::none;
    default:
      break;
  }
  if (edits_filter_) {
    edit_filter(key);
    return Request::none;
  }
  switch (key.kind) {
    case Kind::left:
    case Kind::right:
      move_sort(key.kind == Kind::right);
      return Request::none;
    case Kind::tab:
      return press_character(U'i');
    case Kind::enter:
      shows_histogram_ = !shows_histogram_;
      return Request::none;
    case Kind::escape:
      set_filter("");
      return Request::none;
    case Kind::help:
      shows_help_ = true;
      return Request::none;
    case Kind::character:
      return press_character(key.character);
    default:
      return Request::none;
  }
}

}  // namespace pinprick::cli::top
