// For how long a process stands still while one probe comes in, beside the least that ptrace can
// do: to stop its threads, to write eight bytes, to let them go.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `targets`: the folder with the program still_target. Prints its table itself.
Result<void, cli::Message> measure_stops(const std::string& targets, const Interrupts& interrupts,
                                         Results& results);

}  // namespace pinprick::bench
