// The cost of libpinprick's probes in our own process: handlers, breakpoints, and many probes at
// once; and the cost of looking up breakpoints.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `targets` is the folder with self_target and lookup_target, which do the work.
Result<void, cli::Message> measure_self(const std::string& targets, const Interrupts& interrupts,
                                        Results& results);

}  // namespace pinprick::bench
