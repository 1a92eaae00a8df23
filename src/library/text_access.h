// Whether the text of one's own process may be changed now.
//
// Two things forbid it: an attached session that changes the text as well, and a thread that a
// breakpoint of ours would end. The registry's lock is held. Each function returns the reason as an
// error. All that they change of the process is its SIGTRAP handler, and the page that claims the
// text (patch/text_owner.h).
#pragma once

#include "base/result.h"
#include "pinprick/error.h"
#include "target/self_target.h"

namespace pinprick::library {

// Fails while an attached session has changed the text, or has left it changed.
Result<void, Error> not_attached();

// Text is about to change. From now on no attached session may change it as well.
Result<void, Error> claim_text(const target::SelfTarget& self);

// No thread that meets a breakpoint of ours dies of it. This is asked before each piece of a
// change: since the last one the program may have set a handler of its own, blocked the signal, or
// come under a debugger. It takes more than half a second where a thread lasts in blocking
// SIGTRAP.
Result<void, Error> ready_for_breakpoints();

}  // namespace pinprick::library
