// The processes that this user may probe, as /proc shows them at one moment.
//
// Any thread may call this. Nothing is stopped or changed. A process may end, or execute another
// program, right afterwards; and what only an attempt shows, such as a seccomp filter, is not
// known.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pinprick::cli {

struct ProbeableProcess {
  pid_t pid = 0;
  std::string command;  // as the process names itself: any bytes but 0
  uint64_t cpu_ms = 0;
  bool is_ancestor = false;  // this process is its child, or a child's child: a shell, say
};

struct VisibleProcesses {
  std::vector<ProbeableProcess> probeable;  // ascending
  size_t others = 0;                        // not probeable; kernel threads are not counted
};

// Looks at all processes but this one. Probeable is an x86-64 program that the kernel lets this
// user attach to, and that no one else traces.
VisibleProcesses visible_processes();

}  // namespace pinprick::cli
