// pinprick count, latency and hist: arms probes, waits, takes them out, and prints.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/clock.h"
#include "cli/interrupts.h"
#include "cli/narrator.h"
#include "cli/object_store.h"
#include "cli/patterns.h"
#include "cli/verbs.h"
#include "cli/warnings.h"
#include "session/measurement.h"
#include "target/stop.h"

namespace pinprick::cli {
namespace {

using session::Measurement;
using session::Period;

constexpr int kSignalBase = 128;  // as in shells

session::MeasurementSpec spec_of(const Options& options, session::Selection selection) {
  session::MeasurementSpec spec;
  spec.selection = std::move(selection);
  if (options.allow_missing) spec.unmatched = session::Unmatched::accept;
  if (options.force) spec.risk = placement::Risk::unknown_unwinder;
  if (options.follow_exec) spec.exec = session::Exec::followed;
  spec.arming = {options.bits, options.slots, options.count_children, options.trap, {}};
  return spec;
}

class Watch {
 public:
  Watch(const Options& options, Renderer& renderer)
      : options_(options),
        renderer_(renderer),
        narrator_(options, renderer, interrupts_.descriptor()) {}

  int run();

 private:
  Result<void, Message> begin();
  Result<void, Message> begin_one(pid_t pid);
  void wait();
  void sleep_until(uint64_t until_ns);
  uint64_t look_again_ns() const;
  bool look_after_all();
  void notice_ends();
  bool all_ended() const;
  void report_all(Period period);
  int end();
  int exit_code();
  int command_status();
  void disarm_all();
  int fail_with(const Message& message);

  const Options& options_;
  Renderer& renderer_;
  Interrupts interrupts_;
  Narrator narrator_;
  session::MeasurementSpec spec_;
  std::vector<Measurement> measurements_;
  std::optional<session::Launched> launched_;
};

Result<void, Message> Watch::begin() {
  auto selection = parse_patterns(options_);
  if (!selection) return fail(selection.error());
  spec_ = spec_of(options_, *std::move(selection));
  std::vector<pid_t> pids = options_.pids;
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  if (options_.has_command()) {
    auto launched = session::Launched::start(options_.command, interrupts_.before());
    if (!launched) return fail(message(launched.error()));
    launched_.emplace(*std::move(launched));
    pids = {launched_->pid()};
  }
  for (pid_t pid : pids)
    if (auto begun = begin_one(pid); !begun) return begun;
  if (launched_) launched_->release();
  // Objects decoded later are written at the end.
  object_store().write_pending();
  return {};
}

Result<void, Message> Watch::begin_one(pid_t pid) {
  auto measurement = Measurement::begin(pid, spec_, object_store(), narrator_);
  if (measurement) {
    measurements_.push_back(*std::move(measurement));
    return {};
  }
  Message error = message(measurement.error());
  const auto* unmatched = std::get_if<session::MatchError>(&measurement.error());
  if (launched_ && !options_.follow_exec && unmatched != nullptr &&
      std::holds_alternative<session::NothingMatched>(*unmatched))
    error.text += "; if the command only executes the program: --allow-missing --follow-exec";
  return fail(std::move(error));
}

void Watch::notice_ends() {
  using Certainty = session::ExecutedProgram::Certainty;
  for (Measurement& one : measurements_) {
    if (!one.notice_end() || options_.follow_exec) continue;
    const auto program = one.executed_program();
    // Only a command that we started is likely to be a wrapper.
    if (program && (launched_ || program->certainty == Certainty::certain))
      renderer_.warning(warning::executed(one.process().command, *program));
  }
  renderer_.flush();
}

bool Watch::all_ended() const {
  return std::all_of(measurements_.begin(), measurements_.end(),
                     [](const Measurement& one) { return one.has_ended(); });
}

// There is no notice when slots or histograms run short, nor of an exec, which changes the program
// without ending the process. So we look now and then, and more often if it matters.
uint64_t Watch::look_again_ns() const {
  if (options_.follow_exec) return 2'000'000;
  const bool needs_memory = spec_.selection.kind != placement::Kind::count;
  return needs_memory || launched_ ? 10'000'000 : 500'000'000;
}

// Returns earlier if something happens.
void Watch::sleep_until(uint64_t until_ns) {
  std::vector<pollfd> descriptors = {{interrupts_.descriptor(), POLLIN, 0}};
  for (const Measurement& one : measurements_)
    if (!one.has_ended())
      for (int descriptor : one.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
  const uint64_t now = monotonic_ns();
  const uint64_t left_ns = until_ns - std::min(now, until_ns);
  const timespec timeout = {static_cast<time_t>(left_ns / 1'000'000'000),
                            static_cast<long>(left_ns % 1'000'000'000)};
  ::ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
}

// Returns true if it should be called again soon.
bool Watch::look_after_all() {
  bool soon = false;
  for (Measurement& one : measurements_)
    if (!one.has_ended()) soon = one.look_after() || soon;
  renderer_.flush();
  return soon;
}

// Waits until there is a reason to end: a signal, the duration, the end of all processes, or that
// the reader of our output is gone.
void Watch::wait() {
  const uint64_t start = monotonic_ns();
  const auto after = [&](double seconds) {
    return start + static_cast<uint64_t>(std::llround(seconds * 1e9));
  };
  const uint64_t deadline = options_.duration_s > 0 ? after(options_.duration_s) : UINT64_MAX;
  uint64_t intervals = 1;
  constexpr uint64_t kSoonNs = 1'000'000;
  bool soon = false;
  for (;;) {
    const uint64_t next_report = options_.interval_s > 0
                                     ? after(options_.interval_s * static_cast<double>(intervals))
                                     : UINT64_MAX;
    const uint64_t now = monotonic_ns();
    if (now >= deadline) return;
    if (now >= next_report) {
      report_all(Period::interval);
      if (renderer_.is_broken()) return;
      // Intervals that have passed meanwhile are left out: if reports take longer than the
      // interval, Ctrl-C would never be noticed.
      const double passed = static_cast<double>(monotonic_ns() - start) / 1e9;
      intervals = static_cast<uint64_t>(passed / options_.interval_s) + 1;
      continue;
    }
    // A thread that comes out of the kernel is stopped until we settle it.
    const bool is_settled = target::Stop::settle() == 0;
    const uint64_t pause_ns = soon || !is_settled ? kSoonNs : look_again_ns();
    sleep_until(std::min({deadline, next_report, now + pause_ns}));
    if (interrupts_.arrived()) return;
    notice_ends();
    if (all_ended()) return;
    soon = look_after_all();
  }
}

void Watch::report_all(Period period) {
  for (Measurement& one : measurements_) one.report(period, renderer_);
}

void Watch::disarm_all() {
  for (Measurement& one : measurements_) one.disarm();
}

int Watch::command_status() {
  const int status = launched_->wait();
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

int Watch::fail_with(const Message& message) {
  renderer_.error(message);
  disarm_all();
  renderer_.flush();
  if (message.exit == kInterrupted && interrupts_.arrived())
    return kSignalBase + interrupts_.signal();
  return options_.has_command() && message.exit != kUsage ? kFailedWithCommand : message.exit;
}

// Results are read after the last probe is out, so that none are missing.
int Watch::end() {
  notice_ends();
  const uint64_t now = monotonic_ns();
  for (Measurement& one : measurements_) one.end(now);
  disarm_all();
  report_all(Period::whole);
  for (const Measurement& one : measurements_)
    if (const uint64_t refused = one.refused(); refused != 0)
      renderer_.warning(warning::calls_refused(refused));
  for (const Measurement& one : measurements_)
    if (one.disarmed()) renderer_.detached(one.process(), *one.disarmed());
  renderer_.flush();
  return exit_code();
}

int Watch::exit_code() {
  session::Shortfall shortfall;
  for (const Measurement& one : measurements_) shortfall |= one.shortfall();
  const bool is_lossy = shortfall.missed && options_.fail_on_loss;
  if (launched_) {
    const int status = command_status();
    if (shortfall.disarm_failed) return kFailedWithCommand;
    return is_lossy ? kLost : status;
  }
  if (shortfall.disarm_failed || renderer_.is_broken()) return kFailed;
  if (is_lossy) return kLost;
  if (shortfall.incomplete && !options_.allow_missing) return kFailed;
  return kOk;
}

int Watch::run() {
  if (auto begun = begin(); !begun) {
    // If other processes have their probes already, their results are still reported.
    if (begun.error().exit != kInterrupted || measurements_.empty())
      return fail_with(begun.error());
    renderer_.warning(begun.error().text);
    return end();
  }
  wait();
  return end();
}

}  // namespace

int run_watch(const Options& options, Renderer& renderer) {
  return Watch(options, renderer).run();
}

}  // namespace pinprick::cli
