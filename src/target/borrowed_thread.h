// One stopped thread of the target, making system calls for us.
//
// It gives up its registers for single calls, and gets them back exactly. At every instant the
// thread, if it were let go by our death, would find its way home: its instruction pointer stands
// in a few bytes of code that restore everything (arch/x86_64/borrowed_call.h). They lie where
// nothing ever executes, behind the end of some object's code in the last page of its mapping, and
// go away with the loan; until then the caller's journal has to know of them (Room, and the bytes
// that were there).
//
//     state of the thread                              if the controller dies now
//     1  code written, registers its own               goes on; the bytes stay, known to the
//     journal 2  registers: the call's, in our code            makes the call, restores itself,
//     goes on 3  all signals blocked (so that none runs a      the same; our code puts the mask
//     back
//        handler on the borrowed registers)
//     4  call made, stopped at its exit; more calls    restores itself, goes on
//        begin again at 2
//     5  mask put back, then registers                 as in 4, or: goes on
//
// Stopping at the entry and exit of the call, not by a breakpoint or a single step: those would
// leave a SIGTRAP behind if we died.
#pragma once

#include <cstdint>
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

class BorrowedThread {
 public:
  // Chooses the thread that minds least: rather one in user code than one in a call that the kernel
  // has to restart; none inside a restartable sequence, if another one can be had. Never one that
  // its seccomp filters would end for what we ask of it: they are suspended while we trace it, but
  // would judge the call that it makes should we die. Nor a worker of the kernel's, which would
  // never make the call.
  static Result<BorrowedThread, AttachError> borrow(Stop& stop, const Memory& memory, Room room);
  BorrowedThread(BorrowedThread&& other) noexcept;
  BorrowedThread& operator=(BorrowedThread&&) = delete;
  ~BorrowedThread();

  // The call's result, or the errno it failed with. EPERM: not made, a filter could end the target.
  Result<uint64_t, SystemError> call(uint64_t number, uint64_t a = 0, uint64_t b = 0,
                                     uint64_t c = 0, uint64_t d = 0, uint64_t e = 0,
                                     uint64_t f = 0);
  // The thread is no more, and with it the process: no other one runs that could end it alone.
  bool has_ended() const { return ended_; }

 private:
  BorrowedThread(Stop& stop, const Memory& memory, Room room, SeccompFilters filters, pid_t tid,
                 const user_regs_struct& home, uint64_t mask);
  bool run_to_call_stop();

  Stop& stop_;
  const Memory& memory_;
  Room room_;
  SeccompFilters filters_;
  pid_t tid_ = 0;
  user_regs_struct home_;
  uint64_t mask_ = 0;
  bool holds_ = true;
  bool away_ = false;  // its registers are not its own
  bool ended_ = false;
};

// Could a thread of the process be borrowed, as far as seccomp goes? What borrow() would refuse,
// for who wants to know before there is work to lose. Stops the process for a moment if each of its
// threads has a filter, and else not.
Result<void, AttachError> can_be_borrowed_from(pid_t pid);

// How the kernel knows a thread's rseq area.
struct RseqRegistration {
  Address area = 0;
  uint32_t signature = 0;
  uint32_t size = 0;
};
std::optional<RseqRegistration> rseq_registration(pid_t tid);

}  // namespace pinprick::target
