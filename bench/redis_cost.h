// The cost of probes in a real program: a redis-server of our own, on a socket in a private folder.
#pragma once

#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"
#include "results.h"

namespace pinprick::bench {

// Prints its tables itself. If redis is not installed, says so and measures nothing.
Result<void, cli::Message> measure_redis(const Interrupts& interrupts, Results& results);

}  // namespace pinprick::bench
