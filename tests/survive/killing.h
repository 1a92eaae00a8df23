// Runs pinprick under ptrace and kills it at a given system call.
//
// Between two system calls pinprick changes nothing that anybody else can see. To kill it at every
// entry into and exit from one therefore visits every state in which it can leave a target; it
// needs no hook in the program. The calls before the one by which a run begins to leave traces are
// not counted.
#pragma once

#include <string>

#include "survive/program.h"

namespace pinprick::survive {

struct KillReport {
  bool killed = false;  // else it ended by itself before
  int stops = 0;        // entries and exits of calls that were seen
  std::string where;    // the call at which it was killed
  Ending ending;
  std::string output;
};

// `stop`: 1 is the first entry that counts; 0: never, to count them.
KillReport kill_at_stop(const Command& command, int stop);

// Kills it this long after its start.
KillReport kill_after(const Command& command, uint64_t nanoseconds);

}  // namespace pinprick::survive
