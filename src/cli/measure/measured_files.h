// The processes that a rule by file measures (--all FILE): those that have the file mapped, and
// those that execute it later. Begins all of them, looks after them, sums what they recorded, and
// ends them. One thread uses it.
//
// While a thread of a process is held, nothing is printed, because the reader may be slow. Messages
// are kept until the thread is let go.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/interrupts.h"
#include "cli/measure/event_output.h"
#include "cli/messages/messages.h"
#include "cli/options.h"
#include "cli/render/renderer.h"
#include "image/process.h"
#include "session/collected_reports.h"
#include "session/forked_children.h"
#include "session/mapped_file.h"
#include "session/measurement.h"
#include "target/exec_catcher.h"
#include "target/exec_gate.h"

namespace pinprick::cli {

// Keeps the messages about many processes, each text once.
class QuietListener : public session::MeasurementListener {
 public:
  explicit QuietListener(session::EventSink& events) : events_(events) {}
  void event(const session::Event& event) override { events_.event(event); }
  bool has_room() const override { return events_.has_room(); }
  void triggered() override { events_.triggered(); }
  std::shared_ptr<void> watch(Task&) override { return nullptr; }
  void unseen(const ProcessName&, const session::UnseenCode& code) override;
  void may_unwind_elsewhere(const ProcessName& process) override;
  void reads_slowly(const ProcessName& process, engine::SlowReads why) override;
  void armed(const ProcessName&, const engine::ArmReport& report, uint64_t) override;
  void loaded(const ProcessName&, const std::vector<std::string>&, const engine::ArmReport& report,
              uint64_t) override;
  void unloaded(const ProcessName&, const std::vector<std::string>&) override {}
  void code_unfinished(const ProcessName& process, const std::string& object) override;
  void load_missed(const ProcessName&, const session::MeasurementError& why) override;
  void load_timed_out(const ProcessName& process) override;
  void executed(const ProcessName&) override {}
  void exec_missed(const ProcessName&, const session::MeasurementError&) override {}
  void removal_failed(const ProcessName& process, const ledger::SessionError& why) override;
  void budget_changed(const ProcessName& process, const session::BudgetEvent& event) override;
  void disarm_failed(const ProcessName& process, const ledger::SessionError& why) override;

  void warn(std::string text);
  // Prints what is new.
  void tell(Renderer& renderer);
  size_t functions() const { return functions_; }

 private:
  session::EventSink& events_;
  std::set<std::string> known_;
  std::vector<std::string> new_;
  std::vector<std::pair<ProcessName, session::BudgetEvent>> budget_events_;
  size_t functions_ = 0;  // the most that were armed in one process
};

class MeasuredFiles {
 public:
  // The arguments must outlive this.
  MeasuredFiles(const Options& options, Renderer& renderer, Interrupts& interrupts,
                EventOutput& log);

  // These are as those of MeasuredProcesses.
  Result<void, Message> begin();
  bool is_empty() const { return measured_.empty() && figures_.ended == 0; }
  std::vector<int> descriptors() const;
  void notice_ends();
  bool all_ended() const;
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

  Result<void, Message> open_files();
  Result<void, Message> check_patterns();
  Result<void, Message> check_each_pattern();
  void open_gate();
  Result<void, Message> scan();
  void serve(size_t most = SIZE_MAX);
  void serve_followed();
  void measure(const target::ExecCatcher::Caught& caught);
  void begin_one(pid_t pid, session::Progress progress);
  const session::MeasurementSpec* spec_for(const std::vector<image::Mapping>& maps);
  const session::Measurement* parent_of(const std::vector<image::Mapping>& maps, pid_t pid) const;
  bool begin_with_parent(pid_t pid);
  void note_names(pid_t pid, const std::vector<image::Mapping>& maps);
  bool runs_file(pid_t pid) const;
  void finish_ended();
  void measure_forked();
  void finish(session::Measurement& one);
  void collect(session::Measurement& one);
  ProcessName name() const;

  const Options& options_;
  Renderer& renderer_;
  Interrupts& interrupts_;
  EventOutput& log_;
  QuietListener listener_;
  session::ProcessFilter filter_;
  std::vector<session::MappedFile> files_;
  std::vector<std::string> objects_;     // the files' names as objects
  std::vector<std::string> real_names_;  // and without symbolic links
  // Kept, so that what is decoded stays in the store.
  std::vector<image::ProcessImage> images_;
  std::map<std::string, session::MeasurementSpec> specs_;  // by the objects' names in a process
  size_t functions_ = 0;                                   // that can be probed in the files
  All measured_;
  session::ForkedChildren forked_;
  session::CollectedReports whole_, interval_;
  uint64_t start_ns_ = 0, reported_ns_ = 0, end_ns_ = 0;
  FilesFigures figures_;
  session::Shortfall shortfall_;
  std::optional<engine::DisarmReport> disarmed_;
  std::unique_ptr<target::ExecGate> gate_;
  std::optional<target::ExecCatcher> catcher_;
};

}  // namespace pinprick::cli
