// pinprick count, latency, hist, measure, trace, leaks and locks: arms probes, waits, takes them
// out, and prints.
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "cli/interrupts.h"
#include "cli/measure/coverage_reports.h"
#include "cli/measure/event_dumps.h"
#include "cli/measure/event_log.h"
#include "cli/measure/leak_reports.h"
#include "cli/measure/lock_reports.h"
#include "cli/measure/measured_files.h"
#include "cli/measure/measured_processes.h"
#include "cli/measure/measured_tree.h"
#include "cli/verbs/verbs.h"

namespace pinprick::cli {
namespace {

using session::Period;

// Returns what makes tables of events for the verb; null if it makes none.
std::unique_ptr<TableReports> tables_of(const Options& options, Renderer& renderer) {
  if (options.verb == "leaks") return std::make_unique<LeakReports>(options, renderer);
  if (options.verb == "locks") return std::make_unique<LockReports>(options, renderer);
  return nullptr;
}

// `Processes` are those of -p and of a command, or those of a file.
template <class Processes>
class Watch {
 public:
  Watch(const Options& options, Renderer& renderer)
      : options_(options),
        renderer_(renderer),
        tables_(tables_of(options, renderer)),
        dumps_(options.overwrite ? std::make_unique<EventDumps>(options, renderer, interrupts_)
                                 : nullptr),
        log_(options, renderer, interrupts_),
        measured_(options, renderer, interrupts_, output()) {
    if (options.once) coverage_.emplace(renderer);
  }

  int run();

 private:
  void wait();
  void sleep_until(uint64_t until_ns);
  void report(Period period);
  void report_table(Period period);
  void dump(Dump::Cause cause);
  void end_dump();
  int end();
  EventOutput& output() {
    if (tables_) return tables_->log();
    if (dumps_) return *dumps_;
    return log_;
  }

  const Options& options_;
  Renderer& renderer_;
  Interrupts interrupts_;
  std::unique_ptr<TableReports> tables_;  // of leaks and locks
  std::unique_ptr<EventDumps> dumps_;     // with --overwrite
  EventLog log_;                          // of the others
  Processes measured_;
  std::optional<CoverageReports> coverage_;  // with --once
  bool all_ended_ = false;                   // before we ended the measurements
};

template <class Processes>
void Watch<Processes>::report_table(Period period) {
  using Rest = TableReports::Rest;
  tables_->begin(period == Period::interval ? Rest::more : all_ended_ ? Rest::ended : Rest::none);
  measured_.report(period, *tables_);
  tables_->show();
}

template <class Processes>
void Watch<Processes>::report(Period period) {
  if (tables_) return report_table(period);
  if (!coverage_) return measured_.report(period, renderer_);
  coverage_->begin(period);
  measured_.report(period, *coverage_);
}

// Returns earlier if something happens.
template <class Processes>
void Watch<Processes>::sleep_until(uint64_t until_ns) {
  std::vector<pollfd> descriptors = {{interrupts_.descriptor(), POLLIN, 0}};
  for (int descriptor : measured_.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
  for (int descriptor : interrupts_.request_descriptors())
    descriptors.push_back({descriptor, POLLIN, 0});
  const uint64_t now = monotonic_ns();
  const uint64_t left_ns = until_ns - std::min(now, until_ns);
  const timespec timeout = {static_cast<time_t>(left_ns / 1'000'000'000),
                            static_cast<long>(left_ns % 1'000'000'000)};
  ::ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
}

template <class Processes>
void Watch<Processes>::dump(Dump::Cause cause) {
  measured_.stop_events();
  dumps_->begin(cause);
  measured_.read_newest_events();
  dumps_->write();
  end_dump();
}

template <class Processes>
void Watch<Processes>::end_dump() {
  measured_.report(Period::interval, dumps_->figures());
  measured_.restart_events(dumps_->goes_on());
  dumps_->end();
  renderer_.flush();
}

// Waits until there is a reason to end: a signal, the duration, the end of all processes, or that
// the reader of our output is gone.
template <class Processes>
void Watch<Processes>::wait() {
  const uint64_t start = monotonic_ns();
  const auto after = [&](double seconds) {
    return start + static_cast<uint64_t>(std::llround(seconds * 1e9));
  };
  const uint64_t deadline = options_.duration_s > 0 ? after(options_.duration_s) : UINT64_MAX;
  uint64_t intervals = 1;
  uint64_t pause_ns = measured_.look_after();
  for (;;) {
    const uint64_t next_report = options_.interval_s > 0
                                     ? after(options_.interval_s * static_cast<double>(intervals))
                                     : UINT64_MAX;
    const uint64_t now = monotonic_ns();
    if (now >= deadline) return;
    if (now >= next_report) {
      report(Period::interval);
      if (renderer_.is_broken()) return;
      // Intervals that have passed meanwhile are left out: if reports take longer than the
      // interval, Ctrl-C would never be noticed.
      const double passed = static_cast<double>(monotonic_ns() - start) / 1e9;
      intervals = static_cast<uint64_t>(passed / options_.interval_s) + 1;
      continue;
    }
    sleep_until(std::min({deadline, next_report, now + pause_ns}));
    if (interrupts_.arrived()) return;
    measured_.notice_ends();
    if (measured_.all_ended()) return;
    pause_ns = measured_.look_after();
    if (const auto cause = dumps_ ? dumps_->due() : std::nullopt) dump(*cause);
    if (measured_.has_enough() || renderer_.is_broken()) return;
  }
}

// Results are read after the last probe is out, so that none are missing. The last interval is
// shorter than the others; with it, they add up to the whole. Tables of events are of the time so
// far.
template <class Processes>
int Watch<Processes>::end() {
  all_ended_ = measured_.all_ended();
  measured_.end();
  if (dumps_ && dumps_->is_dumping()) end_dump();
  if (options_.interval_s > 0 && !tables_) report(Period::interval);
  report(Period::whole);
  const int exit = measured_.conclude();
  if (!dumps_ || !dumps_->has_failed()) return exit;
  return options_.has_command() ? kFailedWithCommand : kFailed;
}

template <class Processes>
int Watch<Processes>::run() {
  if (auto begun = measured_.begin(); !begun) {
    // If other processes have their probes already, their results are still reported.
    if (begun.error().exit != kInterrupted || measured_.is_empty())
      return measured_.fail_with(begun.error());
    renderer_.warning(begun.error().text);
    return end();
  }
  // A suspended pinprick holds no budget. (A command would be suspended, and pinprick wait for it.)
  if (options_.budget != 0 && !options_.has_command()) ::signal(SIGTSTP, SIG_IGN);
  wait();
  return end();
}

}  // namespace

int run_watch(const Options& options, Renderer& renderer) {
  if (options.dry_run) return run_dry_run(options, renderer);
  if (options.collect) return run_collect(options, renderer);
  if (!options.files.empty()) return Watch<MeasuredFiles>(options, renderer).run();
  if (options.follow_children) return Watch<MeasuredTree>(options, renderer).run();
  return Watch<MeasuredProcesses>(options, renderer).run();
}

}  // namespace pinprick::cli
