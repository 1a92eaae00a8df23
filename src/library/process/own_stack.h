// Whether the calling thread may go on in the middle of certain instructions.
//
// A function returns to the instruction after its call. But a signal handler returns to wherever
// the thread was interrupted, and so does a function that a debugger has called. This reads the
// thread's own stacks. Any thread may call it, also without a lock. Cannot fail: if the stacks do
// not tell, it returns true.
#pragma once

#include <span>

#include "base/address.h"
#include "target/memory.h"

namespace pinprick::library {

// May a signal handler of this thread, or a function that a debugger has called, return into one of
// the ranges? Always true in a function that gdb has called, as gdb leaves no trace of where it has
// stopped the thread. Calls by other debuggers are not recognised (docs/library.md).
bool may_go_on_inside(const target::Memory& memory, std::span<const Range> ranges);

}  // namespace pinprick::library
