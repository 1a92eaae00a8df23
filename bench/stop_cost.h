// For how long a process is stopped while one probe is placed, compared with the minimum by ptrace:
// stop its threads, write eight bytes, resume them.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `targets` is the folder with the program still_target. Prints its table itself.
Result<void, cli::Message> measure_stops(const std::string& targets, const Interrupts& interrupts,
                                         Results& results);

}  // namespace pinprick::bench
