// All threads of a process, stopped: the only state in which its text is written. Or one stopped
// thread, which makes system calls for us while the others go on (hijacked_thread.h).
//
// Threads are stopped by PTRACE_SEIZE and PTRACE_INTERRUPT; the destructor resumes them. All
// functions are for the thread of ours that made the Stop (ptrace is per thread). If the controller
// dies, the kernel resumes all threads, and nothing here needs the controller to finish what it
// started (hijacked_thread.h says why a hijack does not). So a thread's registers are written at
// once, not when it is resumed: what is written to the text next may rely on them. If the
// controller is stopped itself meanwhile, a timer continues it (hold_guard.h).
//
// A program can notice a stop in one way: a few system calls, which the kernel never restarts by
// itself, return EINTR (epoll_wait, sigtimedwait, semtimedop, io_getevents, socket calls with a
// timeout; signal(7)). A thread that is stopped there gets the result by which the kernel restarts
// a call unless a signal handler is to run; if one is, the call returns EINTR, as without us.
// close() is left alone, since the descriptor is closed by then. Only a controller that is killed
// between stopping a thread and reading its registers causes an EINTR. docs/stopping.md has more.
//
// A thread that hangs in the kernel cannot be stopped. Once it was interrupted, it cannot be left
// alone either: it stops when it comes out of the kernel, and must then be resumed. The thread of
// ours that traces it keeps it: the next Stop of its process takes it over, and settle() resumes
// it.
//
// A thread that is held for longer than one Stop (held_thread.h) counts as stopped, and stays so
// when the Stop ends.
//
// Kernel workers of the process (those of io_uring) are neither stopped nor touched: they never
// execute the program's code, and an operation that they are in would fail with EINTR.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/registers.h"
#include "base/result.h"
#include "target/attach_error.h"
#include "target/hold_guard.h"

namespace pinprick::target {

struct StoppedThread {
  pid_t tid = 0;
  arch::Registers registers = {};  // what it will run with; change through move()
  Address instruction_pointer() const { return arch::instruction_pointer(registers); }
  Address stack_pointer() const { return arch::stack_pointer(registers); }
  // Is it a kernel worker? The kernel marks those for debuggers by these values.
  bool is_worker() const { return instruction_pointer() == 0 && stack_pointer() == 0; }
};

class Stop {
 public:
  // Stops all threads, also those that are created meanwhile. If a thread has not stopped after
  // `timeout_ms` (it hangs in the kernel, or waits for its vfork child), all others are resumed and
  // there is another attempt. Fails after the last attempt, and that thread is kept for settle();
  // also fails if the process has exited, is traced by others, or has 32-bit code.
  static Result<Stop, AttachError> all_threads(pid_t pid, unsigned timeout_ms = 200,
                                               unsigned attempts = 5);

  // Stops this thread only. If it has not stopped after `timeout_ms`, it is kept for settle().
  static Result<Stop, AttachError> one_thread(pid_t pid, pid_t tid, unsigned timeout_ms = 200);

  // Resumes kept threads that have come out of the kernel since, and returns how many have not. A
  // controller that lives on must call it again soon, until it returns 0. (When the thread of ours
  // that stopped them ends, the kernel resumes them.) Also waits for the end of a process whose
  // first thread ended while it was traced; that one is not counted, as nothing waits for us until
  // all threads have ended.
  static size_t settle();

  // Is any thread kept, or one of this process? Also those that settle() does not count: what waits
  // for the end of such a process has to call settle() until none is kept.
  static bool keeps_any();
  static bool keeps_any_of(pid_t pid);

  // Lets a thread go that is traced by us, and is in a stop that is no Stop's, or was told to stop
  // (PTRACE_INTERRUPT). If it was killed, its end has to be waited for: its parent does not learn
  // of it before. settle() does that, and lets one go that stops later.
  static void let_go_of(pid_t pid, pid_t tid);

  Stop(Stop&& other) noexcept;
  Stop& operator=(Stop&&) = delete;
  ~Stop();

  pid_t pid() const { return pid_; }
  std::vector<StoppedThread>& threads() { return threads_; }
  // Makes a thread continue somewhere else. Takes effect at once, and so even if we die.
  void move(StoppedThread& thread, uint64_t instruction_pointer);

  // Sets the signals that the thread blocks; bit n - 1 for signal n. Takes effect at once.
  void set_signal_mask(const StoppedThread& thread, uint64_t mask);

  // Are all threads of the process stopped by this object? Not after resume().
  bool holds() const { return is_whole_ && !threads_.empty(); }
  // Resumes all threads, and uses this object up. Returns for how long the first of them had been
  // stopped, in nanoseconds.
  uint64_t resume() &&;

 private:
  explicit Stop(pid_t pid) : pid_(pid) {}
  Result<void, AttachError> gather(unsigned timeout_ms);
  std::optional<AttachError> seize_one(pid_t tid);
  static void wait_for_ended(int signal);
  void adopt_unsettled();
  void keep_unsettled();
  void interrupt(const std::vector<pid_t>& tids);
  // Returns when the last thread was let go.
  uint64_t let_go();
  uint64_t let_all_go();
  std::vector<pid_t> to_wait_for() const;
  bool wait_for(pid_t tid, uint64_t deadline_ns, bool& timed_out);
  bool adopt_held(pid_t tid);

  HoldGuard guard_;
  pid_t pid_ = 0;
  bool is_whole_ = false;
  // The first thread is traced and has ended, others live. Its end is reported after theirs.
  bool first_has_ended_ = false;
  uint64_t since_ns_ = 0;
  std::vector<StoppedThread> threads_;
  std::vector<pid_t> seized_;  // not stopped yet
  std::vector<pid_t> others_;  // listed, but ended, or kernel workers
};

// Like waitpid(), but if a child of ours has ended, returns -1 and leaves its exit status to be
// waited for elsewhere. The child may end between two looks, so once it is known to live, only
// stops are waited for. Returns -1 with EAGAIN if the first thread has ended meanwhile: the end is
// there at the next look, or after the ends of the other threads. The kernel says ECHILD then,
// which must not be taken for "no such thread": a process that we trace ends for its parent only
// after we have waited for it.
pid_t wait_once(pid_t pid, pid_t tid, int& status);

// If our stop has ended a call with EINTR, changes the registers so that the kernel decides whether
// the call is restarted, and returns true.
bool leave_to_kernel(arch::Registers& registers);

}  // namespace pinprick::target
