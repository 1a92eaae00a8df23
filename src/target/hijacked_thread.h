// One stopped thread of the target, making system calls for us, while the others go on.
//
// It gives up its registers for single calls, and gets them back exactly. At every instant the
// thread, if it were let go by our death, would find its way home: its instruction pointer stands
// in a few bytes of code that restore everything (arch/syscall.h). They lie where
// nothing ever executes, behind the end of some object's code in the last page of its mapping, and
// go away with the hijack; until then the caller's journal has to know of them (Room, and the bytes
// that were there).
//
//     state of the thread                              if the controller dies now
//     1  code written, registers its own               goes on; the bytes stay, known to the
//        journal
//     2  registers: the call's, in our code            makes the call, restores itself, goes on
//     3  all signals blocked (so that none runs a      the same; our code puts the mask back
//        handler on the hijacked registers)
//     4  call made, stopped at its exit; more calls    restores itself, goes on
//        begin again at 2
//     5  mask put back, then registers                 as in 4, or: goes on
//
// Stopping at the entry and exit of the call, not by a breakpoint or a single step: those would
// leave a SIGTRAP behind if we died.
//
// Several calls can be made as a script (run()), with one stop at its end. The calls lie in memory
// of the target, which nobody else uses, and the thread writes there what came of each:
//
//     6  registers: the script's, in our code          makes the calls of the script; the last one
//        goes on, not stopped                          waits for us, and returns as we are no more;
//                                                      then restores itself, goes on
//     7  waits in the last call, interrupted           as in 4
//
// The last call has to be one that waits as long as we live, and no longer: a socket's, the other
// end of which nobody has but us. It has a timeout, in case that somebody has it after all (a child
// that the target forked just then). A thread that has gone home by itself for that reason, as we
// were held up for so long, is not hijacked any more: it is told, and our code stays where it is.
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

// Room for the code: executable memory of the target in which nothing executes.
struct Room {
  Address address = 0;
  std::vector<uint8_t> original;  // what is there; as long as the code may get
};

class HijackedThread {
 public:
  // Chooses the thread that minds least: rather one in user code than one in a call that the kernel
  // has to restart; none inside a restartable sequence, if another one can be had. Never one that
  // its seccomp filters would end for what we ask of it: they are suspended while we trace it, but
  // would judge the call that it makes should we die. Nor a worker of the kernel's, which would
  // never make the call.
  static Result<HijackedThread, AttachError> hijack(Stop& stop, const Memory& memory, Room room);
  HijackedThread(HijackedThread&& other) noexcept;
  HijackedThread& operator=(HijackedThread&&) = delete;
  ~HijackedThread();

  // The call's result, or the errno it failed with. EPERM: not made, a filter could end the target.
  Result<uint64_t, SystemError> call(uint64_t number, uint64_t a = 0, uint64_t b = 0,
                                     uint64_t c = 0, uint64_t d = 0, uint64_t e = 0,
                                     uint64_t f = 0);
  // Where a script lies in the target (arch::ScriptedCall).
  struct Script {
    Address first = 0;
    Address last = 0;        // waits for us; made as well when another one fails
    Address told = 0;        // 64 bits, 0 at first: the call that comes next
    Address descriptor = 0;  // 32 bits: the fifth argument of all calls
  };
  // Makes the calls of a script: up to the last one, or up to one that fails and then the last one.
  // What came of each is in the script. ETIMEDOUT: the thread has gone home by itself. With a
  // filter, which is suspended for calls of ours only, one call after the other is made by call(),
  // and the last one not.
  Result<void, SystemError> run(const Script& script);
  // It went home by itself: nothing can be asked of it any more, and the code may still be in use.
  bool went_home() const { return went_home_; }

  // The thread is no more, and with it the process, or its program: it runs our code alone, so only
  // what ends all threads ends it (a signal that kills, exit_group, execve by another one).
  bool has_ended() const { return ended_; }
  pid_t tid() const { return tid_; }
  // What it will run with when it is given back.
  const arch::Registers& registers() const { return home_; }

 private:
  HijackedThread(Stop& stop, const Memory& memory, Room room, SeccompFilters filters, pid_t tid,
                 const arch::Registers& home, uint64_t mask);
  bool run_to_call_stop();
  bool start(const arch::Registers& registers);
  Result<void, SystemError> run_one_by_one(const Script& script);
  std::optional<int> next_stop(const std::function<bool()>& is_enough = {});

  Stop& stop_;
  const Memory& memory_;
  Room room_;
  SeccompFilters filters_;
  pid_t tid_ = 0;
  arch::Registers home_;
  uint64_t mask_ = 0;
  bool holds_ = true;
  bool away_ = false;  // its registers are not its own
  bool ended_ = false;
  bool went_home_ = false;
};

// Stops the thread that minds least to be hijacked, as far as that can be known without stopping
// all: those that run come first, and the first is taken that is in user code or in a call that is
// over or begins anew. The others that were looked at are let go at once, and nobody else is
// stopped. `code`: where it is to run. One that ends meanwhile, or cannot be stopped, is passed
// over; fails when there is none that would do.
Result<Stop, AttachError> stop_one_to_hijack(pid_t pid, const Memory& memory, Address code);

// Could a thread of the process be hijacked, as far as seccomp goes? What hijack() would refuse,
// for who wants to know before there is work to lose. Stops threads one after
// the other if each of them has a filter, and else none.
Result<void, AttachError> can_be_hijacked(pid_t pid);

// How the kernel knows a thread's rseq area.
struct RseqRegistration {
  Address area = 0;
  uint32_t signature = 0;
  uint32_t size = 0;
};
std::optional<RseqRegistration> rseq_registration(pid_t tid);

}  // namespace pinprick::target
