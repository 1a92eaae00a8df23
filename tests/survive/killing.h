// Runs pinprick under ptrace and kills it, or its target, at a given system call.
//
// Between two system calls pinprick changes nothing that another process can see. So killing it at
// every entry and exit of a call visits every state in which it can leave a target, and needs no
// hook in pinprick. Calls before the first one that leaves traces are not counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "survive/program.h"

namespace pinprick::survive {

struct KillReport {
  bool killed = false;  // if false, pinprick ended by itself before
  int stops = 0;        // how many entries and exits of calls were seen
  std::string where;    // the call at which it was killed
  Ending ending;
  std::string output;
};

// Kills at a stop: 1 is the first entry that counts, 0 means never, to count the stops. Kills
// `victim`, the target, or pinprick if that is 0.
KillReport kill_at_stop(const Command& command, int stop, pid_t victim = 0);

// Runs it to its end, and calls `visit` at the entry of each of its calls.
KillReport visit_calls(
    const Command& command,
    const std::function<void(uint64_t number, const uint64_t* arguments)>& visit);

// Kills it after this time.
KillReport kill_after(const Command& command, uint64_t nanoseconds);

}  // namespace pinprick::survive
