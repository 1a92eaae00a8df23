// Records that a program measures itself, and prints (targets/timing.h has the format).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// Runs `command` until its line `done`, and adds its records to `results`.
Result<void, cli::Message> read_records(const std::vector<std::string>& command,
                                        const Interrupts& interrupts, Results& results);

}  // namespace pinprick::bench
