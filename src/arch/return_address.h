// Does a function read its own return address, or take it off the stack?
//
// While a return probe measures a call, the return address on the stack is a slot's. Functions that
// keep it (setjmp, getcontext), take it off (vfork) or look up their caller (dlsym) must not be
// return-probed. In a stripped program only their code identifies them. The same goes for functions
// that jump to such a function with the stack as at their own entry: they pass their own return
// address on. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"

namespace pinprick::arch {

struct ReturnAddressUse {
  bool is_read = false;
  // Addresses outside the function that it jumps to, or falls into, while the return address is at
  // the top of the stack. Incomplete if `is_read`.
  std::vector<Address> forwards_to;
  // Addresses of pointers through which it jumps in the same way, as code does that was compiled
  // without a procedure linkage table. The pointer may have been loaded into a register before.
  std::vector<Address> forwards_through;
  // It jumps in the same way through a pointer that lies at no fixed address, such as one in an
  // object, or by a table.
  bool forwards_elsewhere = false;
  // Addresses of the pointers that it loads into registers. Code that jumps by way of a thunk, as a
  // mitigation of speculative execution, loads the pointer before.
  std::vector<Address> loads;
};

// `function` lies at `begin`. Follows the stack pointer, frames based on rbp, and the register
// through which a function that aligns its stack finds its arguments (r10 or r13), along all paths
// of direct jumps, taken and not taken; assumes that calls return. Does not see code that only a
// computed jump reaches, nor accesses to the return address through other registers.
ReturnAddressUse use_of_return_address(std::span<const uint8_t> function, Address begin);

inline bool reads_return_address(std::span<const uint8_t> function) {
  return use_of_return_address(function, 0).is_read;
}

}  // namespace pinprick::arch
