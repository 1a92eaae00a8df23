// Does a function look at its own return address, or take it off the stack?
//
// While a return probe measures a call, the return address on the stack is that of a slot.
// Functions that keep it (setjmp, getcontext), take it away (vfork) or ask who called them (dlsym)
// must not be return-probed; in a stripped program their code is all there is to know them by. Nor
// must functions that jump to such a one with the stack as they were entered: they hand their own
// return address on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"

namespace pinprick::arch {

struct ReturnAddressUse {
  bool is_read = false;
  // Addresses outside of the function that it jumps to, or runs into, with the return address on
  // top of the stack. Incomplete where `is_read`.
  std::vector<Address> forwards_to;
};

// `function` lies at `begin`. Follows the stack pointer, and frames built on rbp, along all paths
// of direct jumps, taken and not taken; calls are taken to come back. What is behind a computed
// jump, or reaches the return address through another register, is not seen.
ReturnAddressUse use_of_return_address(std::span<const uint8_t> function, Address begin);

inline bool reads_return_address(std::span<const uint8_t> function) {
  return use_of_return_address(function, 0).is_read;
}

}  // namespace pinprick::arch
