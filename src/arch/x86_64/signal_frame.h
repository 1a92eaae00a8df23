// Signal frames, as the kernel writes them onto a stack. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/address.h"

namespace pinprick::arch {

struct SignalFrame {
  Address instruction_pointer = 0;  // the interrupted one, as is the stack pointer
  Address stack_pointer = 0;
  // The flags and segments are those of a 64-bit program. Otherwise this may well be other data.
  bool is_certain = false;
};

// Finds signal frames in a stack. Takes its words in ascending order.
class SignalFrameFinder {
 public:
  // Returns a frame when `word` is the last one needed to recognise it. Other data may look like a
  // frame, too.
  //
  // struct sigcontext: ... rsp, rip, eflags, then cs, gs, fs, ss with 16 bits each. Before Linux
  // 4.7, ss may be 0.
  std::optional<SignalFrame> next(uint64_t word) {
    constexpr uint64_t kCodeSegment = 0x33, kStackSegment = 0x2b;
    constexpr uint64_t kAlwaysSet = 2, kMostFlags = 1 << 22;
    const uint64_t flags = std::exchange(last_, word);
    const uint64_t instruction_pointer = std::exchange(before_last_, flags);
    const uint64_t stack_pointer = std::exchange(third_last_, instruction_pointer);
    if ((word & 0xffff) != kCodeSegment) return std::nullopt;
    const bool has_segments = word == kCodeSegment || word == (kCodeSegment | kStackSegment << 48);
    return SignalFrame{instruction_pointer, stack_pointer,
                       has_segments && (flags & kAlwaysSet) != 0 && flags < kMostFlags};
  }

 private:
  uint64_t third_last_ = 0, before_last_ = 0, last_ = 0;
};

}  // namespace pinprick::arch
