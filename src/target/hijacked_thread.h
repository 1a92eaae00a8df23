// A hijacked thread: one stopped thread of the target makes remote system calls for us, while the
// others go on.
//
// It lends its registers to each call, and gets them back exactly. If the controller dies, the
// kernel resumes the thread, and at every instant the thread then restores itself: its instruction
// pointer is in a few bytes of our code that restore all registers and the signal mask
// (arch/syscall.h). That code lies after the end of some object's code, in the last page of its
// mapping, where nothing ever executes. It is removed at the end of the hijack; until then the
// caller's journal must name it (Room, with the bytes that were there).
//
//     state of the thread                              if the controller dies now
//     1  code written, the thread has its own          goes on; the code stays, known to the
//        registers                                     journal
//     2  has the registers of the call, in our code    makes the call, restores itself, goes on
//     3  all signals blocked (so that no handler       the same; our code restores the mask
//        runs on our registers)
//     4  call made, stopped at its exit; the next      restores itself, goes on
//        call starts again at 2
//     5  mask restored, then registers                 as in 4, or: goes on
//
// The thread is stopped at the entry and at the exit of the call, not by a breakpoint or a single
// step: if we died, those would leave it with a SIGTRAP.
//
// Several calls can be made as a script (run()), with one stop at its end. The script lies in
// memory of the target that the program does not use, and the thread writes the result of each
// call there:
//
//     6  has the registers of the script, in our       makes the calls of the script; the last one
//        code, running                                 waits for us, and returns as we are gone;
//                                                      then restores itself, goes on
//     7  waits in the last call, interrupted           as in 4
//
// The last call waits for us. It should wait as long as we live, and no longer: then it reads from
// a socket whose other end only we have. It has a timeout, in case another process has that end
// after all (a child that the target forked just then), or as there is no such socket. If we are
// held up for longer than that, the thread restores itself and goes on. It is then no longer
// hijacked, which resumed_itself() says, and our code stays where it is, as the thread may still be
// in it.
//
// All functions are for the thread of ours that made the Stop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "target/memory.h"
#include "target/seccomp.h"
#include "target/stop.h"

namespace pinprick::target {

// Where the code is to lie: executable memory of the target in which nothing executes.
struct Room {
  Address address = 0;
  std::vector<uint8_t> original;  // the bytes there; as many as the code may need
};

class HijackedThread {
 public:
  // Chooses the thread that is disturbed least: preferably one in user code, otherwise one in a
  // call that the kernel has to restart; a thread inside a restartable sequence only if there is no
  // other. Never a thread that its seccomp filters would kill for our calls: they are suspended
  // while we trace it, but would apply to a call that it makes after our death. Never a kernel
  // worker, which would not make the call, nor one that handles system calls itself. Fails if there
  // is no such thread, or the code cannot be written.
  static Result<HijackedThread, AttachError> hijack(Stop& stop, const Memory& memory, Room room);
  HijackedThread(HijackedThread&& other) noexcept;
  HijackedThread& operator=(HijackedThread&&) = delete;
  ~HijackedThread();

  // Makes one call. Returns its result, or the errno with which it failed. With EPERM it may not
  // have been made, as a seccomp filter could kill the target for it; ESRCH: the thread is gone.
  Result<uint64_t, SystemError> call(uint64_t number, uint64_t a = 0, uint64_t b = 0,
                                     uint64_t c = 0, uint64_t d = 0, uint64_t e = 0,
                                     uint64_t f = 0);
  // Where a script lies in the target (arch::ScriptedCall).
  struct Script {
    Address first = 0;
    Address last = 0;        // the call that waits for us; also made after another one failed
    Address told = 0;        // 64 bits, 0 at first: the thread writes the address of the next call
    Address descriptor = 0;  // 32 bits: the fifth argument of all calls
  };
  // Makes the calls of a script in turn; if one fails, the calls between it and the last one are
  // left out. The results are in the script. Fails with ETIMEDOUT if the thread has resumed by
  // itself, and with ESRCH if it has ended. If the thread has seccomp filters, which are suspended
  // only while we trace it, its calls are made one by one by call(), and the last one is left out.
  Result<void, SystemError> run(const Script& script);
  // Has the thread restored itself and gone on? Then it cannot make calls any more, and our code
  // may still be in use.
  bool resumed_itself() const { return resumed_itself_; }

  // Did the thread not run, as its control group is frozen? All calls fail then, with ETIMEDOUT.
  bool is_frozen() const { return is_frozen_; }
  // Has the thread ended? It runs only our code, so the whole process has then ended or executed
  // another program (by a fatal signal, exit_group, or another thread's execve).
  bool has_ended() const { return ended_; }
  pid_t tid() const { return tid_; }
  // Do seccomp filters decide on its calls when it is not traced?
  bool has_filters() const { return !filters_.empty(); }
  // The registers that it will get back.
  const arch::Registers& registers() const { return own_registers_; }

 private:
  HijackedThread(Stop& stop, const Memory& memory, Room room, SeccompFilters filters, pid_t tid,
                 const arch::Registers& own_registers, uint64_t mask);
  bool run_to_call_stop();
  bool start(const arch::Registers& registers);
  Result<void, SystemError> run_one_by_one(const Script& script);
  std::optional<int> next_stop(const std::function<bool()>& is_enough = {});
  bool has_moved_since_last_look();

  Stop& stop_;
  const Memory& memory_;
  Room room_;
  SeccompFilters filters_;
  pid_t tid_ = 0;
  arch::Registers own_registers_;
  arch::Registers seen_registers_ = {};  // when it was looked at last
  uint64_t mask_ = 0;
  bool holds_ = true;
  bool has_our_registers_ = false;
  bool ended_ = false;
  bool is_frozen_ = false;
  bool resumed_itself_ = false;
};

// Stops the thread that a hijack disturbs least, as far as that is known without stopping all.
// Threads are tried one after the other, running ones first, and the first one is taken that is in
// user code, or in a call that is over or would start anew. The others are resumed at once, and
// threads after it are not stopped at all. `code` is where the hijacked thread is to run. A thread
// that ends meanwhile or cannot be stopped is skipped. Fails if there is no suitable thread.
Result<Stop, AttachError> stop_one_to_hijack(pid_t pid, const Memory& memory, Address code);

// Could a thread of the process be hijacked, as far as seccomp goes? Fails as hijack() would, for
// callers that want to know before they start. Stops threads one after the other if all of them
// have filters, and no thread otherwise.
Result<void, AttachError> can_be_hijacked(pid_t pid);

// A thread's rseq area, as registered with the kernel. The thread must be stopped by this one of
// ours; returns nullopt if it has none.
struct RseqRegistration {
  Address area = 0;
  uint32_t signature = 0;
  uint32_t size = 0;
};
std::optional<RseqRegistration> rseq_registration(pid_t tid);

}  // namespace pinprick::target
