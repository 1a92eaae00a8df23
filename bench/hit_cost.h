// What one hit costs: ours and the kernel's, on functions of five shapes, on one thread and two.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `target`: the program hit_target.
Result<void, cli::Message> measure_hits(const std::string& target, const Interrupts& interrupts,
                                        Results& results);

}  // namespace pinprick::bench
