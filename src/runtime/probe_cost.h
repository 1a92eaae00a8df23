// What a probe adds to a call on this machine, measured on code of our own in this process.
#pragma once

#include <optional>

namespace pinprick::runtime {

// Nanoseconds; takes a few milliseconds the first time. Nothing where executable memory is refused.
std::optional<double> return_probe_cost();

}  // namespace pinprick::runtime
