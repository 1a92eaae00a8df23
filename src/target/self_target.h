// Our own process as a target: its threads run on while its text is changed.
//
// Make a new one for each change: a /proc/self/mem that was opened before a fork is the parent's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "target/memory.h"

namespace pinprick::target {

class SelfTarget {
 public:
  static Result<SelfTarget, SystemError> open();

  const Memory& memory() const { return memory_; }
  // After this returns, no thread executes instructions that it fetched before the call.
  void synchronize_threads() const;
  // The same for the calling thread alone, without the kernel.
  static void synchronize_this_thread();

 private:
  explicit SelfTarget(Memory memory) : memory_(std::move(memory)) {}
  Memory memory_;
};

// Reads our own memory without a descriptor that lasts, and right after a fork, too. Returns false
// if any of it cannot be read. Any thread may call it.
bool read_own_memory(Address address, std::span<uint8_t> out);

// What would keep our breakpoints from working in this process now.
struct TrapObstacle {
  enum class Kind : uint8_t {
    tracer,   // a debugger would see them first
    blocked,  // a thread blocks SIGTRAP, so the kernel would kill the process
  };
  Kind kind = Kind::tracer;
  pid_t thread = 0;  // the one that blocks it
};
// Returns nullopt if nothing would. Takes some 40 us for each thread, up to the first that blocks
// the signal.
std::optional<TrapObstacle> trap_obstacle();
// Returns false if the thread has ended.
bool blocks_trap_signal(pid_t thread);

// Is the calling thread the only one that executes in this memory? Returns false if the process has
// another thread, even one that is about to end; if another process shares the memory (a child of
// vfork, or of clone with CLONE_VM), even if its parent has ended; and if a filter of system calls
// keeps this from asking the kernel.
bool is_only_thread();

// Maps memory for code, never writable: it is written through memory(). Returns false if the range
// is not free.
bool map_code(Range at);

}  // namespace pinprick::target
