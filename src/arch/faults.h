// Which instructions can fault at an address that the program chooses, as that of a null reference.
//
// Runtimes of languages make an exception of such a fault, if they find the address of the
// instruction in a table of their code, and otherwise end the program. So an instruction that can
// fault has to stay where it is. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace pinprick::arch {

// Returns whether the instruction at the start of `code` can fault in this way: it accesses memory
// other than its own object's, thread-local variables and the stack by rsp, or it divides. Returns
// true if it cannot be decoded.
bool can_fault(std::span<const uint8_t> code);

// Returns whether the function has no frame, as far as it can be decoded: no instruction but `ret`
// changes the stack pointer, so it calls nothing either.
bool has_no_frame(std::span<const uint8_t> function);

}  // namespace pinprick::arch
