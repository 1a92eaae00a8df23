// How long it takes until a probe is in, from the start of the program on: one function of a
// library of a running python3, as a user would type it. With what was decoded before at hand,
// and without.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `pinprick`: the program. Prints its table itself; where there is no python3, it says so.
Result<void, cli::Message> measure_arm(const std::string& pinprick, const Interrupts& interrupts,
                                       Results& results);

}  // namespace pinprick::bench
