// Breakpoints in our own process: the continuation of a thread that hits one.
//
// A breakpoint's address has one meaning for good: its continuation is a certain stub, or a certain
// copy of a displaced instruction. So no entry is removed while the code is mapped, and a thread
// whose signal arrives late, after the breakpoint was removed, goes on as correctly as any other.
// At an address that is not known any more, the thread executes the present instruction.
//
// The signal handler (trap.S) looks the address up and changes the instruction pointer. Handlers of
// probes run after it has returned, outside any signal handler. Traps that are not ours go to the
// handler that the program had set.
#pragma once

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"

namespace pinprick::runtime {

// Returns 0 if there is none. Any thread may call it, also in a signal handler.
Address continuation_of(Address trap);
// These are for one thread at a time; any number of threads may trap meanwhile.
void set_continuation(Address trap, Address continuation);
void forget_continuations(Range code);  // for code that is not mapped any more
// If it still is this one. Another object may be there by now, with breakpoints of its own.
void forget_continuation(Address trap, Address continuation);

// Installs our handler of SIGTRAP, unless it is installed. To be called again after the program may
// have set a handler of its own, to which other traps then go.
Result<void, SystemError> take_trap_signal();

}  // namespace pinprick::runtime
