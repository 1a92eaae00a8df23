// The processes that a verb measures with --children=follow: those that it was given, and what they
// and their children execute, as deep as it goes. Sums what they recorded. One thread uses it.
//
// While a thread of a process is held, nothing is printed, because the reader may be slow.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "cli/interrupts.h"
#include "cli/measure/event_output.h"
#include "cli/measure/measured_files.h"
#include "cli/messages/messages.h"
#include "cli/messages/narrator.h"
#include "cli/options.h"
#include "cli/render/renderer.h"
#include "session/collected_reports.h"
#include "session/exec_follower.h"
#include "session/forked_children.h"
#include "session/launch.h"
#include "session/measurement.h"

namespace pinprick::cli {

class MeasuredTree {
 public:
  // The arguments must outlive this.
  MeasuredTree(const Options& options, Renderer& renderer, Interrupts& interrupts,
               EventOutput& log);

  // These are as those of MeasuredProcesses.
  Result<void, Message> begin();
  bool is_empty() const { return measured_.empty() && figures_.ended == 0; }
  std::vector<int> descriptors() const;
  void notice_ends();
  bool all_ended();
  bool has_enough() const { return log_.is_full(); }
  uint64_t look_after();
  void report(session::Period period, session::ReportSink& sink);

  // Of rings that keep the newest events (session/measurement.h).
  void stop_events();
  void read_newest_events();
  void restart_events(bool goes_on);
  void end();
  int conclude();
  int fail_with(const Message& message);

 private:
  using All = std::list<session::Measurement>;

  Result<void, Message> begin_root(pid_t pid);
  Result<void, Message> arm_relocated();
  void serve();
  void serve_followed();
  void begin_child(pid_t pid);
  void watch(const session::Measurement& one) { follower_.watch(one.exec_watches()); }
  void measure_forked();
  All::iterator retire(All::iterator one);
  void finish_ended();
  void finish(session::Measurement& one);
  void collect(session::Measurement& one);
  ProcessName name() const;
  // Why there can be no results, or none for a pattern; nullopt if that is not known.
  std::optional<Message> without_results() const;
  int exit_code();

  const Options& options_;
  Renderer& renderer_;
  Interrupts& interrupts_;
  EventOutput& log_;
  Narrator narrator_;       // for the processes that we were given
  QuietListener listener_;  // for the others
  session::MeasurementSpec spec_;
  All measured_;
  All ended_;  // whose children have to get measurements of their own
  std::optional<session::Launched> launched_;
  bool has_more_to_silence_ = false;  // calls of mcount, once the command is relocated
  session::ExecFollower follower_;
  session::ForkedChildren forked_;
  session::CollectedReports whole_, interval_;
  uint64_t start_ns_ = 0, reported_ns_ = 0, end_ns_ = 0, last_ended_ns_ = 0;
  FilesFigures figures_;
  session::Shortfall shortfall_;
  std::vector<bool> matched_;  // patterns that have matched in any program
  bool ended_early_ = false;   // a program that was never relocated
  std::optional<engine::DisarmReport> disarmed_;
};

}  // namespace pinprick::cli
