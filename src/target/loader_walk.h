// Follows one traced thread through the dynamic loader, from one mapping of code to the next. Where
// it stops, the new code is mapped and none of it has run: the loader has neither relocated the
// object nor run its IFUNC resolvers and constructors.
//
// The thread is one that the calling thread of ours traces by PTRACE_SEIZE with
// PTRACE_O_TRACESYSGOOD (and PTRACE_O_TRACEEXEC, to hear of an exec), and that is in a stop of
// ptrace. It is in such a stop after each step, too, unless it has ended. Other threads of its
// process run on. They can learn of the new code from /proc only: its address is the result of a
// call that has not returned yet, so they do not run it either. After `object_mapped` that holds
// as long as the loader has not published the object.
//
// The walk writes nothing into the thread: no breakpoint, no register. If the controller dies, the
// kernel lets the thread go on as if it had not been followed, unless it is stepped to its rseq
// area (see LoaderWalk()). Signals are delivered as they come. If the process is stopped by a
// signal, the thread goes on, and stops when it is detached. A step waits for the thread, also in a
// call that blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/address.h"

namespace pinprick::target {

class LoaderWalk {
 public:
  enum class Event : uint8_t {
    // The end of a call that has mapped a file with the right to execute, or has given that right
    // to memory. The object's other segments may not be mapped yet.
    code_mapped,
    // The loader has closed the file whose code it has mapped last: the object is there as a whole.
    object_mapped,
    // The thread has got a thread pointer, and its rseq area if its C library registers one right
    // after that; at the end of a call, unless there is no area. Comes once, and not for a thread
    // that has a thread pointer already. glibc has mapped all libraries that the program is linked
    // with by then and relocated none, since the size of their thread-local memory comes first.
    // (With LD_AUDIT it has mapped none yet.) musl maps them afterwards.
    thread_ready,
    executed,  // it is at PTRACE_EVENT_EXEC of another program
    ended,     // or was killed, or cannot be followed
  };
  struct Step {
    Event event = Event::ended;
    Range code = {};  // code_mapped, object_mapped
  };

  // `loader`: the loader's code (loader_code()), through which the thread is stepped from where it
  // has its pointer to where it has its area. Only for a child of ours that is killed when we die
  // (PTRACE_O_EXITKILL): in any other process a SIGTRAP would be left. Empty: the thread counts as
  // ready as soon as it has its pointer, and is never stepped.
  LoaderWalk(pid_t tid, Range loader) : tid_(tid), loader_(loader) {}

  // From PTRACE_EVENT_EXEC to the end of that call, before the first instruction of the new
  // program. A result register that is written at PTRACE_EVENT_EXEC is lost, so remote calls can be
  // made from here on only. Returns false if the thread has ended.
  bool first_stop();
  Step next();

 private:
  enum class Stop : uint8_t { call_starts, call_ends, executed, stepped, ended };
  Stop resume(bool one_instruction);
  Stop read_call();
  Step run_to_rseq();
  Step step_to_rseq();

  pid_t tid_;
  Range loader_;
  bool is_ready_ = false;
  // The last call.
  uint64_t number_ = 0;
  uint64_t arguments_[6] = {};
  int64_t result_ = 0;
  bool failed_ = false;
  // The file of which code was mapped last, until it is closed; -1: none.
  int descriptor_ = -1;
  Range code_ = {};
};

// Where the code of a process's dynamic loader is mapped; empty if it has none.
Range loader_code(pid_t pid);

}  // namespace pinprick::target
