// What the dynamic loader of a process is doing.
#pragma once

#include <sys/types.h>

#include <optional>

#include "image/object.h"

namespace pinprick::image {

// Is the loader mapping objects, or has it not done so yet after an exec? What is mapped is then a
// part of what will be. By the loader's interface to debuggers, `struct r_debug` (link.h). False
// for programs without a loader, and where it cannot be told.
bool loader_is_at_work(pid_t pid, const MemoryReader& reader);

// Where the loader calls a function each time that it has mapped objects, before it relocates or
// initialises any of them, and when it has unmapped some. Nothing: there is no loader.
std::optional<Address> loader_notifies_at(pid_t pid, const MemoryReader& reader);

}  // namespace pinprick::image
