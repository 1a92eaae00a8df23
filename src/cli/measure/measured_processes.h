// The processes that a verb measures: begins all of them, looks after them, and ends them. Prints
// what happens through the renderer. One thread uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/interrupts.h"
#include "cli/measure/event_output.h"
#include "cli/messages/messages.h"
#include "cli/messages/narrator.h"
#include "cli/options.h"
#include "cli/render/renderer.h"
#include "session/exec_follower.h"
#include "session/launch.h"
#include "session/measurement.h"

namespace pinprick::cli {

class MeasuredProcesses {
 public:
  // The arguments must outlive this.
  MeasuredProcesses(const Options& options, Renderer& renderer, Interrupts& interrupts,
                    EventOutput& log)
      : options_(options),
        renderer_(renderer),
        interrupts_(interrupts),
        log_(log),
        narrator_(options, renderer, log, interrupts.descriptor()) {}

  // Arms what the options select in all processes, or in the command that it starts. If it fails,
  // processes may have been begun; fail_with() or end() ends these.
  Result<void, Message> begin();
  bool is_empty() const { return measurements_.empty(); }
  // Begun so far.
  std::vector<session::Measurement>& all() { return measurements_; }
  const std::vector<session::Measurement>& all() const { return measurements_; }
  // Must look_after() be called all the time, since a budget is held?
  bool holds_budget() const { return spec_.budget && !all_ended(); }

  // Descriptors that become readable when a process ends, or loads or unloads objects.
  std::vector<int> descriptors() const;
  void notice_ends();
  bool all_ended() const;
  // Were as many events printed as the user wants?
  bool has_enough() const { return log_.is_full(); }
  // Does what the processes need now and then. Returns the nanoseconds until the next call.
  uint64_t look_after();

  void report(session::Period period, session::ReportSink& sink);

  // Of rings that keep the newest events (session/measurement.h).
  void stop_events();
  void read_newest_events();
  void restart_events(bool goes_on);

  // Ends the measurements and takes out all probes. Results stay readable.
  void end();
  // To be called after end(): prints what was lost, and that the probes are out. Returns the exit
  // status.
  int conclude();
  // Prints the error, takes out all probes, and returns the exit status.
  int fail_with(const Message& message);

 private:
  Result<void, Message> begin_one(pid_t pid);
  Result<void, Message> arm_relocated();
  void follow_execs();
  uint64_t look_again_ns() const;
  // Returns the reason if nothing was ever probed; nullopt if something was.
  std::optional<Message> without_results() const;
  int exit_code();
  int command_status();
  void disarm_all();

  const Options& options_;
  Renderer& renderer_;
  Interrupts& interrupts_;
  EventOutput& log_;
  Narrator narrator_;
  session::MeasurementSpec spec_;
  std::vector<session::Measurement> measurements_;
  std::optional<session::Launched> launched_;
  bool has_more_to_silence_ = false;  // calls of mcount, once the command is relocated
  session::ExecFollower follower_;    // with --follow-exec
};

}  // namespace pinprick::cli
