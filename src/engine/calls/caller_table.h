// The table of code from which a session's calls are timed (runtime/callers.h), changed by a
// controller that has not made it: that of a statistic, which has no controller of its own.
//
// The caller holds the process's turn, as only one at a time may change a table.
#pragma once

#include <span>

#include "base/address.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

// Makes `code` the code from which the session's calls are timed. Does nothing if the session times
// calls from everywhere or none, or if its table is damaged.
void admit_callers(const target::Memory& memory, const layout::Session& journal,
                   std::span<const Range> code);

// Takes the return address of a call that was not timed, as its code is not in the session's table;
// 0 if there was none since the last time.
Address take_unknown_caller(const target::Memory& memory, const layout::Session& journal);

}  // namespace pinprick::engine
