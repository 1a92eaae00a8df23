// Tells debuggers of emitted code, by gdb's JIT interface: when gdb attaches, it looks for certain
// names in each object, and reads the symbol file to which they lead. One that is there already
// stops the thread in a function by one of these names, and is told to forget the old file, which
// is freed after that, and to read the new one. A debugger may attach at any instruction, and finds
// either the whole old file or the whole new one.
#pragma once

#include <cstdint>
#include <vector>

namespace pinprick::library {

// Replaces the symbol file. For one thread at a time.
void show_debuggers(std::vector<uint8_t> file);

}  // namespace pinprick::library
