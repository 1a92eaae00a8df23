// Does a function look at its own return address, or take it off the stack?
//
// While a return probe measures a call, the return address on the stack is that of a slot.
// Functions that keep it (setjmp, getcontext), take it away (vfork) or ask who called them (dlsym)
// must not be return-probed; in a stripped program their code is all there is to know them by.
#pragma once

#include <cstdint>
#include <span>

namespace pinprick::arch {

// Follows the stack pointer through the function's straight-line beginning and through frames built
// on rbp. False means: not seen, as far as that can be followed.
bool reads_return_address(std::span<const uint8_t> function);

}  // namespace pinprick::arch
