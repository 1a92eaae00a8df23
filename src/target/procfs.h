// Facts about processes and threads from /proc. Read-only; nothing is stopped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"

namespace pinprick::target {

struct ProcessStatus {
  char state = '?';  // R S D T t Z X, as in /proc/PID/stat
  pid_t parent = 0;
  pid_t tracer = 0;
  uint64_t start_time = 0;  // clock ticks after boot; with the pid it names a process for good
  std::string command;
  bool kernel_thread = false;
  bool kernel_worker = false;    // of the process, but never runs its code (of io_uring)
  bool ending = false;           // killed, on its way out, or ended
  uint64_t blocked_signals = 0;  // of the thread: bit N-1 for signal N
  int seccomp = 0;               // 0 off, 1 strict, 2 filter
  bool shadow_stack = false;
};

// Of a process whose first thread has ended: the state and what threads have of one that lives.
std::optional<ProcessStatus> read_status(pid_t pid);
std::optional<ProcessStatus> read_thread_status(pid_t pid, pid_t tid);

// Returns false if `tracer` goes on tracing. Waits for one that is ending, a second at most: the
// kernel lets go of what a process has locked before it lets go of what the process traces, so that
// the next one may come upon threads that a dying one still holds.
bool lets_go(pid_t tracer);

// The program that it runs; nothing of a process that has ended, or is another user's.
std::optional<std::string> executable_path(pid_t pid);

// Threads that have not exited; empty: the process is gone.
std::vector<pid_t> list_threads(pid_t pid);

// The thread's ID in the innermost PID namespace that it is in, where the program sees it; 0: it is
// gone.
pid_t tid_inside(pid_t pid, pid_t tid);

// Is the page at the address one of the process's own, as a page of a private file mapping becomes
// when it is written to? Otherwise it is the file's, or nothing is mapped. True if nobody can tell.
bool is_private_copy(pid_t pid, Address address);

}  // namespace pinprick::target
