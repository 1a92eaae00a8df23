// Finds processes that were forked from measured ones and execute nothing: they have the probes,
// and count among the results of the process that they were forked from, until they get a
// measurement of their own (Measurement::begin_forked). Most forked processes execute a program at
// once, so a process is only returned by the second look that finds it.
//
// For the thread that uses the measurements.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <vector>

#include "session/measurement.h"

namespace pinprick::session {

class ForkedChildren {
 public:
  struct Child {
    const Measurement* parent = nullptr;
    pid_t pid = 0;
  };
  // Call it often: it looks twenty times a second at most, and rarely at many processes.
  std::vector<Child> settled(const std::vector<const Measurement*>& parents);
  // It cannot have one. It is not returned again.
  void leave(pid_t pid) { left_.insert(pid); }

 private:
  std::set<pid_t> seen_;
  std::set<pid_t> left_;
  uint64_t next_ns_ = 0;  // when to look again
};

// Gives all processes that were forked from that of `parent`, which has ended, a measurement of
// their own, as far as that is possible, and those that they fork meanwhile.
struct Forked {
  std::vector<Measurement> begun;
  // For some that is not possible just now: call it again, before the parent is disarmed.
  bool is_pending = false;
};
Forked begin_forked(const Measurement& parent, MeasurementListener& listener);

}  // namespace pinprick::session
