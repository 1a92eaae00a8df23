// Makes reports of locks (lock_log.h) of reports of events, and looks for deadlocks meanwhile. For
// one thread.
#pragma once

#include <vector>

#include "cli/measure/deadlock_watch.h"
#include "cli/measure/event_sums.h"
#include "cli/measure/lock_log.h"
#include "cli/measure/table_reports.h"
#include "cli/options.h"
#include "cli/render/renderer.h"
#include "session/report.h"

namespace pinprick::cli {

class LockReports : public TableReports {
 public:
  // The arguments must outlive this.
  LockReports(const Options& options, Renderer& renderer);

  EventOutput& log() override { return events_; }
  void begin(Rest rest) override { rest_ = rest; }
  // Functions that release have a row even if they were not called.
  bool shows_idle(size_t) const override { return true; }
  void report(const session::Report& report) override { sums_.add(report); }
  void show() override;

 private:
  // The log, and a look for deadlocks now and then.
  class Events : public LockLog {
   public:
    Events(LockReports& reports, const Options& options) : LockLog(options), reports_(reports) {}
    void go_on() override {
      LockLog::go_on();
      if (reports_.watch_.is_due()) reports_.watch_.look(reports_.processes());
    }

   private:
    LockReports& reports_;
  };
  void warn_of(const LockReport& report);
  // Those of the options, and those that have had events.
  std::vector<ProcessName> processes() const;

  const Options& options_;
  Renderer& renderer_;
  Events events_;
  DeadlockWatch watch_;
  Rest rest_ = Rest::more;
  EventSums sums_;
};

}  // namespace pinprick::cli
