// The names of threads' commands: what a thread is called, or was called when it was last seen.
//
// Not thread-safe. Reads files of the process, and stops nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "session/report.h"

namespace pinprick::session {

class ThreadCommands {
 public:
  // Returns the name of the thread, as it was within the last second. Of a thread that has ended,
  // that is the name that was last seen, or else the name of the process. It is valid until the
  // next call.
  std::string_view of(const ProcessName& process, pid_t tid, uint64_t now_ns);
  // Sees all threads of the process, so that their names are known when they have ended. Does
  // nothing if the last look was less than 0.1 s ago, or 20 times as long as that has taken.
  void look(const ProcessName& process, uint64_t now_ns);
  // To be called when the process runs another program.
  void forget() { threads_.clear(); }

 private:
  struct Thread {
    std::string command;
    uint64_t read_ns = 0;
  };
  std::map<pid_t, Thread> threads_;
  uint64_t next_look_ns_ = 0;
};

}  // namespace pinprick::session
