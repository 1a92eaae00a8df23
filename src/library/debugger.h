// Tells debuggers of emitted code, by the interface through which gdb learns of compilers' code in
// memory: it looks for these names in each object when it attaches, and reads the file that they
// lead to. No debugger is there when the file changes, as nothing is placed under one; but it may
// come at any instruction, and finds either the former one or the new one whole.
#pragma once

#include <cstdint>
#include <vector>

namespace pinprick::library {

// In place of the former one. One thread at a time.
void show_debuggers(std::vector<uint8_t> file);

}  // namespace pinprick::library
