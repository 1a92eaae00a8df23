// What probes cost in one's own process, with libpinprick: its handlers, its breakpoints, and many
// at once.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `target`: the program self_target, which does the work.
Result<void, cli::Message> measure_self(const std::string& target, const Interrupts& interrupts,
                                        Results& results);

}  // namespace pinprick::bench
