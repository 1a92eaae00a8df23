// Tells which calls in flight were made by threads that have ended since: such a call will never
// return. It was not left by longjmp, and its slot does not have to stay for it.
//
// A slot does not say which thread has it, so this looks at the call's stack. It says that the
// thread has ended only if that is certain:
//
//   - Nothing is mapped there any more.
//   - The call is on no stack any more, and its return address leads straight to the end of the
//     thread, as that of a thread's first function does. Such a call is left with its thread only.
//     While it is on a stack, its thread may live, and the function may yet return.
//   - It is the stack of the process's first thread, and that thread has ended.
//   - It is a stack that glibc keeps for later threads: at its end is the control block of a thread
//     that has ended.
//   - It is the stack of a thread that was started after the call was made.
//
// The process must be stopped while this is used. Nothing can fail.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/address.h"
#include "image/maps.h"
#include "target/memory.h"
#include "target/stop.h"

namespace pinprick::engine {

class EndedThreads {
 public:
  struct Call {
    Address stack = 0;           // where its return address was
    Address return_address = 0;  // the program's
    uint64_t tsc = 0;            // when it was made
    bool is_on_stack = false;    // its return address, or the slot's in its place, is still there
  };

  // Without a process: no thread has ended. The mappings and `memory` must outlive this;
  // `ns_multiplier` is that of base/clock.h.
  EndedThreads() = default;
  EndedThreads(pid_t pid, std::span<const target::StoppedThread> threads,
               std::span<const image::Mapping> maps, const target::Memory& memory,
               uint64_t ns_multiplier);

  // Has the thread that made the call ended?
  bool have_made(const Call& call) const;

 private:
  struct Thread {
    pid_t tid = 0;
    Address stack_pointer = 0;
    Address control_block = 0;
  };
  const image::Mapping* mapping_at(Address address) const;
  bool is_first_function(Address return_address) const;
  bool is_kept_stack(const image::Mapping& mapping, Address stack) const;
  bool was_started_after(const Thread& thread, uint64_t tsc) const;

  pid_t pid_ = 0;
  std::vector<Thread> threads_;
  std::span<const image::Mapping> maps_;
  const target::Memory* memory_ = nullptr;
  uint64_t ns_multiplier_ = 0;
  // What was found out already: thousands of calls may have one caller.
  mutable std::map<Address, bool> first_functions_;
  mutable std::map<Address, Address> control_blocks_;  // of threads that have ended, by mapping
  mutable std::map<pid_t, uint64_t> starts_ns_;        // since the machine's start
};

}  // namespace pinprick::engine
