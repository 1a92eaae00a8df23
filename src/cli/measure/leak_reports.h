// Makes reports of what was not freed (leak_log.h) of reports of events, which say how many events
// there were, and how many were lost. For one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/measure/leak_log.h"
#include "cli/options.h"
#include "cli/render/renderer.h"
#include "session/report.h"
#include "session/results.h"

namespace pinprick::cli {

class LeakReports : public session::ReportSink {
 public:
  // The arguments must outlive this.
  LeakReports(const Options& options, Renderer& renderer)
      : options_(options), renderer_(renderer), log_(options) {}

  EventOutput& log() { return log_; }

  // How much of the program there will be after the reports that come next.
  enum class Rest : uint8_t {
    more,   // they are of an interval
    none,   // they are the last ones, and the program runs on
    ended,  // likewise, but all processes have ended, or run other programs
  };
  void begin(Rest rest) { rest_ = rest; }
  // Functions that free have a row even if they were not called.
  bool shows_idle(size_t) const override { return true; }
  void report(const session::Report& report) override;
  // Shows what is left, to be called after the reports of all processes.
  void show();

 private:
  void warn_of(const LeakReport& report);

  const Options& options_;
  Renderer& renderer_;
  LeakLog log_;
  Rest rest_ = Rest::more;
  std::vector<session::Report> final_;
  double seconds_ = 0;     // of the longest report; of intervals, all of them
  double interval_s_ = 0;  // the longest report of the interval that is not shown yet
  uint64_t dropped_ = 0;   // likewise
  bool has_release_ = false;
};

}  // namespace pinprick::cli
