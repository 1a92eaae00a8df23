// Which calls have ended without a return, by an exception or longjmp. Pure.
#pragma once

#include <cstdint>

namespace pinprick {

// Returns whether a call has ended, judged by the stack pointer of an entry or a hit that came
// later; 0 means that a stack pointer is not known. Whatever lies in a call has a lower one, or the
// same one after a jump from one function to another. Other stacks are far away.
inline bool was_abandoned(uint64_t stack_pointer, uint64_t later_stack_pointer,
                          bool is_same_function) {
  constexpr uint64_t kMostStack = 8 << 20;
  if (stack_pointer == 0 || later_stack_pointer == 0) return false;
  const uint64_t above = later_stack_pointer - stack_pointer;
  return above < kMostStack && (above != 0 || is_same_function);
}

}  // namespace pinprick
