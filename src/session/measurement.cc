#include "session/measurement.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/clock.h"
#include "base/task.h"
#include "image/maps.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "ledger/turn.h"
#include "session/left_over.h"
#include "target/held_thread.h"
#include "target/hijacked_thread.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

using placement::Kind;

// Has the process no session in its memory?
bool maps_no_session(const std::vector<image::Mapping>& maps) {
  return std::none_of(maps.begin(), maps.end(), [](const image::Mapping& mapping) {
    return mapping.shared && mapping.inode != 0;
  });
}

}  // namespace

Shortfall& Shortfall::operator|=(const Shortfall& other) {
  incomplete |= other.incomplete;
  missed |= other.missed;
  disarm_failed |= other.disarm_failed;
  return *this;
}

Measurement::Measurement(ProcessName process, target::RemoteTarget target,
                         const MeasurementSpec& spec, image::ObjectStore& store,
                         MeasurementListener& listener)
    : process_(std::move(process)),
      engine_(std::move(target)),
      spec_(&spec),
      store_(&store),
      listener_(&listener),
      code_(std::make_shared<LoadedCode>(process_.pid)),
      commands_(std::make_shared<ThreadCommands>(process_)),
      events_(code_, commands_),
      results_(code_, commands_) {}

Result<Measurement, MeasurementError> Measurement::begin(pid_t pid, const MeasurementSpec& spec,
                                                         image::ObjectStore& store,
                                                         MeasurementListener& listener,
                                                         Progress progress,
                                                         const std::vector<image::Mapping>* held) {
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(MeasurementError(turn.error()));
  auto target = open_target(pid);
  if (!target) return fail(MeasurementError(target.error()));
  if (held != nullptr && maps_no_session(*held)) ledger::note_no_session_files(pid);
  const auto maps = held != nullptr ? Result<std::vector<image::Mapping>, SystemError>(*held)
                                    : image::read_maps(pid);
  if (maps)
    if (auto closed = ledger::why_closed(pid, target->memory(), *maps))
      return fail(MeasurementError(*closed));
  const auto recorders = take_out_left_overs(pid, store);
  ProcessName process = {pid, target->command()};
  for (const pid_t recorder : recorders) listener.found_left_events(process, recorder);
  Measurement measurement(std::move(process), *std::move(target), spec, store, listener);
  if (auto armed = measurement.arm_program(progress, held); !armed) {
    if (!measurement.target().is_over()) return fail(armed.error());
    return fail(measurement.error_of_exit());
  }
  measurement.armed_ns_ = measurement.reported_ns_ = monotonic_ns();
  if (spec.budget) measurement.budget_.emplace(*spec.budget, pid, measurement.armed_ns_);
  return measurement;
}

Result<Measurement, MeasurementError> Measurement::begin_forked(pid_t pid,
                                                                const Measurement& parent,
                                                                MeasurementListener& listener) {
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(MeasurementError(turn.error()));
  auto target = open_target(pid);
  if (!target) return fail(MeasurementError(target.error()));
  Measurement measurement({pid, target->command()}, *target, *parent.spec_, *parent.store_,
                          listener);
  if (auto taken = measurement.engine_.take_over_forked(parent.engine_); !taken)
    return fail(MeasurementError(taken.error()));
  if (measurement.engine_.batches().empty()) return fail(measurement.error_of_exit());
  measurement.is_forked_ = true;
  measurement.known_ = parent.known_;
  measurement.mapped_ = parent.mapped_;
  *measurement.code_ = *parent.code_;
  measurement.named_ = parent.named_;
  measurement.has_armed_any_ = parent.has_armed_any_;
  measurement.has_skipped_any_ = parent.has_skipped_any_;
  measurement.forget_what_came_later(parent);
  measurement.object_code_ = parent.object_code_;
  measurement.armed_ns_ = measurement.reported_ns_ = monotonic_ns();
  if (parent.spec_->budget)
    measurement.budget_.emplace(*parent.spec_->budget, pid, measurement.armed_ns_,
                                BudgetKeeper::Origin::forked);
  measurement.admit_callers();
  // What it has loaded since the fork, its parent's hook did not tell.
  if (measurement.engine_.loader() != nullptr) measurement.look_again();
  return measurement;
}

// What the parent has loaded and armed since the fork is not armed here, even if this process has
// loaded the same to the same place.
void Measurement::forget_what_came_later(const Measurement& parent) {
  for (const engine::Batch& batch : parent.engine_.batches()) {
    const bool is_taken = std::any_of(engine_.batches().begin(), engine_.batches().end(),
                                      [&](const auto& own) { return own.image == batch.image; });
    // One that could not be taken counts with the parent.
    if (is_taken || batch.session.is_in(process_.pid)) continue;
    for (const auto& object : batch.image->objects) known_.erase(loaded_at(*batch.image, *object));
    mapped_.clear();
  }
}

std::vector<pid_t> Measurement::forked() const {
  std::set<pid_t> all;
  for (const engine::Batch& batch : engine_.batches())
    for (const pid_t pid : batch.session.forked()) all.insert(pid);
  return {all.begin(), all.end()};
}

bool Measurement::has_forked(pid_t pid) const {
  return std::any_of(engine_.batches().begin(), engine_.batches().end(),
                     [&](const engine::Batch& batch) { return batch.session.is_in(pid); });
}

MeasurementError Measurement::error_of_exit() const {
  return ledger::SessionError(
      target::AttachError{target::AttachCause::exited, process_.pid, 0, 0, {}});
}

Result<engine::Batch*, MeasurementError> Measurement::arm(
    std::unique_ptr<image::ProcessImage> image, placement::ProbeSet set) {
  if (set.may_unwind_elsewhere && !set.probes.empty()) listener_->may_unwind_elsewhere(process_);
  engine::ArmOptions options = spec_->arming;
  options.callers = engine_.code();
  const auto changed = engine_.apply(
      {.add = engine::Addition{std::move(image), std::move(set), std::move(options)}});
  if (!changed) return fail(MeasurementError(changed.error()));
  note_matched(*changed->added);
  return changed->added;
}

// All of its objects are new, and stay.
void Measurement::note_names(const std::shared_ptr<image::ProcessImage>& image) {
  for (const auto& object : image->objects) named_.insert(loaded_at(*image, *object));
  code_->add(image);
}

void Measurement::note_matched(const engine::Batch& batch) {
  const engine::Session& session = batch.session;
  const std::vector<image::Pattern>& wanted = spec_->selection.wanted;
  matched_.resize(wanted.size());
  const auto note = [&](size_t pattern) { matched_[pattern] = true; };
  for (const engine::ArmedProbe& probe : session.probes()) {
    const size_t pattern = session.match_of(probe).pattern;
    note(pattern);
    if (session.kind_of(probe) == Kind::span) note(pattern + 1);  // it has that of the start
  }
  for (const placement::Skipped& skipped : session.report().skipped) note(skipped.match.pattern);
  // A probe has the first pattern that means it. Others may mean the same, or only what is
  // excluded. Only those that follow children or executions ask, and a loading thread may wait.
  if (wanted.size() == 1 || !spec_->hooks_execs) return;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!matched_[i] && !image::match_patterns(*batch.image, {wanted[i]}, {}).matches.empty())
      note(i);
}

// The task can be cancelled until the first jump is written. Everything is then undone.
Result<engine::Batch*, MeasurementError> Measurement::plan_and_arm(Subject& subject,
                                                                   Progress progress) {
  Task task;
  const auto watched = listener_->watch(task);
  try {
    const Task::Scope scope(&task);
    unrelocated_ = {};
    auto set = plan(subject, *spec_, progress,
                    progress == Progress::before_relocation ? &unrelocated_ : nullptr);
    // A process that ends meanwhile has no code to read, and planning fails for some other reason.
    if (!subject.target.same_image()) return fail(error_of_exit());
    if (!set || !set->probes.empty()) note_text_without_functions(*subject.image);
    if (!set) return fail(set.error());
    if (unrelocated_.waits && unrelocated_.sites.empty()) return nullptr;
    return arm(std::move(subject.image), *std::move(set));
  } catch (const Cancelled&) {
    return fail(MeasurementError(Interrupted{}));
  }
}

void Measurement::note_text_without_functions(
    image::ProcessImage& image, const std::function<bool(const image::Object&)>& looks_at) {
  for (const auto& code : text_without_functions(image, spec_->selection.wanted, looks_at))
    listener_->unseen(process_, code);
}

Result<engine::Batch*, MeasurementError> Measurement::look_and_arm(
    Progress progress, const std::vector<image::Mapping>* held) {
  for (bool is_first = true;; is_first = false) {
    auto subject = look_at(target(), *store_, progress, held);
    if (!subject) return fail(MeasurementError(subject.error()));
    if (is_first)
      for (const UnseenCode& code : unseen_objects(*subject->image, spec_->selection.wanted))
        listener_->unseen(process_, code);
    note_objects(*subject->image);
    // All that is armed when the loader has mapped the libraries is new to it then.
    if (progress == Progress::at_exec && awaits_loader(*subject, *spec_)) known_.clear();
    auto armed = plan_and_arm(*subject, progress);
    if (armed || !is_first || !is_outdated(armed.error())) return armed;
  }
}

Result<void, MeasurementError> Measurement::arm_program(Progress progress,
                                                        const std::vector<image::Mapping>* held) {
  const uint64_t start_ns = monotonic_ns();
  if (auto able = target::can_be_hijacked(process_.pid); !able)
    return fail(MeasurementError(ledger::SessionError(able.error())));
  const auto turn = ledger::Turn::take(process_.pid);
  if (!turn) return fail(MeasurementError(turn.error()));
  auto planned = look_and_arm(progress, held);
  if (!planned) return fail(planned.error());
  const engine::Batch* const armed = *planned;
  if (armed == nullptr) return {};
  if (spec_->selection.actions.name_code()) note_names(armed->image);
  admit_callers_of_statistics(target(), object_code_, armed->session.file_path());
  const engine::Session& session = armed->session;
  const engine::ArmReport& report = session.report();
  listener_->armed(process_, report, monotonic_ns() - start_ns);
  note_armed(report);
  // A library that comes later has what a name stands for only if nothing has it now.
  const bool may_come_later = session.loader() != nullptr && !is_each_name_refused(report);
  if (report.armed == 0 && !may_come_later && session.exec() == nullptr && !unrelocated_.waits) {
    unarmed_.splice(unarmed_.end(), engine_.batches(), std::prev(engine_.batches().end()));
    const Kind kind = spec_->selection.kind();
    // The next program may have the points that this one lacks.
    if (kind == Kind::span && spec_->unmatched == Unmatched::accept &&
        spec_->exec == Exec::followed)
      return {};
    return fail(MeasurementError(NothingArmed{kind}));
  }
  // Loads after our look, and before the hook was armed, did not wait for us.
  if (engine_.loader() != nullptr && progress == Progress::runs) look_again();
  return {};
}

Result<void, MeasurementError> Measurement::arm_relocated() {
  const Unrelocated before = std::exchange(unrelocated_, {});
  if (engine_.batches().empty()) return arm_program();
  auto subject = look_at(target(), *store_);
  if (!subject) return fail(MeasurementError(subject.error()));
  auto matches =
      match_loaded(*subject->image, spec_->selection, [](const image::Object&) { return true; });
  std::erase_if(matches,
                [&](const image::Match& match) { return before.sites.contains(match.site); });
  return arm_matches(std::move(subject->image), std::move(matches));
}

// Does each pattern name a function that is there, and cannot be probed? Not so with points, of
// which each library may have some by the same name.
bool Measurement::is_each_name_refused(const engine::ArmReport& report) const {
  if (spec_->unmatched == Unmatched::accept || !spec_->selection.has_others_than(Kind::span))
    return false;
  const auto& wanted = spec_->selection.wanted;
  std::set<size_t> refused;
  for (const placement::Skipped& skipped : report.skipped) refused.insert(skipped.match.pattern);
  return refused.size() == wanted.size() &&
         std::none_of(wanted.begin(), wanted.end(), [](const image::Pattern& pattern) {
           return pattern.has_wildcard() || pattern.names_points();
         });
}

// A name selects one function, so it is a shortfall if that cannot be probed. A wildcard, or
// Sites::every_instruction, only selects what can be probed.
void Measurement::note_armed(const engine::ArmReport& report) {
  has_armed_any_ = has_armed_any_ || report.armed != 0;
  has_skipped_any_ = has_skipped_any_ || !report.skipped.empty();
  if (report.slow_reads != engine::SlowReads::none) is_reading_slowly_known_ = true;
  const Selection& selection = spec_->selection;
  if (selection.sites == Sites::every_instruction) return;
  for (const placement::Skipped& skipped : report.skipped)
    if (!selection.wanted[skipped.match.pattern].has_wildcard()) shortfall_.incomplete = true;
}

std::vector<std::shared_ptr<engine::ExecWatch>> Measurement::exec_watches() const {
  std::vector<std::shared_ptr<engine::ExecWatch>> all;
  for (const engine::Batch& batch : engine_.batches())
    if (batch.session.exec() != nullptr) all.push_back(batch.session.exec());
  return all;
}

std::vector<int> Measurement::descriptors() const {
  std::vector<int> all = {target().exit_descriptor()};
  if (const engine::LoaderWatch* loader = engine_.loader(); loader != nullptr && !has_ended())
    all.push_back(loader->descriptor());
  return all;
}

bool Measurement::read_events(EventReader::Turn turn) {
  std::vector<engine::Batch*> batches;
  for (engine::Batch& batch : engine_.batches()) {
    batch.session.undo_late_stops();
    if (batch.session.keeps_newest_events() && batch.session.is_triggered()) listener_->triggered();
    batches.push_back(&batch);
  }
  return events_.read(process_, batches, *listener_, turn);
}

// A warning is of use only where hits read much.
void Measurement::watch_reads() {
  constexpr uint64_t kMuch = 1000;
  if (is_reading_slowly_known_) return;
  for (const engine::Batch& batch : engine_.batches()) {
    const auto why = batch.session.report().slow_reads;
    if (why == engine::SlowReads::none || batch.session.reads_by_kernel() < kMuch) continue;
    is_reading_slowly_known_ = true;
    listener_->reads_slowly(process_, why);
    return;
  }
}

// Names have to be seen while the threads are there.
void Measurement::look_at_threads() {
  const bool are_read_late = spec_->arming.rings != layout::EventRings::oldest;
  if (are_read_late || spec_->selection.names_threads()) commands_->look(monotonic_ns());
}

void Measurement::stop_events() {
  for (engine::Batch& batch : engine_.batches()) batch.session.stop_events();
}

void Measurement::restart_events(bool goes_on) {
  for (engine::Batch& batch : engine_.batches()) batch.session.restart_events(goes_on);
}

bool Measurement::look_after() {
  bool soon = read_events();
  look_at_threads();
  if (spec_->selection.actions.name_code()) code_->look();
  for (engine::Batch& batch : engine_.batches()) soon = batch.session.provide() || soon;
  if (has_loaded()) track_loads();
  watch_reads();
  if (spec_->once) remove_hit();
  if (budget_ && budget_->is_due(monotonic_ns())) keep_budget();
  if (!spec_->selection.times_calls() || !callers_.finds_new(engine_)) return soon;
  if (const auto subject = look_at(target(), *store_)) {
    object_code_ = subject->image->calling_code();
    admit_callers();
  }
  return soon;
}

// While the process ends, nothing can be taken out of it, and nothing has to be.
void Measurement::remove_hit() {
  const auto failed = hit_removal_.look(engine_);
  if (!failed || has_failed_to_remove_ || target().is_over()) return;
  has_failed_to_remove_ = true;
  listener_->removal_failed(process_, *failed);
}

bool Measurement::notice_end() {
  if (has_ended() || !is_gone()) return false;
  if (spec_->exec == Exec::followed && !target().has_exited() && follow_exec(Progress::runs))
    return false;
  // Its last events are read now, and do not wait for the end of the other processes.
  static_cast<void>(read_events());
  ended_ns_ = monotonic_ns();
  return true;
}

void Measurement::note_exec() {
  if (!has_ended() && !follow_exec(Progress::at_exec)) ended_ns_ = monotonic_ns();
}

// To be called when the process runs another program: the old one is gone, with all our memory in
// it. Returns false if the new program cannot be opened, or if there is none.
bool Measurement::follow_exec(Progress progress) {
  auto executed = open_target(process_.pid);
  if (!executed) {
    // A process that is about to end has no program either.
    if (target().runs_another()) {
      listener_->exec_missed(process_, executed.error());
      shortfall_.missed = true;
    }
    return false;
  }
  if (executed->start_time() != target().start_time() || executed->ends()) return false;
  while (!engine_.batches().empty()) {
    static_cast<void>(engine_.batches().back().session.disarm());
    retire(std::prev(engine_.batches().end()));
  }
  engine_.change_program(*std::move(executed));
  if (budget_) budget_->forget_program(monotonic_ns());
  process_.command = target().command();
  commands_->follow_exec(process_);
  code_->clear(process_.pid);
  named_.clear();
  listener_->executed(process_);
  auto armed = arm_program(progress);
  const bool is_over = target().is_over();
  if (!armed && !is_over) listener_->exec_missed(process_, armed.error());
  // A program that runs already has run unseen; one that has ended meanwhile, as a whole.
  shortfall_.missed = shortfall_.missed || progress == Progress::runs || (!armed && !is_over);
  return true;
}

// For example, a wrapper may have executed the program that it was to start. If the process has
// ended since, its name may still tell; but it may have changed the name itself.
std::optional<ExecutedProgram> Measurement::executed_program() const {
  using Certainty = ExecutedProgram::Certainty;
  const auto program = target::executable_path(process_.pid);
  if (program && !target().has_exited()) return ExecutedProgram{*program, Certainty::certain};
  const auto status = target::read_status(process_.pid);
  if (!status || status->command == process_.command || engine_.has_hits()) return std::nullopt;
  return ExecutedProgram{status->command, Certainty::probable};
}

void Measurement::end(uint64_t now_ns) {
  if (!has_ended()) ended_ns_ = now_ns;
}

void Measurement::retire(engine::Engine::Batches::iterator batch) {
  engine::Batch* const one = &*batch;
  static_cast<void>(events_.read(process_, {&one, 1}, *listener_, EventReader::Turn::last));
  events_.forget(batch->id);
  look_at_threads();
  results_.retire(engine_, batch);
}

void Measurement::disarm() {
  // Objects loaded since may have an unwinder, which may be at work on a timed call; others may be
  // gone.
  std::unique_ptr<image::ProcessImage> now;
  const bool has_changed = engine_.loader() != nullptr || is_forked_;
  if ((has_changed || spec_->selection.times_calls()) && !is_gone())
    if (auto subject = look_at(target(), *store_)) now = std::move(subject->image);
  std::for_each(engine_.batches().rbegin(), engine_.batches().rend(),
                [&](engine::Batch& last) { note(last.session.disarm(now.get())); });
  static_cast<void>(read_events(EventReader::Turn::last));
  if (has_left_over_) static_cast<void>(take_out_left_overs(process_.pid, *store_));
}

void Measurement::note(const Result<engine::DisarmReport, ledger::SessionError>& report) {
  if (!report) {
    listener_->disarm_failed(process_, report.error());
    shortfall_.disarm_failed = true;
    return;
  }
  if (!disarmed_) disarmed_.emplace();
  *disarmed_ += *report;
  if (report->foreign != 0) shortfall_.disarm_failed = true;
}

Shortfall Measurement::shortfall() const {
  Shortfall all = shortfall_;
  all.missed |= refused() != 0;
  return all;
}

// A hit that a counting probe does not count is no loss that could be known.
void Measurement::note_missed(Report& report) {
  using layout::Loss;
  const layout::Losses losses = losses_of(report.rows);
  const uint64_t missed = losses[Loss::missed];
  shortfall_.missed |=
      missed + losses[Loss::from_generated] + losses[Loss::unread] + losses[Loss::dropped] != 0;
  if (report.times_calls() && report.is_final && missed > refused())
    report.slots_to_ask_for = engine_.slots_to_ask_for();
}

void Measurement::report(Period period, ReportSink& sink) {
  look_at_threads();
  const uint64_t until_ns = has_ended() ? ended_ns_ : monotonic_ns();
  const uint64_t from_ns = std::min(until_ns, period == Period::whole ? armed_ns_ : reported_ns_);
  for (Report& report : results_.reports(engine_.batches(), spec_->selection, period, sink)) {
    report.process = process_;
    report.seconds = static_cast<double>(until_ns - from_ns) / 1e9;
    if (budget_) {
      budget_->note_absences(report.rows, from_ns, until_ns);
      if (report.is_final && report.measure == 0) report.budget = budget_->figures();
    }
    note_missed(report);
    sink.report(report);
  }
  reported_ns_ = monotonic_ns();
}

uint64_t first_armed_ns(const std::list<Measurement>& all) {
  uint64_t first = monotonic_ns();
  for (const Measurement& one : all) first = std::min(first, one.armed_ns());
  return first;
}

}  // namespace pinprick::session
