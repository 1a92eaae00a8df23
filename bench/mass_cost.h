// What very many probes cost: until they are in and out again, and whether a hit notices the
// others. On programs of 1,000 to 100,000 functions, beside the kernel's uprobes.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `targets`: the folder with the programs many_N. Prints its table itself.
Result<void, cli::Message> measure_mass(const std::string& targets, const Interrupts& interrupts,
                                        Results& results);

}  // namespace pinprick::bench
