// The cost of one hit, with our probes and the kernel's, on functions of five shapes, with one
// thread and two.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `target` is the program hit_target.
Result<void, cli::Message> measure_hits(const std::string& target, const Interrupts& interrupts,
                                        Results& results);

}  // namespace pinprick::bench
