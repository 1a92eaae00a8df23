// Does a piece of code use memory below the stack pointer?
//
// A function has nothing there when it is called. A part of a function that is jumped to may have
// data there, in the red zone: 128 bytes that the ABI gives to functions that call no other. Pure,
// thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace pinprick::arch {

// Returns whether any instruction has a negative offset from rsp, wherever rsp points by then. Also
// returns true if something cannot be decoded.
bool addresses_below_stack(std::span<const uint8_t> code);

}  // namespace pinprick::arch
