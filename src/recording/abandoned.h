// Which calls have ended without a return, by an exception or longjmp. Pure.
#pragma once

#include <cstdint>

namespace pinprick::recording {

// Returns whether a call has ended, by where an entry or a hit that came later lies on the stack; 0
// means that a place is not known. What lies in a call is below it, or at the same place after a
// jump from one function to another. Other stacks are far away.
inline bool was_abandoned(uint64_t stack_pointer, uint64_t later_stack_pointer,
                          bool is_same_function) {
  constexpr uint64_t kMostStack = 8 << 20;
  if (stack_pointer == 0 || later_stack_pointer == 0) return false;
  const uint64_t above = later_stack_pointer - stack_pointer;
  return above < kMostStack && (above != 0 || is_same_function);
}

}  // namespace pinprick::recording
