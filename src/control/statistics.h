// The statistics of processes, as the control language and the file tree see them.
//
// A statistic is a named latency histogram that stays in a process. This interface is implemented
// where processes are probed; here it is only called, by one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/command.h"

namespace pinprick::control {

struct StatisticInfo {
  std::string name;
  bool running = true;       // false: stopped, and keeps its figures
  bool is_recorded = false;  // by the process itself: to start, stop or reset it stops no thread
  uint64_t created_ns = 0;   // CLOCK_REALTIME
  // When its figures or its state are known to have changed last. May be now, if it is running.
  uint64_t changed_ns = 0;
};

// The statistics of one process. It stays that process: when it has ended, all fail with ESRCH,
// also if another process has got its PID.
class Statistics {
 public:
  virtual ~Statistics() = default;

  // Runs a trace, remove, start, stop or reset; others fail with EINVAL. Returns when it is done,
  // which may take some 100 ms for a trace. A command that fails has changed nothing. Fails with
  //   EEXIST  the name is taken
  //   ENOENT  there is no such statistic, or no such function
  //   EBUSY   another pinprick is changing the process, or one of its threads does not stop
  //   EPERM   the process may not be probed
  virtual Result<void, ControlError> run(const Command& command) = 0;
  // Returns all, in the order in which they were created, GAP-S after S.
  virtual Result<std::vector<StatisticInfo>, ControlError> list() = 0;
  // Returns the lines of stats/kstats_text.h. Fails with ENOENT if there is no such statistic.
  virtual Result<std::string, ControlError> text(std::string_view name) = 0;
};

class Processes {
 public:
  virtual ~Processes() = default;

  // Returns the processes to show in a listing.
  virtual std::vector<pid_t> all() = 0;
  // Returns the statistics of a process, which all() need not list. Never nullptr. It is called for
  // each look at a file, so work that takes long belongs into Statistics::run(). Fails with
  //   ESRCH   there is no such process
  //   EPERM   it may not be looked at
  virtual Result<std::unique_ptr<Statistics>, ControlError> open(pid_t pid) = 0;
  // Gives all statistics what they need from a controller to go on recording. Called every 10 ms or
  // so while the tree is mounted.
  virtual void provide() = 0;
};

}  // namespace pinprick::control
