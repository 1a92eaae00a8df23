// The process that we run in, as a target: its threads run on while its text is changed.
//
// Made anew for each change: after a fork, /proc/self/mem of before would be the parent's memory.
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
  // When this returns, no thread executes instructions that it fetched before.
  void synchronize_threads() const;

 private:
  explicit SelfTarget(Memory memory) : memory_(std::move(memory)) {}
  Memory memory_;
};

// What keeps breakpoints from working.
enum class TrapObstacle : uint8_t {
  tracer,   // a debugger would see them first
  blocked,  // a thread blocks SIGTRAP: the kernel would kill the process
};
std::optional<TrapObstacle> trap_obstacle();

// Memory for code, never writable: it is written through memory(). False: the range is not free.
bool map_code(Range at);

}  // namespace pinprick::target
