// TextRenderer: what a report has, as tables and histograms, and what was lost.
#include <algorithm>
#include <bit>
#include <cmath>

#include "cli/render/budget_text.h"
#include "cli/render/count_columns.h"
#include "cli/render/density.h"
#include "cli/render/dump_text.h"
#include "cli/render/event_text.h"
#include "cli/render/text.h"
#include "cli/render/units.h"
#include "runtime/probe_cost.h"

namespace pinprick::cli {
namespace {

constexpr const char* kNegative = "<0";

using layout::Loss;

const char* words_for(Loss loss) {
  return layout::kLossWords[static_cast<size_t>(loss)].text;
}

// The rows to show, those with the most first. Pointers, as they are cheaper to sort than rows.
template <class F>
std::vector<const Row*> rows_to_show(const std::vector<Row>& rows, bool idle, F&& amount) {
  std::vector<std::pair<decltype(amount(rows[0])), const Row*>> order;
  for (const Row& row : rows)
    if (idle || row.has_calls()) order.emplace_back(amount(row), &row);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<const Row*> shown;
  shown.reserve(order.size());
  for (const auto& [value, row] : order) shown.push_back(row);
  return shown;
}

std::string rate_of(uint64_t events, double seconds) {
  return seconds > 0 ? rate(static_cast<double>(events) / seconds) : "-";
}

}  // namespace

void TextRenderer::heading(const ProcessName& process, double seconds, bool is_final) {
  if (several_)
    data_.print(
        "{}{}\n",
        data_.styled(process.pid == 0 ? process.command
                                      : fmt::format("{} ({})", process.pid, process.command),
                     kCyan),
        is_final ? fmt::format(", {:.1f} s in all", seconds) : "");
  else if (!is_final)
    data_.print("{}\n", data_.faint(fmt::format("the last {:.1f} s", seconds)));
}

bool TextRenderer::shows_idle(size_t functions) const {
  return all_ || functions <= kFew;
}

std::span<const Row* const> TextRenderer::top_of(const std::vector<const Row*>& shown) const {
  const std::span<const Row* const> all = shown;
  return top_ == 0 ? all : all.first(std::min(top_, all.size()));
}

// All hits have keys, or none, and sums or none: there is one --by, and one --sum.
void TextRenderer::count_table_with_columns(const std::vector<Row>& rows, size_t idle,
                                            double seconds) {
  const auto shown = rows_to_show(rows, shows_idle(rows.size() + idle), [this](const Row& row) {
    return rank_of(row, figures_of_sums_);
  });
  const auto top = top_of(shown);
  const auto line = [&](uint64_t hits, const std::string& columns, const Styled& what) {
    data_.print("{:>15} {:>10}  {}{}\n", with_commas(hits), rate_of(hits, seconds), columns, what);
  };
  std::string none;
  if (!top.empty()) {
    const CountColumns columns(top, figures_of_sums_);
    none = columns.none();
    data_.print("{:>15} {:>10}  {}{}\n", "hits", "per second", columns.heading(), rows_called());
    for (const Row* row : top) {
      line(row->hits, columns.of(*row), data_.bold(label_of(row->name)));
      stack_of(*row);
    }
  }
  uint64_t hits = 0;
  for (size_t i = top.size(); i < shown.size(); ++i) hits += shown[i]->hits;
  if (const size_t left_out = shown.size() - top.size(); left_out != 0)
    line(hits, none,
         data_.faint(plural(left_out, "other " + (top.front()->key ? "row" : rows_called()))));
  if (idle != 0)
    line(0, none, data_.faint(plural(idle, (top.empty() ? "" : "other ") + rows_called())));
}

void TextRenderer::count_table(const std::vector<Row>& rows, size_t idle, double seconds) {
  if (!rows.empty() && (rows.front().key || rows.front().sum))
    return count_table_with_columns(rows, idle, seconds);
  const size_t total = rows.size() + idle;
  const auto shown = rows_to_show(rows, shows_idle(total), [](const Row& row) { return row.hits; });
  const auto top = top_of(shown);
  const auto line = [&](uint64_t hits, const Styled& what) {
    data_.print("{:>15} {:>10}  {}\n", with_commas(hits), rate_of(hits, seconds), what);
  };
  if (!top.empty()) data_.print("{:>15} {:>10}  {}\n", "hits", "per second", rows_called());
  for (const Row* row : top) line(row->hits, data_.bold(label_of(row->name) + partial_mark(*row)));
  if (top.size() == total) return;
  const Styled others =
      data_.faint(plural(total - top.size(), (top.empty() ? "" : "other ") + rows_called()));
  uint64_t hits = 0;
  for (size_t i = top.size(); i < shown.size(); ++i) hits += shown[i]->hits;
  if (hits != 0)
    line(hits, others);
  else
    data_.print("{:>15} {:>10}  {}\n", "0", "", others);
}

// The rows are in order. At the end there is a line for each object, if there are several.
void TextRenderer::coverage_table(const Report& report) {
  const bool shows_all = report.is_final && shows_idle(report.coverage->all);
  std::map<std::string_view, session::Coverage> by_object;
  size_t width = 0;
  for (const Row& row : report.rows) {
    session::Coverage& of_object = by_object[row.name.object];
    ++of_object.all;
    if (row.has_calls()) ++of_object.executed;
    width = std::max(width, row.name.object.size());
  }
  for (const Row& row : report.rows) {
    if (!shows_all && !row.has_calls()) continue;
    const Styled how = row.has_calls() ? data_.styled("executed    ", kGreen)
                                       : data_.styled("not executed", kYellow);
    data_.print("{:>#12x}  {:<{}}  {} {}\n", row.name.address, row.name.object, width, how,
                data_.bold(label_of(row.name)));
  }
  const auto of = [&](const session::Coverage& coverage) {
    return fmt::format("{} of {}", with_commas(coverage.executed),
                       plural(coverage.all, rows_called()));
  };
  if (!report.is_final) {
    // Of how many is not said: what has been unloaded meanwhile is among these, and in no row.
    data_.print("{}\n",
                data_.faint(fmt::format("{} new, {} so far", with_commas(report.rows.size()),
                                        plural(report.coverage->executed, rows_called()))));
    return;
  }
  if (by_object.size() > 1)
    for (const auto& [object, coverage] : by_object)
      data_.print("{}: {} executed\n", object, of(coverage));
  data_.print("{} executed{}\n", of(*report.coverage),
              shows_all || report.coverage->executed == report.coverage->all
                  ? ""
                  : "; --idle shows the others");
}

void TextRenderer::draw_bars(const stats::Histogram& h, uint64_t negative,
                             std::string (*show)(double)) {
  std::map<unsigned, uint64_t> octaves;
  for (uint32_t slot = 0; slot < h.cells().size(); ++slot)
    if (h.cells()[slot].count != 0)
      octaves[stats::find_last_set(stats::slot_floor(slot, h.bits()))] += h.cells()[slot].count;
  uint64_t most = negative;
  for (const auto& [octave, count] : octaves) most = std::max(most, count);
  const int width = std::clamp(data_.columns() - 24, 20, 60);
  const auto line = [&](const std::string& label, uint64_t count) {
    const auto bar = static_cast<size_t>(
        std::lround(static_cast<double>(count) / static_cast<double>(most) * width));
    data_.print("{:>10} |{:<{}}{:>8}\n", label,
                std::string(std::max<size_t>(bar, count != 0 ? 1 : 0), '#'), width,
                percentage(static_cast<double>(count) / static_cast<double>(h.count() + negative)));
  };
  if (negative != 0) line(kNegative, negative);
  if (octaves.empty()) return;
  for (unsigned octave = octaves.begin()->first; octave <= octaves.rbegin()->first; ++octave) {
    const double floor = octave == 0 ? 0 : std::ldexp(1, static_cast<int>(octave) - 1);
    line(show(floor), octaves.contains(octave) ? octaves[octave] : 0);
  }
}

void TextRenderer::draw_times(const stats::Histogram& h) {
  draw_bars(h, 0, duration_ns);
  const auto quantile = [&](double p) { return duration_ns(static_cast<double>(h.quantile(p))); };
  data_.print("p50 {}  p90 {}  p99 {}  p99.9 {}  max {}  mean {}  n={}\n", quantile(0.5),
              quantile(0.9), quantile(0.99), quantile(0.999),
              duration_ns(static_cast<double>(h.maximum())),
              duration_ns(h.sum() / static_cast<double>(h.count())), with_commas(h.count()));
}

namespace {

std::string quantile_of(const Row& row, double p) {
  const auto value = row.quantile(p);
  return value ? magnitude(static_cast<double>(*value)) : kNegative;
}

double self_ns_of(const Row& row) {
  return row.self_time ? row.self_time->sum() : 0;
}

std::string largest_of(const Row& row) {
  return row.histogram().count() == 0 && row.negative() != 0
             ? kNegative
             : magnitude(static_cast<double>(row.histogram().maximum()));
}

}  // namespace

// The histogram counts negative values, but does not say how large they are.
void TextRenderer::draw_values(const Row& row) {
  const auto& h = row.histogram();
  draw_bars(h, row.negative(), magnitude);
  data_.print("p50 {}  p90 {}  p99 {}  p99.9 {}  max {}  {}n={}\n", quantile_of(row, 0.5),
              quantile_of(row, 0.9), quantile_of(row, 0.99), quantile_of(row, 0.999),
              largest_of(row),
              row.negative() != 0
                  ? ""
                  : fmt::format("mean {}  ", magnitude(h.sum() / static_cast<double>(h.count()))),
              with_commas(row.count()));
}

// Below the line of a row.
void TextRenderer::stack_of(const Row& row) {
  for (const std::string& frame : frames_of(row)) data_.print("{:17}{}\n", "", frame);
}

void TextRenderer::histogram(const Row& row, double seconds) {
  const auto& h = row.histogram();
  data_.print("{:<50} {:>10} {}/s\n", data_.bold(label_of(row) + partial_mark(row)),
              rate_of(h.count(), seconds), row.is_span() ? "spans" : "calls");
  stack_of(row);
  if (h.count() != 0)
    draw_times(h);
  else
    data_.print("{}\n", row.is_span()        ? "no span ended"
                        : row.name.at_return ? "no such call returned"
                                             : "no call returned");
  const auto line = [&](Loss loss, const char* more) {
    if (const uint64_t n = row.lost(loss); n != 0)
      data_.print("{} {}{}\n", words_for(loss), with_commas(n), more);
  };
  if (const uint64_t missed = row.lost(Loss::missed); missed != 0)
    data_.print("{}\n", data_.styled(fmt::format("missed {}: {}", with_commas(missed),
                                                 row.is_span() ? "too many threads, or no memory"
                                                               : "no slot was free, or no memory"),
                                     kYellow));
  line(Loss::repeated, ": the first one counts");
  line(Loss::unmatched, "");
  line(Loss::unwound, "");
  line(Loss::abandoned, "");
  line(Loss::ended, "");
  line(Loss::from_generated, ": not timed");
}

void TextRenderer::latency_table(std::span<const Row* const> rows, double seconds) {
  const bool is_span = !rows.empty() && rows.front()->is_span();
  data_.print("{:>12} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  {}\n", is_span ? "spans" : "calls",
              is_span ? "spans/s" : "calls/s", "p50", "p90", "p99", "max", "total",
              is_span ? "span" : "function");
  for (const Row* row : rows) {
    const auto& h = row->histogram();
    std::string lost;
    row->distribution->losses.for_each([&](const layout::LossWords& words, uint64_t n) {
      if (n != 0) lost += fmt::format(" ({} {})", words.text, with_commas(n));
    });
    data_.print("{:>12} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  {}{}\n", with_commas(h.count()),
                rate_of(h.count(), seconds), duration_ns(static_cast<double>(h.quantile(0.5))),
                duration_ns(static_cast<double>(h.quantile(0.9))),
                duration_ns(static_cast<double>(h.quantile(0.99))),
                duration_ns(static_cast<double>(h.maximum())), duration_ns(h.sum()),
                data_.bold(label_of(*row) + partial_mark(*row)), lost);
    stack_of(*row);
  }
}

// A function's own time is what counts here, so the figures of one call are few.
void TextRenderer::self_time_table(std::span<const Row* const> rows, double all_ns,
                                   double seconds) {
  data_.print("{:>12} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}  {}\n", "calls", "calls/s", "p50",
              "p99", "max", "total", "self", "self%", "function");
  for (const Row* row : rows) {
    const auto& h = row->histogram();
    const double self_ns = self_ns_of(*row);
    std::string lost;
    row->distribution->losses.for_each([&](const layout::LossWords& words, uint64_t n) {
      if (n != 0) lost += fmt::format(" ({} {})", words.text, with_commas(n));
    });
    data_.print("{:>12} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}  {}{}\n", with_commas(h.count()),
                rate_of(h.count(), seconds), duration_ns(static_cast<double>(h.quantile(0.5))),
                duration_ns(static_cast<double>(h.quantile(0.99))),
                duration_ns(static_cast<double>(h.maximum())), duration_ns(h.sum()),
                duration_ns(self_ns), all_ns > 0 ? percentage(self_ns / all_ns) : "-",
                data_.bold(label_of(*row) + partial_mark(*row)), lost);
    stack_of(*row);
  }
}

void TextRenderer::latency_reports(placement::Kind kind, const std::vector<Row>& rows, size_t idle,
                                   double seconds) {
  const size_t total = rows.size() + idle;
  const bool is_span = kind == placement::Kind::span;
  const std::string what = is_span ? "span" : rows_called();
  const bool has_self =
      std::ranges::any_of(rows, [](const Row& row) { return static_cast<bool>(row.self_time); });
  const auto shown = rows_to_show(rows, shows_idle(total), [&](const Row& row) {
    return has_self ? self_ns_of(row) : row.histogram().sum();
  });
  const auto top = top_of(shown);
  if (has_self) {
    double all_ns = 0;
    for (const Row& row : rows) all_ns += self_ns_of(row);
    self_time_table(top, all_ns, seconds);
  } else if (shown.size() > kFew) {
    latency_table(top, seconds);
  } else {
    for (const Row* row : top) histogram(*row, seconds);
  }
  if (top.size() < shown.size()) {
    uint64_t calls = 0;
    for (size_t i = top.size(); i < shown.size(); ++i) calls += shown[i]->count();
    data_.print("{}\n", data_.faint(fmt::format("{}, {}",
                                                plural(shown.size() - top.size(), "other " + what),
                                                plural(calls, is_span ? "span" : "call"))));
  }
  if (shown.size() < total)
    data_.print("{}\n", data_.faint(plural(total - shown.size(), what) +
                                    (is_span ? " without a hit" : " without a call")));
}

void TextRenderer::print_unread(const std::vector<Row>& rows) {
  if (const uint64_t unread = session::losses_of(rows)[Loss::unread]; unread != 0)
    data_.print("unread {}: what a pointer leads to could not be read\n", with_commas(unread));
}

void TextRenderer::last_line_of_spans(const layout::Losses& losses) {
  data_.print("missed {}  repeated starts {}  ends without a start {}\n",
              with_commas(losses[Loss::missed]), with_commas(losses[Loss::repeated]),
              with_commas(losses[Loss::unmatched]));
}

std::string TextRenderer::line_of_losses(const Report& report) {
  const layout::Losses losses = session::losses_of(report.rows);
  const auto if_any = [&](Loss loss) {
    return losses[loss] == 0 ? ""
                             : fmt::format("  {} {}", words_for(loss), with_commas(losses[loss]));
  };
  const auto cost = runtime::return_probe_cost();
  return fmt::format(
      "missed {}{}  left by exception {}  by longjmp {}{}{}{}\n", with_commas(losses[Loss::missed]),
      report.slots_to_ask_for == 0
          ? ""
          : fmt::format(" (--slots {} begins with more)", report.slots_to_ask_for),
      with_commas(losses[Loss::unwound]), with_commas(losses[Loss::abandoned]), if_any(Loss::ended),
      if_any(Loss::from_generated),
      cost ? fmt::format("  probe cost {:.0f} ns/call (measured on this machine)", *cost) : "");
}

std::string TextRenderer::line_of(const session::Event& event) const {
  return cli::text_of(event, data_.bold(event_name(event.name)).text) + "\n";
}

EventSpans::Event TextRenderer::part_of_span(const session::Event& event) const {
  return in_span(event, data_.bold(event_name(event.name)).text);
}

std::string TextRenderer::line_of_span(const EventSpans::Ended& span) const {
  return cli::line_of_span(span) + "\n";
}

void TextRenderer::begin_dump(const Dump& dump) {
  data_.print("{}\n", data_.bold(heading_of(dump)));
}

void TextRenderer::dumped(const Dump& dump) {
  data_.flush();
  notes_.print("{}\n", line_of_dump(dump));
}

CallTree::Event TextRenderer::part_of_tree(const session::Event& event) const {
  return in_tree(event, event_name(event.name));
}

// There may be no event at all, and many for which there was no room.
void TextRenderer::last_line_of_events(const Report& report) {
  uint64_t events = 0;
  for (const Row& row : report.rows) events += row.hits;
  const layout::Losses losses = session::losses_of(report.rows);
  std::string line =
      fmt::format("{} in {}", plural(events, "event"), duration_ns(report.seconds * 1e9));
  session::Sample sample;
  for (const Row& row : report.rows)
    if (row.sample) sample = {row.sample->every, sample.hits + row.sample->hits};
  if (sample.every > 1)
    line += fmt::format("; 1 of {} on each CPU, of {}", with_commas(sample.every),
                        plural(sample.hits, "hit"));
  if (std::ranges::any_of(report.rows, &Row::lacks_older_events))
    line += "; older ones were overwritten";
  const auto add = [&](Loss loss, const std::string& remedy) {
    if (losses[loss] == 0) return;
    line += fmt::format("; {} {}{}", words_for(loss), with_commas(losses[loss]), remedy);
  };
  // Those of rings that keep the newest ones were dropped as other threads held the rings.
  const bool keeps_newest = std::ranges::any_of(report.rows, &Row::lacks_older_events);
  add(Loss::dropped, keeps_newest ? "" : " (--buffer makes more room)");
  add(Loss::missed, report.slots_to_ask_for == 0
                        ? ""
                        : fmt::format(" (--slots {} begins with more)", report.slots_to_ask_for));
  for (const Loss loss :
       {Loss::unread, Loss::unwound, Loss::abandoned, Loss::ended, Loss::from_generated})
    add(loss, "");
  const auto& [repeated, unmatched, open] = span_figures_;
  if (!span_figures_.empty())
    line += fmt::format("; repeated starts {}  ends without a start {}  spans without an end {}",
                        with_commas(repeated), with_commas(unmatched), with_commas(open));
  notes_.print("{}\n", line);
}

void TextRenderer::value_table(std::span<const Row* const> rows, double seconds) {
  data_.print("{:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "hits", "hits/s", "p50", "p90",
              "p99", "max", "sum", "value");
  for (const Row* row : rows) {
    data_.print("{:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}{}\n", with_commas(row->count()),
                rate_of(row->count(), seconds), quantile_of(*row, 0.5), quantile_of(*row, 0.9),
                quantile_of(*row, 0.99), largest_of(*row),
                row->negative() != 0 ? "-" : magnitude(row->histogram().sum()),
                data_.bold(label_of(*row) + partial_mark(*row)),
                row->lost(Loss::missed) == 0
                    ? ""
                    : fmt::format(" (missed {})", with_commas(row->lost(Loss::missed))));
    stack_of(*row);
  }
}

void TextRenderer::value_reports(const std::vector<Row>& rows, size_t idle, double seconds) {
  const size_t total = rows.size() + idle;
  const auto shown =
      rows_to_show(rows, shows_idle(total), [](const Row& row) { return row.count(); });
  const auto top = top_of(shown);
  if (shown.size() > kFew) {
    value_table(top, seconds);
  } else {
    for (const Row* row : top) {
      data_.print("{:<50} {:>10} hits/s\n", data_.bold(label_of(*row) + partial_mark(*row)),
                  rate_of(row->count(), seconds));
      stack_of(*row);
      if (row->count() != 0)
        draw_values(*row);
      else
        data_.print("no hit\n");
      if (const uint64_t missed = row->lost(Loss::missed); missed != 0)
        data_.print("{}\n", data_.styled(fmt::format("missed {}: no memory", with_commas(missed)),
                                         kYellow));
    }
  }
  if (top.size() < shown.size())
    data_.print("{}\n", data_.faint(plural(shown.size() - top.size(), "other function")));
  if (shown.size() < total)
    data_.print("{}\n", data_.faint(plural(total - shown.size(), "function") + " without a hit"));
}

void TextRenderer::rows_of_kind(placement::Kind kind, const std::vector<Row>& rows, size_t idle,
                                double seconds) {
  switch (kind) {
    case placement::Kind::count:
      return count_table(rows, idle, seconds);
    case placement::Kind::latency:
    case placement::Kind::span:
      return latency_reports(kind, rows, idle, seconds);
    case placement::Kind::value:
      return value_reports(rows, idle, seconds);
    case placement::Kind::event:
      break;
  }
}

// The last report ends with a line that sums up the losses.
void TextRenderer::report(const Report& report) {
  if (report.kind == placement::Kind::event) {
    data_.flush();
    last_line_of_events(report);
    return;
  }
  if (report.measure == 0) heading(report.process, report.seconds, report.is_final);
  if (!report.name.empty()) data_.print("{}:\n", data_.styled(report.name, kCyan));
  if (report.coverage) {
    coverage_table(report);
    data_.flush();
    return;
  }
  rows_of_kind(report.kind, report.rows, report.idle, report.seconds);
  if (report.is_final && report.times_calls())
    data_.write(line_of_losses(report));
  else if (report.is_final && report.kind == placement::Kind::span)
    last_line_of_spans(session::losses_of(report.rows));
  else if (report.is_final && report.kind == placement::Kind::value)
    data_.print("missed {}\n", with_commas(session::losses_of(report.rows)[Loss::missed]));
  if (report.is_final) print_unread(report.rows);
  partial_rows(report);
  data_.flush();
}

}  // namespace pinprick::cli
