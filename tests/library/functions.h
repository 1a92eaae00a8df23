// Functions to be probed, in assembly, so that a test knows their instructions.
#pragma once

#include <cstdint>

extern "C" {
long self_window(long a, long b);  // lea; add; ret: boundaries under the jump
long self_insn(long a);            // mov $imm32, ...: one instruction of five bytes
long self_blocked(long a);         // in the blacklist of one test
long self_nop(long a);             // a 5-byte nop first
long self_marked(long a);          // endbr64 first
long self_short(long a);           // a one-byte block before a branch target: no room for a jump
long self_pushes(long a);          // one-byte instructions: a boundary at each offset
long self_steps(long a);           // five instructions of three bytes
long self_seven(long a, long b, long c, long d, long e, long f, long g);  // returns g
long self_below(long a);     // a + a, by way of the red zone
long self_backward();        // returns the flags, with the direction flag set
double self_half(double x);  // returns x / 2
long self_call_back(long (*function)(long), long a);  // returns function(a) + 1
long self_factorial(long n);                          // recursive
long self_unaligned(long (*function)(long), long a);  // calls function(a) with an unaligned stack
long self_waits(long flag);                           // sets *flag to 1, waits until it changes
extern long (*const stress_functions[5 * 64])(long);  // stress_shapes.S
}

namespace pinprick {

// An address within a function, computed so that no instruction contains it: the planner takes code
// whose address is taken for a branch target.
template <class F>
const void* inside(F* function, uint64_t offset) {
  const volatile uint64_t address = reinterpret_cast<uint64_t>(function);
  return reinterpret_cast<const void*>(address + offset);
}

inline constexpr uint64_t kSecondOfWindow = 4;  // the second instruction of self_window

}  // namespace pinprick
