// Tables that are made of events, instead of lines for each: those of `leaks` and `locks`. They are
// shown after the reports of all processes, which say how many events there were, and how many were
// lost.
#pragma once

#include <cstdint>

#include "cli/measure/event_output.h"
#include "session/results.h"

namespace pinprick::cli {

class TableReports : public session::ReportSink {
 public:
  virtual EventOutput& log() = 0;
  // How much of the program there will be after the reports that come next.
  enum class Rest : uint8_t {
    more,   // they are of an interval
    none,   // they are the last ones, and the program runs on
    ended,  // likewise, but all processes have ended, or run other programs
  };
  virtual void begin(Rest rest) = 0;
  // Shows the table, to be called after the reports of all processes.
  virtual void show() = 0;
};

}  // namespace pinprick::cli
