// The cost of tracepoints, while they are off and while they are on, beside LTTng's.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `targets` is the folder with the programs that do the work. Prints its tables itself, or why a
// part is skipped.
Result<void, cli::Message> measure_points(const std::string& targets, const Interrupts& interrupts,
                                          Results& results);

}  // namespace pinprick::bench
