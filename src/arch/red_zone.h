// Does a piece of code address the memory below the stack pointer?
//
// A function begins with nothing there. A part of one that is jumped to may find its data: the red
// zone of 128 bytes that the ABI leaves to whoever calls nobody.
#pragma once

#include <cstdint>
#include <span>

namespace pinprick::arch {

// By negative offsets from rsp, whatever happens to that on the way. True also for what is no code.
bool addresses_below_stack(std::span<const uint8_t> code);

}  // namespace pinprick::arch
