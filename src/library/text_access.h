// Checks whether the text of our own process may be changed now.
//
// Two things forbid it: an attached session that changes the text, too, and a thread that a
// breakpoint of ours would kill. The caller holds the registry's lock. Each function returns the
// reason as an error. They change nothing of the process but its SIGTRAP handler, and the page that
// claims the text (patch/text_owner.h).
#pragma once

#include "base/result.h"
#include "pinprick/error.h"
#include "target/self_target.h"

namespace pinprick::library {

// Fails while an attached session has changed the text, or has left it changed.
Result<void, Error> not_attached();

// To be called before the text is changed: from then on no attached session may change it.
Result<void, Error> claim_text(const target::SelfTarget& self);

// Makes sure that no thread would die at a breakpoint of ours. To be called before each piece of a
// change: since the last one the program may have set a handler of its own or blocked the signal,
// or a debugger may have attached. Takes more than half a second if a thread keeps SIGTRAP blocked.
Result<void, Error> ready_for_breakpoints();

}  // namespace pinprick::library
