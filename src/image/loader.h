// What the dynamic loader of a process is doing.
#pragma once

#include <sys/types.h>

#include "image/object.h"

namespace pinprick::image {

// Is the loader mapping objects, or has it not done so yet after an exec? What is mapped is then a
// part of what will be. By the loader's interface to debuggers, `struct r_debug` (link.h). False
// for programs without a loader, and where it cannot be told.
bool loader_is_at_work(pid_t pid, const MemoryReader& reader);

}  // namespace pinprick::image
