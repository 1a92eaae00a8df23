// What the reports of events, of all processes and intervals, say together. For one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "session/report.h"

namespace pinprick::cli {

class EventSums {
 public:
  void add(const session::Report& report);
  // To be called after the reports of all processes, which are of the same time. Returns the
  // seconds so far.
  double end_turn();
  uint64_t dropped() const { return dropped_; }
  // Is there a probe that is not at a return?
  bool has_entries() const { return has_entries_; }
  // The last reports, of the whole time.
  const std::vector<session::Report>& final_reports() const { return final_; }

 private:
  std::vector<session::Report> final_;
  double seconds_ = 0;     // of the longest report; of intervals, all of them
  double interval_s_ = 0;  // the longest report of the turn that is not over yet
  uint64_t dropped_ = 0;   // likewise
  bool has_entries_ = false;
};

}  // namespace pinprick::cli
