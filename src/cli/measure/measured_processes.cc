#include "cli/measure/measured_processes.h"

#include <sys/wait.h>

#include <algorithm>

#include "base/clock.h"
#include "cli/measure/patterns.h"
#include "cli/measure/spec.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"
#include "cli/silence.h"
#include "runtime/probe_cost.h"
#include "target/stop.h"

namespace pinprick::cli {
namespace {

using session::Measurement;

// What forked children have recorded says nothing about what this process pays. Where children are
// measured for themselves, each is held to the budget.
void hold_budget(session::MeasurementSpec& spec, const Options& options) {
  spec.budget = {{options.budget, options.budget_once}, hit_costs()};
  spec.arming.has_switches = true;
  if (!options.follow_children && options.files.empty()) spec.arming.count_children = false;
}

}  // namespace

// Where costs cannot be measured, as executable memory is refused, they are taken to be what the
// slowest machine had that they were measured on, and more.
session::HitCosts hit_costs() {
  constexpr runtime::CrowdedCosts kUnmeasured = {15, 25, 80};
  const auto measured = runtime::crowded_probe_costs().value_or(kUnmeasured);
  // A value is recorded as a call is, without reading the clock twice. A span reads it twice, and
  // looks the thread up.
  constexpr double kSpan = 1.6;
  return {.count = measured.count,
          .locked = std::max(0.0, measured.locked_count - measured.count),
          .value = measured.call,
          .call = measured.call,
          .span = kSpan * measured.call};
}

session::MeasurementSpec spec_of(const Options& options, session::Selection selection) {
  session::MeasurementSpec spec;
  spec.selection = std::move(selection);
  if (options.allow_missing) spec.unmatched = session::Unmatched::accept;
  if (options.force) spec.risk = placement::Risk::unknown_unwinder;
  spec.ends = options.ends;
  if (options.follow_exec) spec.exec = session::Exec::followed;
  spec.once = options.once;
  spec.hooks_execs = options.follow_exec || options.follow_children;
  spec.arming = {.fraction_bits = options.bits,
                 .slots = options.slots,
                 .count_children = options.count_children,
                 .trap = options.trap,
                 .callers = {},
                 .keys = options.keys,
                 .ring_bytes = options.buffer_bytes};
  if (options.overwrite)
    spec.arming.rings = options.after_ns == 0 ? layout::EventRings::newest
                                              : layout::EventRings::newest_after_trigger;
  if (options.budget != 0) hold_budget(spec, options);
  return spec;
}

Result<void, Message> MeasuredProcesses::begin() {
  auto selection = parse_patterns(options_);
  if (!selection) return fail(selection.error());
  spec_ = spec_of(options_, *std::move(selection));
  std::vector<pid_t> pids = options_.pids;
  if (options_.has_command()) {
    auto launched =
        session::Launched::start(options_.command, interrupts_.before(), interrupts_.descriptor());
    if (!launched) return fail(message(launched.error()));
    launched_.emplace(*std::move(launched));
    pids = {launched_->pid()};
    if (options_.silence_mcount) {
      const auto waits = silence(*launched_, renderer_);
      if (!waits) return fail(waits.error());
      has_more_to_silence_ = *waits;
    }
  }
  if (launched_) follower_.set_own(launched_->pid());
  follower_.set_only([this](pid_t pid) {
    return std::any_of(measurements_.begin(), measurements_.end(), [&](const Measurement& one) {
      return one.process().pid == pid && !one.has_ended();
    });
  });
  for (pid_t pid : pids)
    if (auto begun = begin_one(pid); !begun) return begun;
  if (auto armed = arm_relocated(); !armed) return armed;
  if (launched_) launched_->release();
  // Objects decoded later are written at the end.
  object_store().write_pending();
  return {};
}

Result<void, Message> MeasuredProcesses::begin_one(pid_t pid) {
  const auto progress = launched_ && launched_->relocates_later()
                            ? session::Progress::before_relocation
                            : session::Progress::runs;
  auto measurement = Measurement::begin(pid, spec_, object_store(), narrator_, progress);
  if (measurement) {
    measurements_.push_back(*std::move(measurement));
    return {};
  }
  Message error = message(measurement.error());
  const auto* unmatched = std::get_if<session::MatchError>(&measurement.error());
  if (launched_ && !options_.follow_exec && unmatched != nullptr &&
      std::holds_alternative<session::NothingMatched>(*unmatched))
    error.text += if_it_only_executes(options_.allow_missing);
  return fail(std::move(error));
}

// What has to wait for the loader of the command, and not for more than that.
Result<void, Message> MeasuredProcesses::arm_relocated() {
  if (!launched_) return {};
  const bool is_awaited = measurements_.front().waits_for_relocation();
  if (!is_awaited && !has_more_to_silence_) return {};
  // If the command has ended meanwhile, that is noticed as ever.
  if (!launched_->relocate()) {
    if (launched_->is_interrupted()) return fail(interrupted_while_arming());
    return {};
  }
  if (has_more_to_silence_)
    if (const auto silenced = silence(*launched_, renderer_); !silenced)
      return fail(silenced.error());
  if (!is_awaited) return {};
  auto armed = measurements_.front().arm_relocated();
  if (!armed) return fail(message(armed.error()));
  return {};
}

// While a thread is held, nothing is printed, since a reader of that may be slow.
void MeasuredProcesses::follow_execs() {
  if (!options_.follow_exec) return;
  for (const Measurement& one : measurements_) follower_.watch(one.exec_watches());
  while (auto held = follower_.next()) {
    const Narrator::Silence silence(narrator_);
    for (Measurement& one : measurements_)
      if (one.process().pid == held->pid()) {
        one.note_exec();
        follower_.watch(one.exec_watches());
      }
    held.reset();
  }
}

void MeasuredProcesses::notice_ends() {
  follow_execs();
  using Certainty = session::ExecutedProgram::Certainty;
  for (Measurement& one : measurements_) {
    // Its new program is measured once it is handed out: nothing else can attach to it now.
    if (follower_.follows(one.process().pid)) continue;
    if (!one.notice_end() || options_.follow_exec) continue;
    const auto program = one.executed_program();
    // Only a command that we started is likely to be a wrapper.
    if (program && (launched_ || program->certainty == Certainty::certain))
      renderer_.warning(warning::executed(one.process().command, *program));
  }
  renderer_.flush();
}

bool MeasuredProcesses::all_ended() const {
  return std::all_of(measurements_.begin(), measurements_.end(),
                     [](const Measurement& one) { return one.has_ended(); });
}

// There is no notice when slots or histograms run short, nor of a thread that waits to execute a
// program, or has executed one. So we look now and then, and more often if it matters.
uint64_t MeasuredProcesses::look_again_ns() const {
  if (options_.follow_exec) return 500'000;
  if (spec_.budget) return 5'000'000;
  const bool needs_memory = spec_.selection.has_others_than(placement::Kind::count);
  return needs_memory || launched_ ? 10'000'000 : 500'000'000;
}

std::vector<int> MeasuredProcesses::descriptors() const {
  std::vector<int> all;
  for (const Measurement& one : measurements_)
    if (!one.has_ended())
      for (int descriptor : one.descriptors()) all.push_back(descriptor);
  return all;
}

uint64_t MeasuredProcesses::look_after() {
  constexpr uint64_t kSoonNs = 1'000'000;
  bool soon = false;
  log_.begin_turn(EventTurn::one_of_many);
  for (Measurement& one : measurements_)
    if (!one.has_ended()) soon = one.look_after() || soon;
  log_.go_on();
  renderer_.flush();
  // A thread that comes out of the kernel is stopped until we settle it.
  const bool is_settled = target::Stop::settle() == 0;
  return soon || !is_settled ? kSoonNs
                             : std::min(look_again_ns(), session::until_due_ns(measurements_));
}

void MeasuredProcesses::report(session::Period period, session::ReportSink& sink) {
  for (Measurement& one : measurements_) one.report(period, sink);
}

void MeasuredProcesses::disarm_all() {
  for (Measurement& one : measurements_) one.disarm();
}

int MeasuredProcesses::command_status() {
  const int status = launched_->wait();
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

int MeasuredProcesses::fail_with(const Message& message) {
  renderer_.error(message);
  follower_.close();
  disarm_all();
  renderer_.flush();
  if (message.exit == kInterrupted && interrupts_.arrived())
    return kSignalBase + interrupts_.signal();
  return options_.has_command() && message.exit != kUsage ? kFailedWithCommand : message.exit;
}

void MeasuredProcesses::stop_events() {
  for (Measurement& one : measurements_) one.stop_events();
}

void MeasuredProcesses::read_newest_events() {
  for (Measurement& one : measurements_) one.read_newest_events();
}

void MeasuredProcesses::restart_events(bool goes_on) {
  for (Measurement& one : measurements_) one.restart_events(goes_on);
}

void MeasuredProcesses::end() {
  notice_ends();
  follower_.close();
  const uint64_t now = monotonic_ns();
  stop_events();
  log_.begin_turn(EventTurn::last);
  for (Measurement& one : measurements_) one.end(now);
  disarm_all();
  log_.finish();
}

int MeasuredProcesses::conclude() {
  for (const Measurement& one : measurements_)
    if (const uint64_t refused = one.refused(); refused != 0)
      renderer_.warning(warning::calls_refused(refused));
  for (const Measurement& one : measurements_)
    if (one.disarmed()) renderer_.detached(one.process(), *one.disarmed());
  if (const auto why = without_results()) renderer_.error(*why);
  renderer_.flush();
  return exit_code();
}

// What cannot be probed may have come with a library that is loaded later, but has not.
std::optional<Message> MeasuredProcesses::without_results() const {
  const auto any = [&](auto has) {
    return std::any_of(measurements_.begin(), measurements_.end(), has);
  };
  if (options_.allow_missing ||
      any([](const Measurement& one) { return one.waits_for_relocation(); }) ||
      any([](const Measurement& one) { return one.has_armed_any(); }) ||
      !any([](const Measurement& one) { return one.has_skipped_any(); }))
    return std::nullopt;
  return message(session::NothingArmed{spec_.selection.kind()});
}

int MeasuredProcesses::exit_code() {
  session::Shortfall shortfall;
  for (const Measurement& one : measurements_) shortfall |= one.shortfall();
  const bool is_lossy = shortfall.missed && options_.fail_on_loss;
  if (launched_) {
    const int status = command_status();
    if (shortfall.disarm_failed || renderer_.is_broken() || without_results())
      return kFailedWithCommand;
    return is_lossy ? kLost : status;
  }
  if (shortfall.disarm_failed || renderer_.is_broken()) return kFailed;
  if (const auto why = without_results()) return why->exit;
  if (is_lossy) return kLost;
  if (shortfall.incomplete && !options_.allow_missing) return kFailed;
  return kOk;
}

}  // namespace pinprick::cli
