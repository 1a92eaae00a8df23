// Where Go functions can be counted: at the stack check that most of them start with. Pure.
//
//     cmp 16(%r14),%rsp; jbe more                     with a small frame
//     lea -N(%rsp),%r12; cmp 16(%r14),%r12; jbe more  with a larger one
//
// Anywhere else Go's runtime would notice a probe:
//   - It suspends a goroutine by a signal at nearly any instruction, and resumes it some time
//     later. In between the goroutine is on no thread, so that nothing shows that it will return
//     there. In a stub, which is not Go code, it does not suspend a goroutine.
//   - It turns a fault into a panic according to the function that contains the faulting
//     instruction. In a stub it kills the program.
//   - After the check, a function knows how much stack is left, and may use all of it.
//
// At the check, no goroutine is suspended between its instructions (cmd/internal/obj/x86,
// stacksplit: an "unsafe point"), nothing faults, and the flags, r12 and r13 hold nothing: the
// compiler keeps them free for the check. So the stub needs no stack.
#pragma once

#include <cstdint>
#include <span>

namespace pinprick::arch {

// Returns how many bytes of the check at `code`, whole instructions, a jump of five bytes
// displaces; 0 if there is no check.
uint8_t displaced_of_stack_check(std::span<const uint8_t> code);

}  // namespace pinprick::arch
