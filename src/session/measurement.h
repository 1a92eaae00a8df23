// One process under measurement by one owner, from arming its first probe to disarming the last.
// The process may load and unload objects and execute other programs meanwhile: each gets a batch
// of probes of its own (docs/load-tracking.md). The results are the sum of all batches.
//
// One thread uses it. It waits for descriptors(), and calls notice_end() and look_after() now and
// then. Changes to the process wait for their turn (ledger/turn.h). What happens, and what could
// not be done, is told to a listener.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "image/process.h"
#include "session/budget_keeper.h"
#include "session/caller_watch.h"
#include "session/events.h"
#include "session/hit_removal.h"
#include "session/measurement_error.h"
#include "session/measurement_listener.h"
#include "session/planning.h"
#include "session/report.h"
#include "session/results.h"
#include "session/subject.h"
#include "target/remote_target.h"

namespace pinprick::session {

// How the results fall short of what was requested.
struct Shortfall {
  bool incomplete = false;     // a function that was selected by name is not probed
  bool missed = false;         // hits or calls were not recorded although probes were armed
  bool disarm_failed = false;  // a probe may still be there, or was overwritten by others

  Shortfall& operator|=(const Shortfall& other);
};

// A program that a process has executed while it was measured, and that is not probed.
struct ExecutedProgram {
  std::string name;
  // For a process that has ended, only its name is known, which it may have set itself.
  enum class Certainty : uint8_t { probable, certain } certainty = Certainty::certain;
};

class Measurement {
 public:
  // Takes out what dead owners have left in the process, and arms what `spec` selects. `spec`,
  // `store` and `listener` must outlive the measurement. With Progress::at_exec we hold the
  // process's only thread (target/held_thread.h), and its loader has not run. `held` is null, or
  // the process's maps, read since then.
  static Result<Measurement, MeasurementError> begin(
      pid_t pid, const MeasurementSpec& spec, image::ObjectStore& store,
      MeasurementListener& listener, Progress progress = Progress::runs,
      const std::vector<image::Mapping>* held = nullptr);
  // The measurement of a process that was forked from that of `parent` and has its probes, from now
  // on: what it has recorded before is among the parent's results. Nothing is lost in between, and
  // nothing counts twice. Fails with Busy if that is not possible just now.
  static Result<Measurement, MeasurementError> begin_forked(pid_t pid, const Measurement& parent,
                                                            MeasurementListener& listener);
  // The processes that have its probes by a fork, and count among its results.
  std::vector<pid_t> forked() const;
  bool has_forked(pid_t pid) const;

  // Begun before relocation: is there something to be armed that has to wait for it? Then let the
  // loader relocate, hold the process again, and call arm_relocated().
  bool waits_for_relocation() const { return unrelocated_.waits; }
  Result<void, MeasurementError> arm_relocated();

  const ProcessName& process() const { return process_; }

  // Where children, and the process itself, wait before they execute a program, with
  // MeasurementSpec::hooks_execs; of each batch that has such hooks.
  std::vector<std::shared_ptr<engine::ExecWatch>> exec_watches() const;

  // Descriptors that become readable when the process ends, or loads or unloads objects.
  std::vector<int> descriptors() const;
  // Provides slots and histograms, hands over events, probes what was loaded, admits callers, and
  // holds the budget.
  // Call it now and then until the end was noticed; call it soon if it returns true. With a budget,
  // call it each 10 ms at least. With MeasurementSpec::once, it also takes out the probes that were
  // hit, if it is called at due_ns() or later.
  bool look_after();
  // When the next call is due at the latest, by monotonic_ns(), for the sake of probes that were
  // hit; UINT64_MAX without MeasurementSpec::once.
  uint64_t due_ns() const { return spec_->once ? hit_removal_.due_ns() : UINT64_MAX; }

  // From now on, what is loaded is selected by this spec: it differs in the names of objects only.
  void reselect(const MeasurementSpec& spec) {
    spec_ = &spec;
    mapped_.clear();
  }

  // Probes an object that was just mapped, unless calls are timed: then it is probed when the
  // loader reports it. Must be called while the thread that mapped it is held.
  void note_mapped();

  // Returns when it was armed first.
  uint64_t armed_ns() const { return armed_ns_; }
  // Returns whether the end was noticed.
  bool has_ended() const { return ended_ns_ != 0; }
  uint64_t ended_ns() const { return ended_ns_; }
  // Checks whether the process has ended or runs another program. With Exec::followed the
  // measurement goes on in that program. Returns true once, when it notices the end.
  bool notice_end();
  // With Exec::followed: the process runs another program, and we hold it before its first
  // instruction. The measurement goes on there.
  void note_exec();
  // With Exec::ends: the program that the process runs instead, or has probably run.
  std::optional<ExecutedProgram> executed_program() const;
  // Is it still about to end? Until it has, it may have its memory.
  bool is_ending() const { return has_ended() && !target().has_exited(); }
  // Ends it now, unless its end was noticed before.
  void end(uint64_t now_ns);

  // Where rings keep the newest events, they get no more of them.
  void stop_events();
  // Hands over what such rings hold, which were stopped before.
  void read_newest_events() { static_cast<void>(read_events(EventReader::Turn::last)); }
  // What was handed over is not handed over again. They go on, unless they are to stay stopped.
  void restart_events(bool goes_on);
  // Takes out all probes, and hands over the last events. Results stay readable.
  void disarm();
  // What was taken out so far; nullopt before the first disarm.
  const std::optional<engine::DisarmReport>& disarmed() const { return disarmed_; }

  // Hands a report to the sink. The names in its rows are valid during the call.
  void report(Period period, ReportSink& sink);
  // By pattern of the selection, and point of a span: has it matched in any program that the
  // process ran, whether that could be probed or not? Empty if nothing ever matched.
  const std::vector<bool>& matched() const { return matched_; }
  // How many calls were missed for lack of memory for histograms.
  uint64_t refused() const { return engine_.refused(); }
  Shortfall shortfall() const;
  // Was anything ever probed, in any program that the process ran? And was anything refused?
  bool has_armed_any() const { return has_armed_any_; }
  bool has_skipped_any() const { return has_skipped_any_; }

 private:
  // A loaded object: a file, whatever its name is by now, and where it is.
  struct LoadedAt {
    uint64_t bias = 0;
    image::FileNumber file;
    std::string path;
    friend bool operator<(const LoadedAt& a, const LoadedAt& b) {
      const auto of_a = std::tie(a.bias, a.file), of_b = std::tie(b.bias, b.file);
      return of_a != of_b ? of_a < of_b : a.file.inode == 0 && a.path < b.path;
    }
  };
  static LoadedAt loaded_at(const image::ProcessImage& image, const image::Object& object);
  static std::set<LoadedAt> objects_in(const image::ProcessImage& image);
  void forget(std::string_view path, uint64_t bias);
  // Code of a file, and where it is mapped.
  struct MappedCode {
    std::string path;
    uint64_t device = 0, inode = 0;
    Address begin = 0;
    friend auto operator<=>(const MappedCode&, const MappedCode&) = default;
  };
  static std::set<MappedCode> code_in(const std::vector<image::Mapping>& maps);

  Measurement(ProcessName process, target::RemoteTarget target, const MeasurementSpec& spec,
              image::ObjectStore& store, MeasurementListener& listener);

  Result<void, MeasurementError> arm_program(Progress progress = Progress::runs,
                                             const std::vector<image::Mapping>* held = nullptr);
  // These return what was armed, or nullptr if all that could be has to wait for relocation.
  Result<engine::Batch*, MeasurementError> look_and_arm(Progress progress,
                                                        const std::vector<image::Mapping>* held);
  Result<engine::Batch*, MeasurementError> plan_and_arm(Subject& subject, Progress progress);
  Result<engine::Batch*, MeasurementError> arm(std::unique_ptr<image::ProcessImage> image,
                                               placement::ProbeSet set);
  void note_matched(const engine::Batch& batch);
  bool is_each_name_refused(const engine::ArmReport& report) const;
  void note_armed(const engine::ArmReport& report);
  void note_text_without_functions(image::ProcessImage& image,
                                   const std::function<bool(const image::Object&)>& looks_at = {});
  bool follow_exec(Progress progress);
  void retire(engine::Engine::Batches::iterator batch);
  void note(const Result<engine::DisarmReport, ledger::SessionError>& report);
  void remove_hit();
  void watch_reads();
  void look_at_threads();
  bool read_events(EventReader::Turn turn = EventReader::Turn::one_of_many);

  // measurement_loads.cc
  bool has_loaded() const;
  void track_loads();
  void look_again(bool although_loading = false);
  bool changes_nothing(const std::vector<image::Mapping>& maps) const;
  void note_objects(const image::ProcessImage& image);
  Result<void, MeasurementError> arm_loaded(std::unique_ptr<image::ProcessImage> now,
                                            const std::set<LoadedAt>& before);
  Result<void, MeasurementError> arm_matches(std::unique_ptr<image::ProcessImage> now,
                                             std::vector<image::Match> matches,
                                             std::span<const placement::HookSite> hooks = {});
  void leave_out_unfinished(std::vector<image::Match>& matches);
  void note_load_missed(const MeasurementError& why);
  void forget_unloaded(const image::ProcessImage& now);
  void forget_what_came_later(const Measurement& parent);
  void admit_callers();
  void forget_unprobed(engine::Batch& batch, std::span<const placement::HookSite> hooks);
  void note_names(const std::shared_ptr<image::ProcessImage>& image);
  void leave_for_names(const std::shared_ptr<image::ProcessImage>& image,
                       const std::set<const image::Object*>& probed);
  uint64_t retire_gone(const image::ProcessImage& now);

  // measurement_budget.cc
  void keep_budget();
  void bring_back(const std::set<MatchKey>& wanted);
  uint64_t arm_again(const std::set<MatchKey>& wanted);

  // Has the process ended, or does it run another program?
  bool is_gone() const { return target().has_exited() || !target().same_image(); }
  const target::RemoteTarget& target() const { return engine_.target(); }
  MeasurementError error_of_exit() const;
  void note_missed(Report& report);

  ProcessName process_;
  engine::Engine engine_;  // in the program that it runs
  const MeasurementSpec* spec_;
  image::ObjectStore* store_;
  MeasurementListener* listener_;

  engine::Engine::Batches unarmed_;  // of which a listener may still tell
  bool has_armed_any_ = false, has_skipped_any_ = false;
  std::set<LoadedAt> known_;        // the objects at the last look at all of them
  std::vector<Range> object_code_;  // the executable ranges of these
  std::set<MappedCode> mapped_;     // what there was when loads were last looked at
  CallerWatch callers_;
  HitRemoval hit_removal_;
  std::shared_ptr<LoadedCode> code_;  // has all objects if code is to be named
  std::set<LoadedAt> named_;          // the objects that it has
  std::shared_ptr<ThreadCommands> commands_;
  EventReader events_;
  bool has_failed_to_remove_ = false;     // which the listener knows
  bool is_reading_slowly_known_ = false;  // to the listener
  Unrelocated unrelocated_;
  std::vector<bool> matched_;
  std::set<engine::BatchId> stuck_;  // batches that could not be taken out once they were gone
  bool is_forked_ = false;
  // Arming has failed, and its memory may not have been taken out again.
  bool has_left_over_ = false;

  std::optional<BudgetKeeper> budget_;
  Results results_;
  std::optional<engine::DisarmReport> disarmed_;
  Shortfall shortfall_;
  uint64_t armed_ns_ = 0;
  uint64_t ended_ns_ = 0;  // 0: not yet
  uint64_t reported_ns_ = 0;
};

// Returns how long it is until one of these has to be looked after again, by due_ns(); UINT64_MAX
// if none has to be.
template <class Measurements>
uint64_t until_due_ns(const Measurements& all) {
  uint64_t due_ns = UINT64_MAX;
  for (const Measurement& one : all)
    if (!one.has_ended()) due_ns = std::min(due_ns, one.due_ns());
  const uint64_t now_ns = monotonic_ns();
  return due_ns == UINT64_MAX ? due_ns : due_ns - std::min(due_ns, now_ns);
}

// Returns when the first of these was armed: from then on there are hits. Without any, returns now.
uint64_t first_armed_ns(const std::list<Measurement>& all);

}  // namespace pinprick::session
