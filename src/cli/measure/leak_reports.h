// Makes reports of what was not freed (leak_log.h) of reports of events, which say how many events
// there were, and how many were lost. For one thread.
#pragma once

#include "cli/measure/event_sums.h"
#include "cli/measure/leak_log.h"
#include "cli/measure/table_reports.h"
#include "cli/options.h"
#include "cli/render/renderer.h"
#include "session/report.h"

namespace pinprick::cli {

class LeakReports : public TableReports {
 public:
  // The arguments must outlive this.
  LeakReports(const Options& options, Renderer& renderer)
      : options_(options), renderer_(renderer), log_(options) {}

  EventOutput& log() override { return log_; }

  void begin(Rest rest) override { rest_ = rest; }
  // Functions that free have a row even if they were not called.
  bool shows_idle(size_t) const override { return true; }
  void report(const session::Report& report) override { sums_.add(report); }
  void show() override;

 private:
  void warn_of(const LeakReport& report);

  const Options& options_;
  Renderer& renderer_;
  LeakLog log_;
  Rest rest_ = Rest::more;
  EventSums sums_;
};

}  // namespace pinprick::cli
