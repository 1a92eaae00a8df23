// Tells on which thread's stack an address lies, in a process that is not stopped.
//
// Of a running thread, the kernel does not tell the stack pointer. It does tell where the thread's
// list of robust mutexes starts (get_robust_list(2)), which glibc has in the thread's control
// block. A control block lies at the upper end of the thread's stack, and says where that stack
// begins: glibc and musl both keep its address and its size there, next to each other. musl makes
// no such list until it needs one, so its control blocks are looked for at the ends of mappings,
// by their own address and the thread's TID. The first thread has the mapping [stack].
//
// The process can write all of this, except for the kernel's part. So an answer is as true as the
// process's memory. If its parts contradict each other, no thread is named. Stacks that a program
// has made itself, such as those of coroutines, are no thread's.
//
// Reads only, and stops nothing. For one look: threads come and go. Nothing can fail. Not
// thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "image/maps.h"
#include "target/memory.h"

namespace pinprick::engine {

class StackOwners {
 public:
  // The mappings and the memory are those of the process, and must outlive this.
  StackOwners(pid_t pid, const target::Memory& memory, std::span<const image::Mapping> maps);

  struct Owner {
    pid_t thread = 0;  // 0: it is not certain
    // The thread that had the stack has ended, or it runs on this stack above the address. Then no
    // call whose return address lies there will return.
    bool is_over = false;
  };
  // Of the address at which a call's return address lies, which was made when the clock (the TSC)
  // said `tsc`.
  Owner owner_of(Address address, uint64_t tsc);

  // Returns the thread with that TID in its own PID namespace that was running at `tsc`; 0 if there
  // is none.
  pid_t thread_inside(pid_t tid, uint64_t tsc);

 private:
  struct Thread {
    pid_t tid = 0;
    Range stack;  // up to its control block; empty: not known
    std::optional<uint64_t> start_ns;
    std::optional<std::optional<Address>> stack_pointer;
  };
  // The stack that ends where a mapping ends.
  struct StackEnd {
    Thread* thread = nullptr;
    Range of_ended;  // the stack of a thread that has ended
  };
  std::optional<Range> stack_of_control_block(Address control_block) const;
  std::optional<Range> stack_by_kernel(pid_t tid) const;
  const image::Mapping* mapping_at(Address address) const;
  const StackEnd& end_of(const image::Mapping& mapping);
  Thread* thread_by_inner_tid(pid_t tid);
  bool was_started_after(Thread& thread, uint64_t tsc);
  Owner owner_in(Thread& thread, Range stack, Address address, uint64_t tsc);

  pid_t pid_;
  const target::Memory* memory_;
  std::span<const image::Mapping> maps_;
  std::vector<Thread> threads_;
  std::map<Address, StackEnd> ends_;  // by the end of the mapping
  std::optional<std::map<pid_t, size_t>> inner_tids_;
};

}  // namespace pinprick::engine
