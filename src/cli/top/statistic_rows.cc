#include "cli/top/statistic_rows.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "cli/object_store.h"
#include "cli/verbs/session_statistics.h"
#include "target/procfs.h"

namespace pinprick::cli::top {
namespace {

using session::Distribution;
using session::StatisticFigures;

// Takes the histograms.
Distribution distribution_of(StatisticFigures& figures) {
  return {stats::total_of(std::move(figures.by_cpu), figures.bits), 0, figures.losses};
}

}  // namespace

StatisticRows::StatisticRows(std::vector<pid_t> pids)
    : pids_(std::move(pids)), processes_(session_statistics()) {
  find_processes();
  StatisticRows::read([](const session::Report&) {});  // what was recorded before is not shown
}

void StatisticRows::find_processes() {
  for (const pid_t pid : pids_.empty() ? processes_->all() : pids_) {
    const auto status = target::read_status(pid);
    const auto before = known_.find(pid);
    if (!status || (before != known_.end() && before->second.start_time == status->start_time))
      continue;
    if (!pids_.empty() && session::Statistics(pid, object_store()).list().empty()) continue;
    known_[pid] = {status->start_time, status->command, false, false, {}, monotonic_ns()};
  }
}

uint64_t StatisticRows::look_after() {
  constexpr uint64_t kPauseNs = 500'000'000;
  find_processes();
  for (auto& [pid, known] : known_) {
    const auto status = target::read_status(pid);
    known.has_ended = !status || status->start_time != known.start_time || status->state == 'Z';
  }
  processes_->provide();
  return kPauseNs;
}

void StatisticRows::read(const TakeReport& take) {
  for (auto& [pid, known] : known_) {
    if (known.was_read_after_end) continue;
    known.was_read_after_end = known.has_ended;
    read_one(pid, known, take);
  }
}

void StatisticRows::read_one(pid_t pid, Known& known, const TakeReport& take) {
  auto figures = session::Statistics(pid, object_store()).read_all();
  const uint64_t now_ns = monotonic_ns();
  session::Report report;
  report.kind = placement::Kind::latency;
  report.process = {pid, known.command};
  report.seconds = static_cast<double>(now_ns - std::exchange(known.read_ns, now_ns)) / 1e9;
  for (StatisticFigures& one : figures) {
    if (one.kind == StatisticFigures::Kind::gaps) continue;
    Distribution now = distribution_of(one);
    const std::pair key(one.kind, one.name);
    const auto last = known.last.find(key);
    // After a reset, or if another statistic has the name now, all of it is new.
    const bool continues = last != known.last.end() && last->second.created_ns == one.created_ns &&
                           last->second.resets == one.resets &&
                           last->second.recorded.histogram.bits() == one.bits;
    Distribution later = now;
    if (continues) {
      later.histogram = now.histogram.since(last->second.recorded.histogram);
      later.losses = now.losses.since(last->second.recorded.losses);
    }
    report.rows.push_back(session::Row::of_times({one.what, one.name},
                                                 one.kind == StatisticFigures::Kind::calls
                                                     ? placement::Kind::latency
                                                     : placement::Kind::span,
                                                 std::move(later.histogram), later.losses));
    known.last.insert_or_assign(key, Known::Last{one.created_ns, one.resets, std::move(now)});
  }
  take(report);
}

std::vector<pid_t> StatisticRows::ended() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, known] : known_)
    if (known.has_ended) pids.push_back(pid);
  return pids;
}

// With all processes of the machine another one may come.
bool StatisticRows::all_ended() const {
  return !pids_.empty() && std::all_of(known_.begin(), known_.end(),
                                       [](const auto& one) { return one.second.has_ended; });
}

}  // namespace pinprick::cli::top
