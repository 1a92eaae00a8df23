// The cost of very many probes: how long it takes to place and to remove them, and whether they
// slow down a hit. On programs with 1,000 to 100,000 functions, compared with the kernel's uprobes.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// `targets` is the folder with the programs many_N. Prints its table itself.
Result<void, cli::Message> measure_mass(const std::string& targets, const Interrupts& interrupts,
                                        Results& results);

}  // namespace pinprick::bench
