// Resets what a session has recorded: all that its histograms hold becomes a baseline, which every
// reader subtracts (ledger::SessionFile::reset). No time that began before the reset is recorded
// after it: starts of spans, ends before gaps, and calls in flight are forgotten.
//
// By any controller, with the process's turn held. Every thread is safe at each step:
//   1  all threads are stopped, and let go again for a moment while one is in the runtime's code:
//      there it may have counted a time and not have added it to the sum yet
//   2  the baseline is written, and then one word of the file makes it hold
//   3  a start, and the end before a gap, is one word. A thread that has read it already ends its
//      span or gap as it would have, and clears a word that is 0; a thread that compares it finds
//      another value, and looks again
//   4  a call in flight has a slot. The slot gets a start that no clock reads; the call still
//      returns through it, and is not recorded
//   5  the threads go on
// A controller that dies after 2 may leave starts from before, and the times that they begin are
// recorded. A reset that fails has changed nothing.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/memory.h"
#include "target/remote_target.h"

namespace pinprick::engine {

struct ResetReport {
  uint64_t stopped_ns = 0;  // how long the target as a whole was stopped
  bool is_torn = false;     // a thread was in the runtime's code all the time
};

// `journal` is what `file` says; both are updated. Fails if the process cannot be stopped or
// written, has executed another program, or if there is no space for the baseline.
Result<ResetReport, ledger::SessionError> reset(const target::RemoteTarget& target,
                                                ledger::SessionFile& file,
                                                layout::Session& journal);

// Forgets starts of spans, and ends before gaps, of a session whose probes are off: nothing is
// recorded of the time when they were. The target is not stopped.
Result<void, ledger::SessionError> forget_starts(const target::Memory& memory,
                                                 ledger::SessionFile& file,
                                                 const layout::Session& journal);

}  // namespace pinprick::engine
