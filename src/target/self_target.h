// Our own process as a target: its threads run on while its text is changed.
//
// Make a new one for each change: a /proc/self/mem that was opened before a fork is the parent's.
#pragma once

#include <optional>

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

 private:
  explicit SelfTarget(Memory memory) : memory_(std::move(memory)) {}
  Memory memory_;
};

// What would keep our breakpoints from working in this process now; nullopt if nothing would.
enum class TrapObstacle : uint8_t {
  tracer,   // a debugger would see them first
  blocked,  // a thread blocks SIGTRAP, so the kernel would kill the process
};
std::optional<TrapObstacle> trap_obstacle();

// Maps memory for code, never writable: it is written through memory(). Returns false if the range
// is not free.
bool map_code(Range at);

}  // namespace pinprick::target
