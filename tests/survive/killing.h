// Runs pinprick under ptrace and kills it, or its target, at a given system call.
//
// Between two system calls pinprick changes nothing that anybody else can see. To kill it at every
// entry into and exit from one therefore visits every state in which it can leave a target; it
// needs no hook in the program. The calls before the one by which a run begins to leave traces are
// not counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "survive/program.h"

namespace pinprick::survive {

struct KillReport {
  bool killed = false;  // else pinprick ended by itself before
  int stops = 0;        // entries and exits of calls that were seen
  std::string where;    // the call at which it was killed
  Ending ending;
  std::string output;
};

// `stop`: 1 is the first entry that counts; 0: never, to count them. `victim`: the target; 0:
// pinprick.
KillReport kill_at_stop(const Command& command, int stop, pid_t victim = 0);

// Lets it run to its end. `visit` is called at the entry of each of its calls.
KillReport visit_calls(
    const Command& command,
    const std::function<void(uint64_t number, const uint64_t* arguments)>& visit);

// Kills it this long after its start.
KillReport kill_after(const Command& command, uint64_t nanoseconds);

}  // namespace pinprick::survive
