// Catches processes that come through an ExecGate, before the first instruction of the program that
// they execute: its loader has not run yet.
//
//     held at the gate    PTRACE_SEIZE, PTRACE_INTERRUPT, answer
//     PTRACE_EVENT_EXEC   the new program is mapped. execve's result may overwrite a register that
//                         is written in this stop, so: PTRACE_INTERRUPT, continue
//     PTRACE_EVENT_STOP   on the way out of the kernel, in a plain stop: this is handed out
//
// Nothing is written into the process. If we die at any of these points, the kernel lets the thread
// go, and it runs the new program from its start. An execution that fails stops in the old program,
// and is let go there.
//
// Threads whose loader opens the C library (ExecGate::Step::starts) are seized in the same way, and
// handed out when the file is open. The loader sets the thread pointer up later than that.
//
// A thread that loads a library is caught as well. The thread that opens the library is seized, and
// followed from call to call to the end of the call that maps the library's code. The address is
// that call's result, so no thread knows it yet. The other threads of the process run on.
//
//     held at the gate    PTRACE_SEIZE, PTRACE_INTERRUPT, answer
//     PTRACE_EVENT_STOP   the file is open; PTRACE_SYSCALL, to each entry and exit of a call
//     exit of mmap        PTRACE_INTERRUPT, continue
//     PTRACE_EVENT_STOP   handed out
//     entry of close      it was loaded already, or does not fit: let go
//
// Another pinprick that follows the same file may have seized a thread first, because the kernel
// asks one after the other. Such a thread is let through, and seized when the other pinprick has
// let it go. By then it has run for some moments.
//
// To be used by one thread of ours, which traces the processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "target/exec_gate.h"
#include "target/held_thread.h"

namespace pinprick::target {

class ExecCatcher {
 public:
  struct Caught {
    HeldThread thread;
    // Has the program run no instruction? Otherwise the thread was seized too late: it has the
    // interpreter of a script, usually.
    bool at_start = true;
    bool has_loaded = false;  // it has not executed, but mapped a library's code
  };

  // `wants` decides by what a process is before it executes the file; `is_one` whether it runs one
  // of the files now. Both must outlive this.
  ExecCatcher(ExecGate& gate, std::function<bool(pid_t)> wants, std::function<bool(pid_t)> is_one)
      : gate_(gate), wants_(std::move(wants)), is_one_(std::move(is_one)) {}
  // Lets all go that are followed.
  ~ExecCatcher();
  ExecCatcher(const ExecCatcher&) = delete;
  ExecCatcher& operator=(const ExecCatcher&) = delete;

  // Takes requests, and returns the next process that is caught. Returns nullopt if there is none
  // for now; call it again soon if is_busy(). With Requests::wait, only what is followed already is
  // caught: so there is an end to it while programs are executed all the time.
  enum class Requests : uint8_t { taken, wait };
  std::optional<Caught> next(Requests requests = Requests::taken);
  // Are threads on their way from the gate to the new program? They depend on next().
  bool is_busy() const { return !followed_.empty(); }

  // Threads that could not be seized, by errno.
  const std::map<int, uint64_t>& refused() const { return refused_; }
  // Executions that were let go before they could be seized, and have ended since.
  uint64_t missed() const { return missed_; }

 private:
  struct Followed {
    pid_t pid = 0;
    pid_t tid = 0;
    std::string auxiliary_vector;  // of the old program
    ExecGate::Step step = ExecGate::Step::executes;
    bool has_executed = false;
    uint64_t awaits_since_ns = 0;  // another pinprick has it; 0: it was ours from the start
    bool is_ours = false;          // now
    // Of a loader that loads a library:
    bool has_mapped = false;  // the library's code
    int descriptor = -1;      // by which it has opened the library
    int stops = 0;
    bool maps_now = false;  // it is in the call that maps the code
  };

  void take_requests();
  static bool is_traced_by_pinprick(const Followed& one);
  // Returns true if it is followed no longer.
  bool look_at(Followed& one, std::optional<Caught>& caught);
  bool await_turn(Followed& one, std::optional<Caught>& caught);
  bool look_at_loader(Followed& one, int status, std::optional<Caught>& caught);
  Caught caught(const Followed& one, bool at_start) const;

  ExecGate& gate_;
  std::function<bool(pid_t)> wants_, is_one_;
  std::vector<Followed> followed_;
  std::map<int, uint64_t> refused_;
  uint64_t missed_ = 0;
};

}  // namespace pinprick::target
