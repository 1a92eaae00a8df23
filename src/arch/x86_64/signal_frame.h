// Signal frames, as the kernel writes them onto a stack. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/address.h"

namespace pinprick::arch {

// Finds signal frames in a stack. Takes its words in ascending order.
class SignalFrameFinder {
 public:
  // Returns the instruction pointer that a signal handler will return to, when `word` is the last
  // one needed to recognise its frame. Other data may look like a frame, too.
  //
  // struct sigcontext: ... rsp, rip, eflags, then cs, gs, fs, ss with 16 bits each.
  std::optional<Address> next(uint64_t word) {
    constexpr uint64_t kCodeSegment = 0x33;
    const Address instruction_pointer = std::exchange(before_last_, std::exchange(last_, word));
    if ((word & 0xffff) != kCodeSegment) return std::nullopt;
    return instruction_pointer;
  }

 private:
  uint64_t before_last_ = 0, last_ = 0;
};

}  // namespace pinprick::arch
