#include "cli/measure/measured_tree.h"

#include <sys/wait.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "cli/measure/patterns.h"
#include "cli/measure/spec.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"
#include "cli/silence.h"
#include "session/matching.h"
#include "target/stop.h"

namespace pinprick::cli {
namespace {

using session::Measurement;

}  // namespace

MeasuredTree::MeasuredTree(const Options& options, Renderer& renderer, Interrupts& interrupts,
                           EventOutput& log)
    : options_(options),
      renderer_(renderer),
      interrupts_(interrupts),
      log_(log),
      narrator_(options, renderer, log_, interrupts.descriptor()),
      listener_(log_),
      whole_(options.by_pid ? session::Keep::each : session::Keep::sum),
      interval_(options.by_pid ? session::Keep::each : session::Keep::sum) {}

Result<void, Message> MeasuredTree::begin() {
  auto selection = parse_patterns(options_);
  if (!selection) return fail(selection.error());
  spec_ = spec_of(options_, *std::move(selection));
  // The next program may have what this one lacks.
  spec_.unmatched = session::Unmatched::accept;
  spec_.exec = session::Exec::ends;
  std::vector<pid_t> pids = options_.pids;
  if (options_.has_command()) {
    auto launched =
        session::Launched::start(options_.command, interrupts_.before(), interrupts_.descriptor());
    if (!launched) return fail(message(launched.error()));
    launched_.emplace(*std::move(launched));
    follower_.set_own(launched_->pid());
    pids = {launched_->pid()};
    if (options_.silence_mcount) {
      const auto waits = silence(*launched_, renderer_);
      if (!waits) return fail(waits.error());
      has_more_to_silence_ = *waits;
    }
  }
  for (const pid_t pid : pids)
    if (auto begun = begin_root(pid); !begun) return begun;
  if (auto armed = arm_relocated(); !armed) return armed;
  start_ns_ = reported_ns_ = launched_ ? monotonic_ns() : session::first_armed_ns(measured_);
  if (launched_) launched_->release();
  object_store().keep_latest();
  object_store().write_pending();
  return {};
}

Result<void, Message> MeasuredTree::begin_root(pid_t pid) {
  const auto progress = launched_ && launched_->relocates_later()
                            ? session::Progress::before_relocation
                            : session::Progress::runs;
  auto begun = Measurement::begin(pid, spec_, object_store(), narrator_, progress);
  if (!begun) return fail(message(begun.error()));
  measured_.push_back(*std::move(begun));
  watch(measured_.back());
  ++figures_.present;
  return {};
}

Result<void, Message> MeasuredTree::arm_relocated() {
  if (!launched_) return {};
  const bool is_awaited = measured_.front().waits_for_relocation();
  if (!is_awaited && !has_more_to_silence_) return {};
  if (!launched_->relocate()) {
    if (launched_->is_interrupted()) return fail(interrupted_while_arming());
    return {};
  }
  if (has_more_to_silence_)
    if (const auto silenced = silence(*launched_, renderer_); !silenced)
      return fail(silenced.error());
  if (!is_awaited) return {};
  auto armed = measured_.front().arm_relocated();
  if (!armed) return fail(message(armed.error()));
  watch(measured_.front());
  return {};
}

// Where programs are executed all the time, this is not to go on for ever: those that have ended
// are to be finished, and a signal noticed.
void MeasuredTree::serve() {
  constexpr uint64_t kMostNs = 100'000'000;
  for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin < kMostNs;) {
    const auto held = follower_.next();
    if (!held) return;
    begin_child(held->pid());
    // Here it is let go, and then may wait for us again.
  }
}

// Until no thread is held, or one hangs in the kernel, which is not our doing. Others read what we
// print, and may be slow.
void MeasuredTree::serve_followed() {
  constexpr uint64_t kMostNs = 1'000'000'000;
  for (const uint64_t begin = monotonic_ns();
       follower_.is_busy() && monotonic_ns() - begin < kMostNs;)
    if (const auto held = follower_.next()) begin_child(held->pid());
}

void MeasuredTree::begin_child(pid_t pid) {
  ++figures_.caught;
  // The program that it ran before is gone.
  for (auto one = measured_.begin(); one != measured_.end();) {
    const bool is_former = one->process().pid == pid;
    if (is_former) one->notice_end();
    one = is_former ? retire(one) : std::next(one);
  }
  auto begun =
      Measurement::begin(pid, spec_, object_store(), listener_, session::Progress::at_exec);
  if (begun) {
    measured_.push_back(*std::move(begun));
    watch(measured_.back());
    return;
  }
  const Message why = message(begun.error());
  if (why.cause != "exited" && why.cause != "no_such_process") ++figures_.left_alone[why.cause];
}

// Children that execute nothing, for which there is no hook.
void MeasuredTree::measure_forked() {
  std::vector<const Measurement*> parents;
  for (const Measurement& one : measured_)
    if (!one.has_ended()) parents.push_back(&one);
  for (const auto& [parent, pid] : forked_.settled(parents)) {
    auto begun = Measurement::begin_forked(pid, *parent, listener_);
    if (begun) {
      measured_.push_back(*std::move(begun));
      watch(measured_.back());
    } else if (!session::is_busy(begun.error())) {
      forked_.leave(pid);
    }
  }
}

// The program is gone. Its children may have its probes.
MeasuredTree::All::iterator MeasuredTree::retire(All::iterator one) {
  const auto next = std::next(one);
  one->end(monotonic_ns());
  last_ended_ns_ = std::max(last_ended_ns_, one->ended_ns());
  ended_.splice(ended_.end(), measured_, one);
  return next;
}

void MeasuredTree::finish_ended() {
  constexpr uint64_t kLongestNs = 2'000'000'000;
  for (auto one = ended_.begin(); one != ended_.end();) {
    session::Forked forked = session::begin_forked(*one, listener_);
    for (Measurement& child : forked.begun) {
      measured_.push_back(std::move(child));
      watch(measured_.back());
    }
    if (forked.is_pending && monotonic_ns() - one->ended_ns() < kLongestNs) {
      ++one;
      continue;
    }
    finish(*one);
    one = ended_.erase(one);
  }
}

void MeasuredTree::finish(Measurement& one) {
  one.disarm();
  collect(one);
  ++figures_.ended;
}

void MeasuredTree::collect(Measurement& one) {
  if (options_.interval_s > 0) one.report(session::Period::interval, interval_);
  one.report(session::Period::whole, whole_);
  shortfall_ |= one.shortfall();
  ended_early_ = ended_early_ || one.waits_for_relocation();
  matched_.resize(std::max(matched_.size(), one.matched().size()));
  for (size_t i = 0; i < one.matched().size(); ++i) matched_[i] = matched_[i] || one.matched()[i];
  figures_.refused += one.refused();
  if (!one.disarmed()) return;
  if (!disarmed_) disarmed_.emplace();
  *disarmed_ += *one.disarmed();
}

std::vector<int> MeasuredTree::descriptors() const {
  std::vector<int> all;
  for (const Measurement& one : measured_)
    for (int descriptor : one.descriptors()) all.push_back(descriptor);
  return all;
}

void MeasuredTree::notice_ends() {
  serve();
  for (auto one = measured_.begin(); one != measured_.end();)
    one = one->notice_end() ? retire(one) : std::next(one);
  finish_ended();
}

bool MeasuredTree::all_ended() {
  return measured_.empty() && ended_.empty() && !follower_.is_busy() && follower_.is_unused();
}

uint64_t MeasuredTree::look_after() {
  // A thread that is about to execute makes no call that would wake us.
  constexpr uint64_t kSoonNs = 500'000;
  log_.begin_turn(EventTurn::one_of_many);
  serve();
  for (Measurement& one : measured_) {
    one.look_after();
    watch(one);
  }
  target::Stop::settle();
  serve();
  measure_forked();
  if (!follower_.is_busy()) {
    listener_.tell(renderer_);
    log_.go_on();
    renderer_.flush();
  }
  return kSoonNs;
}

ProcessName MeasuredTree::name() const {
  const size_t processes = figures_.ended + (end_ns_ == 0 ? measured_.size() + ended_.size() : 0);
  std::string of;
  for (const std::string& word : options_.command) of += (of.empty() ? "" : " ") + word;
  for (const pid_t pid : options_.pids) of += (of.empty() ? "" : ", ") + std::to_string(pid);
  return {0, std::to_string(processes) + (processes == 1 ? " program of " : " programs of ") + of};
}

void MeasuredTree::report(session::Period period, session::ReportSink& sink) {
  if (end_ns_ == 0) serve_followed();
  // All may have ended before the last interval did.
  const uint64_t until_ns = end_ns_ != 0 ? std::max(end_ns_, reported_ns_) : monotonic_ns();
  const bool is_whole = period == session::Period::whole;
  if (!is_whole)
    for (All* all : {&measured_, &ended_})
      for (Measurement& one : *all) one.report(period, interval_);
  const uint64_t from_ns = is_whole ? start_ns_ : reported_ns_;
  session::CollectedReports& collected = is_whole ? whole_ : interval_;
  collected.show(sink, name(), static_cast<double>(until_ns - from_ns) / 1e9, period);
  interval_.clear();
  reported_ns_ = until_ns;
}

void MeasuredTree::stop_events() {
  for (All* all : {&measured_, &ended_})
    for (Measurement& one : *all) one.stop_events();
}

void MeasuredTree::read_newest_events() {
  for (All* all : {&measured_, &ended_})
    for (Measurement& one : *all) one.read_newest_events();
}

void MeasuredTree::restart_events(bool goes_on) {
  for (All* all : {&measured_, &ended_})
    for (Measurement& one : *all) one.restart_events(goes_on);
}

void MeasuredTree::end() {
  notice_ends();
  const auto followed = follower_.figures();
  follower_.close();
  figures_.let_through = followed.missed;
  for (const auto& [cause, count] : followed.left_alone) figures_.left_alone[cause] += count;
  // To finish what has ended takes time in which nothing ran.
  const bool has_more = !measured_.empty() || last_ended_ns_ == 0;
  end_ns_ = has_more ? monotonic_ns() : last_ended_ns_;
  stop_events();
  log_.begin_turn(EventTurn::last);
  for (Measurement& one : measured_) {
    one.end(end_ns_);
    one.disarm();
    collect(one);
    ++figures_.ended;
  }
  measured_.clear();
  for (Measurement& one : ended_) finish(one);
  ended_.clear();
  log_.finish();
  figures_.processes = figures_.ended;
}

int MeasuredTree::conclude() {
  listener_.tell(renderer_);
  if (figures_.refused != 0) renderer_.warning(warning::calls_refused(figures_.refused));
  if (figures_.let_through != 0)
    renderer_.warning(warning::executions_not_followed(figures_.let_through));
  renderer_.files_detached(figures_, disarmed_.value_or(engine::DisarmReport()));
  if (const auto why = without_results()) renderer_.error(*why);
  renderer_.flush();
  return exit_code();
}

// Only at the end is it known that no program had such a function. Those that were left alone, or
// were not waited for, may have had one.
std::optional<Message> MeasuredTree::without_results() const {
  if (options_.allow_missing || ended_early_ || !figures_.left_alone.empty() ||
      figures_.let_through != 0)
    return std::nullopt;
  using session::NothingMatched;
  NothingMatched nothing = {.patterns = {},
                            .entry_sites = options_.entry_sites,
                            .remedy = NothingMatched::Remedy::accept};
  for (size_t i = 0; i < spec_.selection.wanted.size(); ++i)
    if (i >= matched_.size() || !matched_[i])
      nothing.patterns.push_back(spec_.selection.wanted[i].text());
  if (!nothing.patterns.empty()) return message(session::MatchError(nothing));
  if (!whole_.has_rows()) return message(session::NothingArmed{spec_.selection.kind()});
  return std::nullopt;
}

int MeasuredTree::exit_code() {
  const bool is_lossy = options_.fail_on_loss && (shortfall_.missed || figures_.let_through != 0);
  if (launched_) {
    const int status = launched_->wait();
    if (shortfall_.disarm_failed || renderer_.is_broken() || without_results())
      return kFailedWithCommand;
    if (is_lossy) return kLost;
    return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
  }
  if (shortfall_.disarm_failed || renderer_.is_broken()) return kFailed;
  if (const auto why = without_results()) return why->exit;
  if (is_lossy) return kLost;
  return shortfall_.incomplete && !options_.allow_missing ? kFailed : kOk;
}

int MeasuredTree::fail_with(const Message& message) {
  follower_.close();
  for (Measurement& one : measured_) one.disarm();
  for (Measurement& one : ended_) one.disarm();
  renderer_.error(message);
  renderer_.flush();
  if (message.exit == kInterrupted && interrupts_.arrived())
    return kSignalBase + interrupts_.signal();
  return options_.has_command() && message.exit != kUsage ? kFailedWithCommand : message.exit;
}

}  // namespace pinprick::cli
