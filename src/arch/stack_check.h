// Where Go functions can be counted: at the check of the stack's limit that most begin with. Pure.
//
//     cmp 16(%r14),%rsp; jbe more                     with a small frame
//     lea -N(%rsp),%r12; cmp 16(%r14),%r12; jbe more  with a larger one
//
// Elsewhere Go's runtime would see the difference:
//   - It suspends a goroutine by a signal at nearly every instruction, and continues it some time
//     later: in between it stands on no thread, so nobody sees that it will return to there. In a
//     stub, which is no Go code, it lets a goroutine go on.
//   - A fault it makes a panic, by the function that the faulting instruction belongs to: in a stub
//     that ends the program.
//   - Behind the check a function knows how much stack is left, and may use all of it.
// At the check nobody is suspended between its instructions (cmd/internal/obj/x86, stacksplit: an
// "unsafe point"), nothing faults, and neither the flags nor r12 and r13 hold anything, which the
// compiler keeps free for it: so the stub needs no stack.
#pragma once

#include <cstdint>
#include <span>

namespace pinprick::arch {

// How many bytes of the check at `code`, whole instructions, a jump of five bytes displaces; 0:
// there is none.
uint8_t displaced_of_stack_check(std::span<const uint8_t> code);

}  // namespace pinprick::arch
