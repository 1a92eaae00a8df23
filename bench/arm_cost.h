// How long it takes from the start of pinprick until a probe is placed: on one function of a
// library of a running python3, as a user would type it. With and without cached decoding.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `pinprick` is the program. Prints its table itself, or that there is no python3.
Result<void, cli::Message> measure_arm(const std::string& pinprick, const Interrupts& interrupts,
                                       Results& results);

}  // namespace pinprick::bench
