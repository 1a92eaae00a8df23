// Output for people: tables and histograms on one stream, everything else on stderr.
#pragma once

#include <span>

#include "cli/output.h"
#include "cli/render/count_columns.h"
#include "cli/render/renderer.h"

namespace pinprick::cli {

// With more functions than this, reasons are summed up, rows without a hit are left out, and times
// are shown as a table instead of histograms.
inline constexpr size_t kFew = 10;

inline constexpr auto kRed = fmt::fg(fmt::terminal_color::red);
inline constexpr auto kYellow = fmt::fg(fmt::terminal_color::yellow);
inline constexpr auto kGreen = fmt::fg(fmt::terminal_color::green);
inline constexpr auto kCyan = fmt::fg(fmt::terminal_color::cyan);

class TextRenderer : public Renderer {
 public:
  // `several`: there is more than one process, so each report names its own. `all`: show rows
  // without a hit, too. `top`: maximum number of rows of a table; 0 for all. `probed`: what each
  // probe is on, a function or an instruction.
  TextRenderer(Output data, Output notes, bool several, bool all, size_t top, std::string probed,
               SumFigures figures_of_sums = {.sum = true})
      : data_(data),
        notes_(notes),
        several_(several),
        all_(all),
        top_(top),
        probed_(std::move(probed)),
        figures_of_sums_(figures_of_sums) {}

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
  bool shows_idle(size_t functions) const override;
  void report(const Report& report) override;
  void budget_changed(const ProcessName& process, const session::BudgetEvent& event) override;
  void detached(const ProcessName& process, const engine::DisarmReport& report) override;
  std::string line_of(const session::Event& event) const override;
  EventSpans::Event part_of_span(const session::Event& event) const override;
  std::string line_of_span(const EventSpans::Ended& span) const override;
  void begin_dump(const Dump& dump) override;
  void dumped(const Dump& dump) override;
  void function_times(const std::vector<recording::FunctionTime>& functions,
                      size_t others) override;
  void call_graph(const recording::CallGraph& graph) override;
  void span_figures(const EventSpans::Figures& figures) override { span_figures_ = figures; }
  bool shows_trees() const override { return true; }
  CallTree::Event part_of_tree(const session::Event& event) const override;
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

 protected:
  Output& data() { return data_; }
  Output& notes() { return notes_; }
  // With --budget, at the end of a report: which rows are partial, and what the probes have added.
  void partial_rows(const Report& report);
  // Prints which process a report is of, if there are several, and which time it covers.
  void heading(const ProcessName& process, double seconds, bool is_final);
  // Returns the last line of a report of calls: those that were not timed, and what probes cost.
  static std::string line_of_losses(const Report& report);
  // The maximum number of rows of a table; 0 for all.
  size_t most() const { return top_; }

 private:
  void print_debug_information(const ListRow& row);
  void print_skipped(const std::vector<placement::Skipped>& all, bool trap_would_help);
  void arming(const std::string& verb, const ProcessName& process, const engine::ArmReport& report,
              uint64_t elapsed_ns, const std::string& end);
  void coverage_table(const Report& report);
  void count_table_with_columns(const std::vector<Row>& rows, size_t idle, double seconds);
  void count_table(const std::vector<Row>& rows, size_t idle, double seconds);
  void print_unread(const std::vector<Row>& rows);
  void last_line_of_spans(const layout::Losses& losses);
  void last_line_of_events(const Report& report);
  void latency_reports(placement::Kind kind, const std::vector<Row>& rows, size_t idle,
                       double seconds);
  void stack_of(const Row& row);
  void lock_rows(const std::vector<LockRow>& rows, const LockReport& report, bool are_conditions);
  void lock_order(const LockOrder& order, bool has_several);
  void lock_wait(const session::LockWait& wait);
  void histogram(const Row& row, double seconds);
  // These print a line for each power of two, one for negative values, and the quantiles; `show`
  // formats a value.
  void draw_bars(const stats::Histogram& histogram, uint64_t negative, std::string (*show)(double));
  void draw_times(const stats::Histogram& times);
  void draw_values(const Row& row);
  void value_reports(const std::vector<Row>& rows, size_t idle, double seconds);
  void value_table(std::span<const Row* const> rows, double seconds);
  void self_time_table(std::span<const Row* const> rows, double all_ns, double seconds);
  void latency_table(std::span<const Row* const> rows, double seconds);
  void rows_of_kind(placement::Kind kind, const std::vector<Row>& rows, size_t idle,
                    double seconds);
  // The first rows of `shown`, as many as --top allows.
  std::span<const Row* const> top_of(const std::vector<const Row*>& shown) const;

  Output data_;
  Output notes_;
  bool several_;
  bool all_;
  EventSpans::Figures span_figures_;
  bool has_graph_ = false;  // one was printed
  size_t top_;
  // With several measures, a probe is not always that of a function.
  std::string rows_called() const { return probed_ == "probe" ? "function" : probed_; }

  std::string probed_;
  SumFigures figures_of_sums_;
};

}  // namespace pinprick::cli
