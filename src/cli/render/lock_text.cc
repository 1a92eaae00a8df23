// TextRenderer: what is taken and waited for, as tables with stacks, and who waits for whom.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/render/text.h"
#include "cli/render/text_width.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

constexpr size_t kMostStacksOfLock = 3;  // of a lock
constexpr int kStackIndent = 17;

std::string lock_time(uint64_t ns) {
  return duration_ns(static_cast<double>(ns));
}

// A sum and its average and maximum, or dashes if there is nothing.
struct Times {
  std::string sum = "-", average = "-", longest = "-";
};
Times lock_times(uint64_t count, uint64_t sum_ns, uint64_t longest_ns) {
  if (count == 0) return {};
  return {lock_time(sum_ns), lock_time(sum_ns / count), lock_time(longest_ns)};
}

std::string lock_columns(const LockUse& use, bool tells_holding) {
  const Times waited = lock_times(use.waits, use.waited_ns, use.longest_wait_ns);
  const Times held = lock_times(tells_holding ? use.holds : 0, use.held_ns, use.longest_hold_ns);
  return fmt::format("{:>8} {:>8} {:>8} {:>8} {:>10} {:>8} {:>8} {:>8}", waited.sum,
                     with_commas(use.waits), waited.average, waited.longest, with_commas(use.taken),
                     held.sum, held.average, held.longest);
}

std::string columns_of_condition(const LockUse& use, const std::string& signals) {
  const Times waited = lock_times(use.waits, use.waited_ns, use.longest_wait_ns);
  return fmt::format("{:>8} {:>8} {:>8} {:>8} {:>10} {:>26}", waited.sum, with_commas(use.waits),
                     waited.average, waited.longest, signals, "");
}

std::string lock_name(const LockRow& row) {
  return row.name.empty() ? fmt::format("{:#x}", row.address) : row.name;
}

// Are there locks of several processes?
bool has_several(const LockReport& report) {
  pid_t one = 0;
  for (const auto* const rows : {&report.locks, &report.conditions})
    for (const LockRow& row : *rows)
      if (one != 0 && row.pid != one)
        return true;
      else
        one = row.pid;
  return false;
}

// Returns the text in parentheses after the name.
std::string remarks_of(const LockRow& row, bool several) {
  std::string text = row.type;
  if (row.name.empty() && !row.first.empty())
    text +=
        fmt::format(", first {} by {}", row.type == "condition" ? "awaited" : "taken", row.first);
  if (row.use.not_taken != 0)
    text += fmt::format(", {} did not get it", plural(row.use.not_taken, "call"));
  if (several) text += fmt::format(", of {} {}", row.pid, row.process);
  return text;
}

// Returns the stacks to show: the worst ones, and the one that holds the lock for the longest time
// in all, as it may be the one that the others wait for.
std::vector<const LockRow::ByStack*> shown_stacks(const LockRow& row) {
  std::vector<const LockRow::ByStack*> shown;
  for (const LockRow::ByStack& one : row.by_stack)
    if (shown.size() < kMostStacksOfLock) shown.push_back(&one);
  const auto holds_longest =
      std::ranges::max_element(row.by_stack, {}, [](const auto& one) { return one.use.held_ns; });
  if (holds_longest == row.by_stack.end()) return shown;
  if (std::ranges::count(shown, &*holds_longest) == 0) shown.back() = &*holds_longest;
  return shown;
}

std::string thread_text(pid_t thread, const std::string& name) {
  return name.empty() ? fmt::format("thread {}", thread)
                      : fmt::format("thread {} ({})", thread, name);
}

std::string wait_text(const session::LockWait& wait) {
  std::string text = thread_text(wait.thread, wait.thread_name);
  if (wait.kind == session::LockWait::Kind::end_of_thread)
    return text + " waits for the end of " + thread_text(wait.owner, wait.owner_name);
  text += fmt::format(" waits for {} {}", session::word_of(wait.kind), wait.lock_name);
  if (wait.owner == wait.thread)
    text += ", which it holds itself";
  else if (wait.owner_has_ended)
    text += fmt::format(", which thread {} held when it ended", wait.owner);
  else if (wait.owner == 0)
    text += ", which readers hold";
  else
    text += fmt::format(", which {} holds", thread_text(wait.owner, wait.owner_name));
  return text;
}

}  // namespace

void TextRenderer::lock_rows(const std::vector<LockRow>& rows, const LockReport& report,
                             bool are_conditions) {
  if (rows.empty()) return;
  const size_t shown = most() == 0 ? rows.size() : std::min(most(), rows.size());
  const auto columns = [&](const LockUse& use, const std::string& signals) {
    return are_conditions ? columns_of_condition(use, signals)
                          : lock_columns(use, report.tells_holding);
  };
  if (are_conditions)
    data_.print("{:>8} {:>8} {:>8} {:>8} {:>10} {:>26}  condition\n", "waited", "waits", "average",
                "longest", "signals", "");
  else
    data_.print("{:>8} {:>8} {:>8} {:>8} {:>10} {:>8} {:>8} {:>8}  lock\n", "waited", "waits",
                "average", "longest", "taken", "held", "average", "longest");
  const auto print_stack = [&](const std::string& stack) {
    for (const std::string_view frame : split_lines(stack))
      data_.print("{:{}}{}\n", "", kStackIndent, frame);
  };
  for (size_t i = 0; i < shown; ++i) {
    const LockRow& row = rows[i];
    data_.print("{}  {} {}\n", columns(row.use, with_commas(row.signals)),
                data_.bold(lock_name(row)),
                data_.faint("(" + remarks_of(row, has_several(report)) + ")"));
    // The stacks explain waits, so a lock without one has no stacks here.
    if (row.use.waits == 0 && !report.by_holding) continue;
    if (row.by_stack.size() == 1) {
      print_stack(row.by_stack.front().stack);
      continue;
    }
    for (const LockRow::ByStack* const one : shown_stacks(row)) {
      data_.print("{}    {}\n", columns(one->use, ""), one->function);
      print_stack(one->stack);
    }
    if (row.by_stack.size() > kMostStacksOfLock)
      data_.print("{:{}}{}\n", "", kStackIndent,
                  data_.faint(plural(row.by_stack.size() - kMostStacksOfLock, "other stack")));
  }
  if (rows.size() > shown)
    data_.print("{:{}}{}\n", "", kStackIndent,
                data_.faint(plural(rows.size() - shown,
                                   are_conditions ? "other condition" : "other lock")));
}

void TextRenderer::lock_order(const LockOrder& order, bool has_several) {
  std::string text;
  for (const LockOrder::Step& step : order.steps)
    text += fmt::format("{}thread {} took {} while it held {}", text.empty() ? "" : ", ",
                        step.thread, step.taken, step.held);
  data_.print("{}: {}; had they met, that would be a deadlock\n",
              data_.bold(has_several ? fmt::format("lock order of {}", order.pid) : "lock order"),
              text);
  for (const LockOrder::Step& step : order.steps) {
    data_.print("  {} was taken with {} held:\n", step.taken, step.held);
    for (const std::string_view frame : split_lines(step.taken_stack))
      data_.print("{:{}}{}\n", "", kStackIndent, frame);
  }
}

void TextRenderer::locks(const LockReport& report) {
  if (!report.is_final)
    data_.print("{}\n", data_.faint(fmt::format("after {:.1f} s", report.seconds)));
  lock_rows(report.locks, report, false);
  lock_rows(report.conditions, report, true);
  for (const LockOrder& order : report.orders) lock_order(order, has_several(report));
  LockUse all;
  for (const LockRow& row : report.locks) {
    all.taken += row.use.taken;
    all.waits += row.use.waits;
    all.waited_ns += row.use.waited_ns;
  }
  data_.print("{} taken {}, with {} of {} or longer, {} in all, in {}\n",
              plural(report.locks.size(), "lock"), plural(all.taken, "time"),
              plural(all.waits, "wait"), lock_time(report.least_wait_ns), lock_time(all.waited_ns),
              duration_ns(report.seconds * 1e9));
  std::vector<std::string> remarks;
  if (report.unknown_releases != 0 && report.tells_holding)
    remarks.push_back(plural(report.unknown_releases, "release") + " of locks taken before");
  if (report.dropped != 0)
    remarks.push_back(
        fmt::format("unreliable: {} dropped", plural(report.dropped, "event was", "events were")));
  if (!remarks.empty()) data_.print("{}\n", fmt::format("{}", fmt::join(remarks, "; ")));
  data_.flush();
}

void TextRenderer::lock_wait(const session::LockWait& wait) {
  data_.print("{}\n", wait_text(wait));
  for (const std::string& frame : wait.stack) data_.print("{:{}}{}\n", "", kStackIndent, frame);
  if (wait.owner_stack.empty()) return;
  data_.print("  {} is in\n", thread_text(wait.owner, wait.owner_name));
  for (const std::string& frame : wait.owner_stack)
    data_.print("{:{}}{}\n", "", kStackIndent, frame);
}

void TextRenderer::deadlocks(const session::LockWaits& waits) {
  for (const std::vector<size_t>& ring : waits.deadlocks) {
    data_.print(
        "{} in {} {}: {}\n", data_.bold("deadlock"), waits.process.pid, waits.process.command,
        ring.size() == 1 ? "a thread waits for itself, for ever"
                         : plural(ring.size(), "thread") + " wait for one another, for ever");
    for (const size_t i : ring) lock_wait(waits.waits[i]);
  }
  data_.flush();
}

void TextRenderer::lock_waits(const session::LockWaits& waits) {
  std::vector<bool> is_told(waits.waits.size());
  for (const std::vector<size_t>& ring : waits.deadlocks)
    for (const size_t i : ring) is_told[i] = true;
  deadlocks(waits);
  for (size_t i = 0; i < waits.waits.size(); ++i)
    if (!is_told[i]) lock_wait(waits.waits[i]);
  const size_t count = waits.waits.size();
  data_.print("{} {}: {} of {} {} for a lock{} that is held\n", waits.process.pid,
              waits.process.command, count == 0 ? "none" : with_commas(count),
              plural(waits.threads, "thread"), count <= 1 ? "waits" : "wait",
              count == 0 ? " of glibc" : "");
  data_.flush();
}

}  // namespace pinprick::cli
