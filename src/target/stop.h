// All threads of a process, stopped: the only state in which its text is written. Or one of them,
// which makes system calls for us while the others go on (hijacked_thread.h).
//
// PTRACE_SEIZE and INTERRUPT; the destructor resumes. Everything happens on the thread that made
// the Stop (ptrace is per thread). When the controller dies, the kernel resumes all threads:
// nothing here needs the controller to finish what it began (hijacked_thread.h says why hijacking
// a thread does not). So a thread's registers are changed at the moment that this is decided, and
// not when it is let go: what is written next may rely on it.
//
// Stopping is visible to a program in one way: a few system calls, which the kernel never restarts
// by itself, come back with EINTR (epoll_wait, sigtimedwait, semtimedop, io_getevents, socket calls
// with a timeout; signal(7)). A thread that stands there gets the result by which the kernel
// restarts a call unless a signal handler is to run: then, as without us, it is EINTR. close() is
// left alone: by then the descriptor is closed. Only a controller that is killed between the stop
// of a thread and the look at it leaves an EINTR behind. docs/stopping.md has more.
//
// A thread that hangs in the kernel can neither be stopped nor, once it was interrupted, be let
// alone: it stops when it comes out, whoever waits for it by then. Such threads are kept, by the
// thread of ours that traces them: the next Stop of their process takes them over, and settle()
// lets them go.
//
// Workers that the kernel runs in the process (those of io_uring) are neither stopped nor touched:
// they never execute the program's code, and what they are doing would fail with EINTR.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/registers.h"
#include "base/result.h"
#include "target/attach_error.h"

namespace pinprick::target {

struct StoppedThread {
  pid_t tid = 0;
  arch::Registers registers = {};  // what it will run with; change through move()
  Address instruction_pointer() const { return arch::instruction_pointer(registers); }
  Address stack_pointer() const { return arch::stack_pointer(registers); }
  // A worker of the kernel's: by this it is marked for debuggers.
  bool is_worker() const { return instruction_pointer() == 0 && stack_pointer() == 0; }
};

class Stop {
 public:
  // Threads that come and go meanwhile are followed. A thread that has not stopped after
  // `timeout_ms` (it hangs in the kernel, or waits for its child of vfork) ends the attempt: all
  // others go on, and it is tried again. After the last attempt it is kept for settle().
  static Result<Stop, AttachError> all_threads(pid_t pid, unsigned timeout_ms = 200,
                                               unsigned attempts = 5);

  // This thread alone. One that has not stopped after `timeout_ms` is kept for settle().
  static Result<Stop, AttachError> one_thread(pid_t pid, pid_t tid, unsigned timeout_ms = 200);

  // Lets threads go that no attempt could stop and that have come out of the kernel since. Returns
  // how many have not: to be called again, soon and until it returns 0, by a controller that lives
  // on. (The kernel lets them go when the thread of ours ends that stopped them.)
  static size_t settle();

  Stop(Stop&& other) noexcept;
  Stop& operator=(Stop&&) = delete;
  ~Stop();

  pid_t pid() const { return pid_; }
  std::vector<StoppedThread>& threads() { return threads_; }
  // Lets a thread continue somewhere else; whatever happens to us, from now on.
  void move(StoppedThread& thread, uint64_t instruction_pointer);

  // The signals that it blocks from now on; bit n - 1 for signal n.
  void set_signal_mask(const StoppedThread& thread, uint64_t mask);

  // Does it hold the process as a whole? Not after resume(): then it is no proof of a stop any
  // more.
  bool holds() const { return is_whole_ && !threads_.empty(); }
  // Resumes everything now, and is used up by that. Returns for how long the first thread had been
  // stopped, in nanoseconds.
  uint64_t resume() &&;

 private:
  explicit Stop(pid_t pid) : pid_(pid) {}
  Result<void, AttachError> gather(unsigned timeout_ms);
  void adopt_unsettled();
  void keep_unsettled();
  void interrupt(const std::vector<pid_t>& tids);
  // Returns when the last thread was let go.
  uint64_t let_go();
  uint64_t let_all_go();
  std::vector<pid_t> to_wait_for() const;
  bool wait_for(pid_t tid, uint64_t deadline_ns, bool& timed_out);

  pid_t pid_ = 0;
  bool is_whole_ = false;
  uint64_t since_ns_ = 0;
  std::vector<StoppedThread> threads_;
  std::vector<pid_t> seized_;  // not stopped yet
  std::vector<pid_t> others_;  // listed, but ended, or workers of the kernel's
};

// A call that our stop has ended with EINTR: the kernel is to say whether it is. Returns true if
// the registers are others then.
bool leave_to_kernel(arch::Registers& registers);

}  // namespace pinprick::target
