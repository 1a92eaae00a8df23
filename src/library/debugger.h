// Tells debuggers of emitted code, by gdb's JIT interface: when gdb attaches, it looks for certain
// names in each object, and reads the symbol file to which they lead. The file never changes under
// a debugger, as no probe is placed then; but a debugger may attach at any instruction, and finds
// either the whole old file or the whole new one.
#pragma once

#include <cstdint>
#include <vector>

namespace pinprick::library {

// Replaces the symbol file. For one thread at a time.
void show_debuggers(std::vector<uint8_t> file);

}  // namespace pinprick::library
