// Output for programs: one JSON object per line, each with a "type". Errors and losses are records,
// too. docs/json.md lists all records.
#pragma once

#include "cli/output.h"
#include "cli/render/renderer.h"

namespace pinprick::cli {

class JsonRenderer : public Renderer {
 public:
  // `starts_command`: pinprick starts the program that is measured.
  explicit JsonRenderer(Output data, bool starts_command = false)
      : data_(data), starts_command_(starts_command) {}

  void error(const Message& message) override;
  void warning(const std::string& text) override;
  void armed(const ProcessName& process, const engine::ArmReport& report, uint64_t elapsed_ns,
             bool until_interrupt) override;
  void files_armed(const FilesFigures& figures, bool until_interrupt) override;
  void files_detached(const FilesFigures& figures, const engine::DisarmReport& report) override;
  void loaded(const ProcessName& process, const std::vector<std::string>& objects,
              const engine::ArmReport& report, uint64_t elapsed_ns) override;
  void unloaded(const ProcessName& process, const std::vector<std::string>& objects) override;
  void silenced(size_t calls) override;
  void executed(const ProcessName& process) override;
  void kept(pid_t pid, size_t probes, double seconds) override;
  void mounted(const std::string& folder) override;
  void serving(const http::Address& address, const std::string& path) override;
  bool shows_idle(size_t) const override { return true; }
  void report(const Report& report) override;
  void budget_changed(const ProcessName& process, const session::BudgetEvent& event) override;
  void detached(const ProcessName& process, const engine::DisarmReport& report) override;
  std::string line_of(const session::Event& event) const override;
  EventSpans::Event part_of_span(const session::Event& event) const override;
  std::string line_of_span(const EventSpans::Ended& span) const override;
  void begin_dump(const Dump&) override {}
  void dumped(const Dump& dump) override;
  void function_times(const std::vector<recording::FunctionTime>& functions,
                      size_t others) override;
  void call_graph(const recording::CallGraph& graph) override;
  void span_figures(const EventSpans::Figures& figures) override;
  void event_lines(const std::string& lines) override { data_.write(lines); }
  size_t room() const override { return data_.room(); }
  void give_up() override { data_.give_up(); }
  void leaks(const LeakReport& report) override;
  void locks(const LockReport& report) override;
  void lock_waits(const session::LockWaits& waits) override;
  void deadlocks(const session::LockWaits& waits) override;
  void dry_run(const DryRunRow& row) override;
  void functions(const std::vector<ListRow>& rows) override;
  void summary(const SummaryRow& row) override;
  void layouts(const std::vector<LayoutRow>& rows) override;
  void sessions(const std::vector<SessionRow>& rows) override;
  void calls(const ProcessName& process, const std::vector<session::TimedCall>& calls,
             uint64_t least_age_ns) override;
  void statistic_names(pid_t pid,
                       const std::vector<session::StatisticFigures>& statistics) override;
  void statistic(pid_t pid, const session::StatisticFigures& statistic,
                 StatisticForm form) override;
  void checks(const MachineRow& machine, const std::vector<CheckRow>& rows) override;
  void comparison(const compare::Comparison& comparison) override;
  int error_of_writing() const override { return data_.error(); }
  void flush() override { data_.flush(); }

 private:
  void coverage(const Report& report);
  void skipped(const ProcessName& process, const std::vector<placement::Skipped>& all);

  Output data_;
  bool starts_command_;
};

}  // namespace pinprick::cli
