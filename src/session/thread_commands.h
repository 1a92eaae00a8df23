// The names of a process's threads: those that they have, or had when they were last seen.
//
// Not thread-safe. Reads files of the process, and stops nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "session/report.h"

namespace pinprick::session {

class ThreadCommands {
 public:
  explicit ThreadCommands(ProcessName process) : process_(std::move(process)) {}

  // Returns the name of the thread, as it was within the last second. Of a thread that has ended,
  // that is the name that was last seen, or else the name of the process. It is valid until the
  // next call.
  std::string_view of(pid_t tid, uint64_t now_ns);
  // Sees all threads of the process, so that their names are known when they have ended. Does
  // nothing if the last look was less than 0.1 s ago, or 20 times as long as that has taken.
  void look(uint64_t now_ns);
  // The process runs another program, whose name it has now.
  void follow_exec(ProcessName now) {
    process_ = std::move(now);
    threads_.clear();
  }

 private:
  struct Thread {
    std::string command;
    uint64_t read_ns = 0;
  };
  ProcessName process_;
  std::map<pid_t, Thread> threads_;
  uint64_t next_look_ns_ = 0;
};

}  // namespace pinprick::session
