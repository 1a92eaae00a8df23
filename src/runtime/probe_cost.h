// What a probe adds to a call on this machine, measured on code of our own in this process.
#pragma once

#include <optional>

namespace pinprick::runtime {

// Returns nanoseconds for a timed call, entry and return. Takes a few milliseconds the first time.
// Returns nullopt if executable memory is refused.
std::optional<double> return_probe_cost();

// What a hit adds where many probes are hit in turn, as in a program with a probe on every
// function: stubs and counters then push each other out of the processor's first caches, and
// branches out of its tables. In nanoseconds.
struct CrowdedCosts {
  double count = 0;
  double locked_count = 0;  // in a process without restartable sequences
  double call = 0;          // timed, entry and return
};
// Takes some 10 ms the first time. Returns nullopt if executable memory is refused.
std::optional<CrowdedCosts> crowded_probe_costs();

}  // namespace pinprick::runtime
