// What it costs to hold and to probe every process that executes or loads a file (docs/by-file.md).
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// Skipped with a line if executions are not held here.
Result<void, cli::Message> measure_files(const std::string& pinprick, const std::string& targets,
                                         const Interrupts& interrupts, Results& results);

}  // namespace pinprick::bench
