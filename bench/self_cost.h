// What probes cost in one's own process, with libpinprick: its handlers, its breakpoints, and many
// at once; and how breakpoints are found.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `targets`: where self_target and lookup_target are, which do the work.
Result<void, cli::Message> measure_self(const std::string& targets, const Interrupts& interrupts,
                                        Results& results);

}  // namespace pinprick::bench
