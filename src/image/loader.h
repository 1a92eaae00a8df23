// The state of a process's dynamic loader. The loader may also be what the process has executed, as
// in `ld-linux-x86-64.so.2 PROGRAM`: it then maps the program itself.
#pragma once

#include <sys/types.h>

#include <optional>

#include "image/object.h"

namespace pinprick::image {

// Returns where the loader is mapped; 0 if the process has none.
Address loader_base(pid_t pid, const MemoryReader& reader);

// Returns an address in the program: where its headers are, or its dynamic section if the loader
// was executed, and has mapped it. Before that, the loader counts as the program.
Address address_in_program(pid_t pid, const MemoryReader& reader);

// Returns whether the loader is mapping objects, or has not started to after an exec, so that more
// will be mapped. Uses the loader's interface for debuggers, `struct r_debug` (link.h). Returns
// false for programs without a loader, and if it is not known.
bool loader_is_at_work(pid_t pid, const MemoryReader& reader);

// Returns the address of the function that the loader calls each time that it has mapped objects,
// before it relocates or initialises any of them, and when it has unmapped some. Returns nullopt if
// there is no loader.
std::optional<Address> loader_notifies_at(pid_t pid, const MemoryReader& reader);

}  // namespace pinprick::image
