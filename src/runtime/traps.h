// Breakpoints in one's own process: where a thread that meets one goes on.
//
// An address means one thing for good: whoever comes there is to go on in this stub, or in this
// copy of a displaced instruction. So nothing is ever taken out while the code is mapped, and a
// thread whose signal comes late, when the breakpoint is gone again, is sent on as rightly as one
// that comes in time. One that is not known any more executes what is there now.
//
// The signal handler (trap.S) looks up and changes the instruction pointer; handlers of probes run
// after it has returned, outside of any signal handler. Traps that are not ours go to whoever had
// the signal before.
#pragma once

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"

namespace pinprick::runtime {

// One thread at a time; any number of threads may trap meanwhile.
void set_continuation(Address trap, Address continuation);
void forget_continuations(Range code);  // that is not mapped any more

// Takes SIGTRAP, if we do not have it. Again after the program may have set a handler of its own,
// which then becomes the one that other traps go to.
Result<void, SystemError> take_trap_signal();

}  // namespace pinprick::runtime
