// Facts about processes and threads from /proc. Read-only; nothing is stopped.
#pragma once

#include <sys/types.h>

#include <array>
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
  uint64_t start_time = 0;  // clock ticks after boot; with the PID it identifies a process for good
  uint64_t cpu_ticks = 0;   // used so far, of all threads of a process; 100 are a second
  std::string command;
  bool kernel_thread = false;
  bool kernel_worker = false;    // a thread of the process that never runs its code (io_uring's)
  bool ending = false;           // killed, exiting, or ended
  uint64_t blocked_signals = 0;  // of the thread: bit N-1 for signal N
  int seccomp = 0;               // 0 off, 1 strict, 2 filter
  bool shadow_stack = false;
};

// These return nullopt if there is no such process or thread. If the first thread of a process has
// ended, the state and the fields of a thread are those of a thread that lives.
std::optional<ProcessStatus> read_status(pid_t pid);
std::optional<ProcessStatus> read_thread_status(pid_t pid, pid_t tid);
// The field `seccomp` alone.
std::optional<int> seccomp_mode(pid_t pid, pid_t tid);

// Returns false if `tracer` goes on tracing. Waits for one that is ending, a second at most: the
// kernel lets go of what a process has locked before it lets go of what the process traces, so that
// the next one may come upon threads that a dying one still holds.
bool lets_go(pid_t tracer);

// Returns false once a process that is ending has lost its memory, which it does before it counts
// as ended; true if the kernel does not tell.
bool has_memory(pid_t pid);

// The path of its program; nullopt if the process has ended or is another user's.
std::optional<std::string> executable_path(pid_t pid);

// Where a thread that is in the kernel, or stopped, will go on. Returns nullopt if it runs, or may
// not be looked at.
struct ThreadPosition {
  Address stack_pointer = 0;
  Address instruction_pointer = 0;
};
std::optional<ThreadPosition> position_of(pid_t pid, pid_t tid);

// The system call in which a thread waits, with its arguments. Returns nullopt if it runs, is in no
// call, or may not be looked at.
struct BlockedCall {
  uint64_t number = 0;
  std::array<uint64_t, 6> arguments = {};
  ThreadPosition position;
};
std::optional<BlockedCall> blocked_call_of(pid_t pid, pid_t tid);

// How often a thread was taken off its CPU, or has left it to wait. Two equal numbers mean that a
// thread that waited at both times has not run in between. Returns nullopt if it is gone.
std::optional<uint64_t> switches_of(pid_t pid, pid_t tid);

// The process of a thread; 0 if the thread is gone.
pid_t process_of(pid_t tid);

// All processes, ascending.
std::vector<pid_t> all_processes();

// The children of the thread, or of all threads of the process, that have not been reaped; a zombie
// is one as well. Empty if the kernel does not tell (CONFIG_PROC_CHILDREN).
std::vector<pid_t> children_of(pid_t pid, pid_t tid);
std::vector<pid_t> children_of(pid_t pid);

// Do the two run in one memory, as a process and its vfork child do? Where the kernel does not tell
// (CONFIG_KCMP), a child of which a thread of the parent may be waiting for is taken for one.
bool shares_memory(pid_t child, pid_t parent);
// Does it share its parent's? Then it is no process by itself until it executes a program.
bool shares_memory_with_parent(pid_t pid);

// The threads that have not exited; empty if the process is gone.
std::vector<pid_t> list_threads(pid_t pid);

// The thread's ID as the program sees it, in the innermost PID namespace; 0 if the thread is gone.
pid_t tid_inside(pid_t pid, pid_t tid);

// Does the process have its own copy of the page at the address, as after a write to a private file
// mapping? Returns false if the page is the file's or nothing is mapped, and true if unknown.
bool is_private_copy(pid_t pid, Address address);

}  // namespace pinprick::target
