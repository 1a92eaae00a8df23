#include "cli/render/text.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "cli/render/budget_text.h"
#include "cli/render/comparison_text.h"
#include "cli/render/count_columns.h"
#include "cli/render/density.h"
#include "cli/render/dump_text.h"
#include "cli/render/event_text.h"
#include "cli/render/prototype_text.h"
#include "cli/render/units.h"
#include "cli/verbs/session_statistics.h"
#include "engine/plan/trapping.h"
#include "runtime/probe_cost.h"

namespace pinprick::cli {
namespace {

// With more functions than this, reasons are summed up, rows without a hit are left out, and times
// are shown as a table instead of histograms.
constexpr size_t kFew = 10;

constexpr const char* kNegative = "<0";

using layout::Loss;

const char* words_for(Loss loss) {
  return layout::kLossWords[static_cast<size_t>(loss)].text;
}

constexpr auto kRed = fmt::fg(fmt::terminal_color::red);
constexpr auto kYellow = fmt::fg(fmt::terminal_color::yellow);
constexpr auto kGreen = fmt::fg(fmt::terminal_color::green);
constexpr auto kCyan = fmt::fg(fmt::terminal_color::cyan);

std::string_view remedy(plan::Reason reason) {
  switch (reason) {
    case plan::Reason::thread_inside:
    case plan::Reason::text_changed:
      return "; try again";
    case plan::Reason::unresolved_ifunc:
      return "; try again once the program has called it";
    case plan::Reason::not_called:
    case plan::Reason::entered_again:
    case plan::Reason::reads_return_address:
    case plan::Reason::returns_otherwise:
    case plan::Reason::unresolved_import:
    case plan::Reason::runtime_reads_stack:
    case plan::Reason::stack_moves:
    case plan::Reason::exits_unknown:
    case plan::Reason::exits_without_room:
      return "; `count` can probe it";
    case plan::Reason::no_such_argument:
    case plan::Reason::argument_no_integer:
    case plan::Reason::argument_elsewhere:
    case plan::Reason::arguments_unknown:
    case plan::Reason::unknown_name:
      return "; `pinprick list --args --vars` shows what it has";
    case plan::Reason::may_be_unwound:
      return "; `count` can probe it, --ends=exits or --force times it";
    case plan::Reason::needs_slot:
      return "; see --ends";
    default:
      return "";
  }
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

}  // namespace

void TextRenderer::error(const Message& message) {
  notes_.print("pinprick: {}\n", notes_.styled(message.text, kRed));
  for (const std::string& line : message.place) notes_.print("  {}\n", line);
}

void TextRenderer::comparison(const compare::Comparison& comparison) {
  print_comparison(data_, comparison, all_, top_);
}

void TextRenderer::warning(const std::string& text) {
  notes_.print("pinprick: {} {}\n", notes_.styled("warning:", kYellow), text);
}

// Prints "armed 3 of 4 functions in 18 ms", and which functions were skipped, and why.
void TextRenderer::arming(const std::string& verb, const ProcessName& process,
                          const engine::ArmReport& report, uint64_t elapsed_ns,
                          const std::string& end) {
  const size_t wanted = report.armed + report.skipped.size();
  const std::string functions =
      report.skipped.empty()
          ? plural(report.armed, probed_)
          : fmt::format("{} of {}", with_commas(report.armed), plural(wanted, probed_));
  notes_.print("{} {}{} in {}, target stopped for {}{}\n", verb, functions,
               several_ ? fmt::format(" of {} ({})", process.pid, process.command) : "",
               duration_ns(static_cast<double>(elapsed_ns)),
               duration_ns(static_cast<double>(report.stopped_ns)), end);
  if (report.trapped != 0)
    notes_.print("  {} of them by breakpoints of the kernel\n", with_commas(report.trapped));
  print_skipped(report.skipped, report.trap_would_help);
}

void TextRenderer::print_skipped(const std::vector<placement::Skipped>& all, bool trap_would_help) {
  const auto remedy_of = [&](plan::Reason reason) {
    return trap_would_help && plan::leaves_room_for_breakpoint(reason)
               ? "; --trap would use a breakpoint"
               : remedy(reason);
  };
  if (all.size() <= kFew) {
    for (const auto& skipped : all)
      notes_.print("  skipped {}: {}{}\n",
                   notes_.bold(skipped.match.shares_name ? image::name_by_address(skipped.match)
                                                         : skipped.match.name()),
                   plan::sentence(skipped.refusal),
                   engine::may_be_trapped(skipped) ? remedy_of(skipped.refusal.reason)
                                                   : remedy(skipped.refusal.reason));
  } else {
    std::map<std::pair<plan::Reason, std::string_view>, size_t> by_reason;
    for (const auto& skipped : all) ++by_reason[{skipped.refusal.reason, skipped.refusal.runtime}];
    for (const auto& [why, count] : by_reason)
      notes_.print("  skipped {}: {}{}\n", plural(count, probed_),
                   plan::sentence(plan::Refusal{why.first, 0, why.second}), remedy_of(why.first));
  }
}

void TextRenderer::armed(const ProcessName& process, const engine::ArmReport& report,
                         uint64_t elapsed_ns, bool until_interrupt) {
  arming("armed", process, report, elapsed_ns, until_interrupt ? "; Ctrl-C to stop" : "");
}

void TextRenderer::files_armed(const FilesFigures& figures, bool until_interrupt) {
  notes_.print("armed {} in {} that {} {} mapped, in {}; {}{}\n",
               plural(figures.functions, probed_), plural(figures.present, "process", "processes"),
               figures.present == 1 ? "has" : "have",
               fmt::format("{}", fmt::join(figures.files, " or ")),
               duration_ns(static_cast<double>(figures.elapsed_ns)),
               figures.why_not_followed.empty()
                   ? fmt::format("from now on, all that execute it are measured from their start{}",
                                 figures.by_loader ? ", when their loader opens the C library" : "")
                   : "new ones are not followed: " + figures.why_not_followed,
               until_interrupt ? "; Ctrl-C to stop" : "");
}

void TextRenderer::files_detached(const FilesFigures& figures, const engine::DisarmReport& report) {
  if (report.foreign != 0)
    warning(fmt::format("{} overwritten by another tool, and not probed since",
                        plural(report.foreign, "site")));
  if (figures.late != 0)
    warning(fmt::format("{} had run some code before the probes were in",
                        plural(figures.late, "process", "processes")));
  if (report.forked_left != 0)
    warning(
        fmt::format("{} with probes by a fork keep{} them, since {} cannot be stopped or changed",
                    plural(report.forked_left, "process", "processes"),
                    report.forked_left == 1 ? "s" : "", report.forked_left == 1 ? "it" : "they"));
  for (const auto& [cause, count] : figures.left_alone)
    notes_.print("left alone: {} ({})\n", plural(count, "process", "processes"), cause);
  notes_.print(
      "measured {}, {} of them from their start; detached{}\n",
      plural(figures.processes, "process", "processes"),
      // A process that loads a library several times was caught each time.
      with_commas(
          std::min(figures.caught - std::min(figures.caught, figures.late), figures.processes)),
      report.memory_left ? "; some memory stays mapped: `pinprick detach --all` tries again" : "");
}

void TextRenderer::loaded(const ProcessName& process, const std::vector<std::string>& objects,
                          const engine::ArmReport& report, uint64_t elapsed_ns) {
  arming(fmt::format("{} loaded: armed", fmt::join(objects, ", ")), process, report, elapsed_ns,
         "");
}

void TextRenderer::unloaded(const ProcessName& process, const std::vector<std::string>& objects) {
  notes_.print("{} unloaded{}\n", fmt::format("{}", fmt::join(objects, ", ")),
               several_ ? fmt::format(" by {} ({})", process.pid, process.command) : "");
}

void TextRenderer::silenced(size_t calls) {
  notes_.print("silenced {} of mcount and __fentry__\n", plural(calls, "call"));
}

void TextRenderer::executed(const ProcessName& process) {
  notes_.print("{} runs {} now\n", process.pid, process.command);
}

void TextRenderer::kept(pid_t pid, size_t probes, double seconds) {
  const std::string end =
      seconds > 0 ? fmt::format("for {}", duration_ns(seconds * 1e9)) : "until Ctrl-C";
  notes_.print("keeping {} in process {}, {}; `pinprick status` shows what they record\n",
               plural(probes, "probe"), pid, end);
}

void TextRenderer::mounted(const std::string& folder) {
  notes_.print("mounted at {}, until Ctrl-C\n", folder);
}

void TextRenderer::serving(const http::Address& address, const std::string& path) {
  if (const auto url = http::url_of(address, path))
    notes_.print("serving {} until Ctrl-C\n", *url);
  else
    notes_.print("serving {} at {} until Ctrl-C\n", path, http::to_text(address));
}

namespace {

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

void TextRenderer::detached(const ProcessName& process, const engine::DisarmReport& report) {
  const std::string who =
      several_ ? fmt::format("{} ({}): ", process.pid, process.command) : std::string();
  if (report.forked_left != 0)
    warning(fmt::format(
        "{}{} that it has forked keep{} the probes, since {} cannot be stopped or changed", who,
        plural(report.forked_left, "process", "processes"), report.forked_left == 1 ? "s" : "",
        report.forked_left == 1 ? "it" : "they"));
  const std::string forked = report.forked == 0
                                 ? ""
                                 : fmt::format("; detached from {} that it had forked, too",
                                               plural(report.forked, "process", "processes"));
  if (report.target_gone) {
    notes_.print("{}{}{}\n", who,
                 report.replaced ? "the process runs another program now" : "the program has ended",
                 forked);
    return;
  }
  if (report.foreign != 0)
    warning(fmt::format("{}{} overwritten by another tool, and not probed since", who,
                        plural(report.foreign, "site")));
  const std::string unmeasured =
      report.released == 0
          ? ""
          : fmt::format("; {} in flight went unmeasured", plural(report.released, "call"));
  std::string kept;
  const auto kilobytes = [](uint64_t bytes) { return with_commas(bytes >> 10); };
  if (report.kept_stub_bytes != 0)
    kept = fmt::format(
        "; {} KB of stubs stay mapped, as the program generates code that may have copied their "
        "address",
        kilobytes(report.kept_stub_bytes));
  if (report.kept_slot_bytes != 0)
    kept += fmt::format(
        "; {} KB stay mapped for {} that have not returned and are on no stack (longjmp?)",
        kilobytes(report.kept_slot_bytes), plural(report.calls_abandoned, "measured call"));
  if (!report.memory_left) {
    const bool is_clean = kept.empty() && report.foreign == 0;
    notes_.print("{}detached{}{}{}{}\n", who, is_clean ? " cleanly" : "", unmeasured, kept, forked);
    return;
  }
  std::string why;
  if (report.threads_inside != 0)
    why = fmt::format("{} inside a stub", plural(report.threads_inside, "thread"));
  if (report.calls_abandoned != 0)
    why += fmt::format("{}{} not returned and on no stack (longjmp?)", why.empty() ? "" : ", ",
                       plural(report.calls_abandoned, "measured call"));
  if (report.foreign_held != 0)
    why += fmt::format("{}what another tool wrote over {} may lead there", why.empty() ? "" : ", ",
                       plural(report.foreign_held, "site"));
  if (report.is_filtered)
    why = "its seccomp filter or its handling of system calls forbids unmapping it";
  if (why.empty()) why = "in a process that it had forked";
  notes_.print("{}detached{}; some memory {}: {}; `pinprick detach -p {}` tries again{}\n", who,
               unmeasured, report.hooks_left ? "and hooks stay in place" : "stays mapped", why,
               process.pid, forked);
}

void TextRenderer::print_debug_information(const ListRow& row) {
  constexpr std::string_view kNone = "    no debug information has ";
  size_t type_width = 0, name_width = 0;
  if (row.variables)
    for (const ListRow::Variable& one : *row.variables) {
      type_width = std::max(type_width, one.type.size());
      name_width = std::max(name_width, one.name.size());
    }
  if (row.variables)
    for (const ListRow::Variable& one : *row.variables)
      data_.print("    {:<{}}  {:<{}}  {}\n", one.type, type_width, one.name, name_width,
                  data_.faint(one.where));
  if (row.wants_variables && (!row.variables || row.variables->empty()))
    data_.print("{}\n", data_.faint(fmt::format("{}variables of it", kNone)));
  for (const ListRow::Line& one : row.lines)
    data_.print("    {:>#12x}  @{}\n", one.address, one.name);
  if (row.wants_lines && row.lines.empty())
    data_.print("{}\n", data_.faint(fmt::format("{}lines of it", kNone)));
}

void TextRenderer::functions(const std::vector<ListRow>& rows) {
  size_t width = 0;
  for (const ListRow& row : rows) width = std::max(width, row.object.size());
  for (const ListRow& row : rows) {
    const Styled how = row.tactic
                           ? data_.styled(fmt::format("{:<7}", plan::name(*row.tactic)), kGreen)
                           : data_.styled(fmt::format("{:<7}", "-"), kYellow);
    std::string why;
    if (row.arguments && !row.arguments->empty()) why = "  " + *row.arguments;
    if (row.entry) why += fmt::format("  entry site: {}", image::name(*row.entry));
    if (row.is_timed_by_exits.value_or(false)) why += "  timed by exits";
    if (row.ends_at_tail_jumps) why += ", without what it jumps to";
    if (row.refusal)
      why += fmt::format("  {}", plan::sentence(*row.refusal));
    else if (row.return_refusal)
      why += fmt::format("  count only: {}", plan::sentence(*row.return_refusal));
    if (row.inlined_places != 0)
      why += fmt::format("  also inlined at {} ({})", plural(row.inlined_places, "place"),
                         row.inlined);
    data_.print("{:>#12x}  {:<{}}  {} {}{}\n", row.address, row.object, width, how,
                data_.bold(row.function), data_.faint(why));
    if (row.prototype)
      for (const PrototypeLine& line : lines_of(*row.prototype))
        data_.print("    {}{}\n", line.columns,
                    data_.faint(line.remark.empty() ? "" : "  " + line.remark));
    else if (row.wants_prototype)
      data_.print("{}\n", data_.faint("    pinprick knows no parameters of it by name; "
                                      "its arguments are $arg1 to $arg6"));
    print_debug_information(row);
  }
  data_.flush();
}

void TextRenderer::summary(const SummaryRow& row) {
  const placement::Summary& summary = row.summary;
  const auto percent = [&](size_t n) {
    return summary.sites == 0 ? 0.0
                              : 100.0 * static_cast<double>(n) / static_cast<double>(summary.sites);
  };
  const auto line = [&](std::string_view what, size_t n, std::string_view why) {
    data_.print("{:>12}  {:>8.4f}%  {:<18}  {}\n", with_commas(n), percent(n), what, why);
  };
  data_.print("{}: {} {}\n", data_.bold(row.object), with_commas(summary.sites), row.sites);
  line("can be probed", summary.probeable, "");
  for (const auto& [tactic, n] : summary.by_tactic) line(plan::name(tactic), n, "");
  for (const auto& [reason, n] : summary.refused)
    line(fmt::format("- {}", plan::name(reason)), n, plan::sentence(reason));
  data_.flush();
}

namespace {

// `detach --all` leaves statistics, also of processes that have ended.
std::string ended_state(const SessionRow& row) {
  const std::string what =
      row.is_replaced ? "the process runs another program now" : "the program has ended";
  const std::string detach = row.statistic.empty() || row.is_replaced
                                 ? "detach"
                                 : fmt::format("detach -p {}", row.process.pid);
  if (row.forked != 0)
    return fmt::format("{}, but {} that it had forked {} the probes; `pinprick {}` removes them",
                       what, plural(row.forked, "process", "processes"),
                       row.forked == 1 ? "has" : "have", detach);
  if (!row.statistic.empty() && !row.is_replaced)
    return fmt::format("{}; `pinprick kstats` shows the statistic {}, `pinprick {}` removes it",
                       what, row.statistic, detach);
  return fmt::format("{}; `pinprick {}` removes the record", what, detach);
}

}  // namespace

void TextRenderer::sessions(const std::vector<SessionRow>& rows) {
  if (rows.empty()) {
    notes_.print("no probes of pinprick found\n");
    return;
  }
  for (const SessionRow& row : rows) {
    Styled state;
    switch (row.state) {
      case SessionRow::State::live:
        state = data_.styled(fmt::format("live, by pinprick {}", row.controller), kGreen);
        break;
      case SessionRow::State::orphaned:
        state = data_.styled(
            fmt::format("orphaned: pinprick {} is gone; `pinprick detach` removes them",
                        row.controller),
            kYellow);
        break;
      case SessionRow::State::kept:
        state = data_.styled(fmt::format("kept as the statistic {}{}; `pinprick kstats` shows and "
                                         "removes it",
                                         row.statistic, row.is_stopped ? ", stopped" : ""),
                             kGreen);
        break;
      case SessionRow::State::left_behind:
        state = data_.styled(
            row.forked == 0
                ? "detached; some memory is still mapped"
                : fmt::format("detached, but {} that it had forked {} the probes; `pinprick "
                              "detach` removes them",
                              plural(row.forked, "process", "processes"),
                              row.forked == 1 ? "has" : "have"),
            kYellow);
        break;
      case SessionRow::State::target_gone:
        state = data_.styled(ended_state(row), kYellow);
        break;
      case SessionRow::State::own:
        data_.print("{} ({})  {} of its own, by libpinprick\n", row.process.pid,
                    data_.bold(row.process.command), plural(row.sites, "probe"));
        // The program says what these are called, and may say anything.
        for (const std::string& probe : row.own_probes) data_.print("{}\n", probe);
        continue;
    }
    data_.print("{} ({})  {}, for {}  {}\n", row.process.pid, data_.bold(row.process.command),
                plural(row.sites, "probe"), duration_ns(row.age_s * 1e9), state);
    if (row.has_events)
      data_.print("its newest events: `pinprick trace --collect -p {}` prints them\n",
                  row.process.pid);
    if (row.slots)
      data_.print("slots: {} in use, {} at most, room for {}{}\n", with_commas(row.slots->in_use),
                  with_commas(row.slots->most), with_commas(row.slots->room),
                  row.slots->abandoned == 0
                      ? ""
                      : fmt::format("; {} more kept by calls that are on no stack (longjmp?)",
                                    with_commas(row.slots->abandoned)));
    if (row.state == SessionRow::State::left_behind && !all_) continue;
    using placement::Kind;
    for (const Kind kind : {Kind::count, Kind::latency, Kind::span, Kind::value}) {
      std::vector<Row> of_kind;
      std::copy_if(row.rows.begin(), row.rows.end(), std::back_inserter(of_kind),
                   [&](const Row& one) { return one.kind == kind; });
      if (!of_kind.empty()) rows_of_kind(kind, of_kind, 0, row.measured_s);
      print_unread(of_kind);
    }
  }
  data_.flush();
}

void TextRenderer::statistic_names(pid_t,
                                   const std::vector<session::StatisticFigures>& statistics) {
  std::string line;
  for (const auto& one : statistics) line += (line.empty() ? "" : " ") + one.name;
  data_.print("{}\n", line);
}

void TextRenderer::statistic(pid_t, const session::StatisticFigures& statistic,
                             StatisticForm form) {
  if (form.with_name) data_.print("{}:\n", statistic.name);
  if (!form.density) {
    data_.write(text_of(statistic));
    return;
  }
  stats::Histogram sum(statistic.bits);
  for (const auto& [cpu, histogram] : statistic.by_cpu) sum.merge(histogram);
  const DensityStyle style;
  for (const DensityLine& line : density_lines(sum, style))
    data_.write(text_of(line, style) + "\n");
}

void TextRenderer::checks(const MachineRow& machine, const std::vector<CheckRow>& checks) {
  std::vector<CheckRow> rows = {
      {"pinprick", Health::ok,
       fmt::format("{}, commit {}, build ID {}", machine.version, machine.commit,
                   machine.build_id.empty() ? "none" : machine.build_id),
       ""},
      {"machine", Health::ok, fmt::format("{}; {}", machine.cpu, machine.system), ""}};
  rows.insert(rows.end(), checks.begin(), checks.end());
  size_t width = 0;
  for (const CheckRow& row : rows) width = std::max(width, row.name.size());
  for (const CheckRow& row : rows) {
    const char* word = row.health == Health::ok     ? "ok  "
                       : row.health == Health::note ? "note"
                                                    : "BAD ";
    const auto style = row.health == Health::ok     ? kGreen
                       : row.health == Health::note ? kYellow
                                                    : kRed;
    data_.print("{}  {:<{}}  {}\n", data_.styled(word, style), row.name, width, row.finding);
    if (!row.remedy.empty()) data_.print("      {:<{}}  {}\n", "", width, data_.faint(row.remedy));
  }
  data_.flush();
}

}  // namespace pinprick::cli
