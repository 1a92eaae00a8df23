// All threads of a process, stopped: the only state in which its text is written.
//
// PTRACE_SEIZE and INTERRUPT; the destructor resumes. Everything happens on the thread that made
// the Stop (ptrace is per thread). When the controller dies, the kernel resumes all threads:
// nothing here needs the controller to finish what it began (borrowed_thread.h says why borrowing
// a thread does not). So a thread's registers are changed at the moment that this is decided, and
// not when it is let go: what is written next may rely on it.
//
// Stopping is visible to a program in one way: a few system calls, which the kernel never restarts
// by itself, come back with EINTR (epoll_wait, sigtimedwait, semtimedop, io_getevents, socket calls
// with a timeout; signal(7)). A thread that stands there gets the result by which the kernel
// restarts a call unless a signal handler is to run: then, as without us, it is EINTR. close() is
// left alone: by then the descriptor is closed. Only a controller that is killed between the stop
// of a thread and the look at it leaves an EINTR behind. docs/stopping.md has more.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "target/attach_error.h"

namespace pinprick::target {

struct StoppedThread {
  pid_t tid = 0;
  user_regs_struct registers = {};  // what it will run with; change through move()
};

class Stop {
 public:
  // Threads that come and go meanwhile are followed. A thread that has not stopped after
  // `patience_ms` (it hangs in the kernel, or waits for its child of vfork) ends the attempt: all
  // others go on, and it is tried again.
  static Result<Stop, AttachError> all_threads(pid_t pid, unsigned patience_ms = 200,
                                               unsigned attempts = 5);

  Stop(Stop&& other) noexcept;
  Stop& operator=(Stop&& other) noexcept;  // resumes what it held before
  ~Stop();

  pid_t pid() const { return pid_; }
  std::vector<StoppedThread>& threads() { return threads_; }
  // Lets a thread continue somewhere else; whatever happens to us, from now on.
  void move(StoppedThread& thread, uint64_t instruction_pointer);

  // The signals that it blocks from now on; bit n - 1 for signal n.
  void set_signal_mask(const StoppedThread& thread, uint64_t mask);

  // Resumes everything now. Answers for how long the first thread had been stopped, in nanoseconds.
  uint64_t resume();

  // The process ended while it was being stopped; wait(2)'s status if we were its parent.
  std::optional<int> exit_status() const { return exit_status_; }

 private:
  explicit Stop(pid_t pid) : pid_(pid) {}
  Result<void, AttachError> gather(unsigned patience_ms);
  bool seize(pid_t tid, int& error);
  void interrupt(std::vector<pid_t> tids);
  // Answers when the last thread was let go.
  uint64_t let_go();
  bool wait_for(pid_t tid, uint64_t deadline_ns, bool& timed_out);

  pid_t pid_ = 0;
  uint64_t since_ns_ = 0;
  std::vector<StoppedThread> threads_;
  std::vector<pid_t> seized_;  // not stopped yet
  std::vector<pid_t> ended_;   // but still listed
  std::optional<int> exit_status_;
};

// The registers that make a thread in a system call begin it anew, as the kernel would; the same
// registers where nothing is to be restarted.
user_regs_struct restarted(const user_regs_struct& registers);

}  // namespace pinprick::target
