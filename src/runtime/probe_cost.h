// What a probe adds to a call on this machine, measured on code of our own in this process.
#pragma once

#include <optional>

namespace pinprick::runtime {

// Returns nanoseconds. Takes a few milliseconds the first time. Returns nullopt if executable
// memory is refused.
std::optional<double> return_probe_cost();

}  // namespace pinprick::runtime
