#include "cli/render/text.h"

#include <algorithm>
#include <map>

#include "cli/render/budget_text.h"
#include "cli/render/comparison_text.h"
#include "cli/render/density.h"
#include "cli/render/prototype_text.h"
#include "cli/render/units.h"
#include "cli/verbs/session_statistics.h"
#include "engine/plan/trapping.h"

namespace pinprick::cli {
namespace {

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
