// The clock of the targets (raw TSC) and that of the controller (CLOCK_MONOTONIC). Thread-safe.
#pragma once

#include <cstdint>

namespace pinprick {

uint64_t monotonic_ns();
void sleep_ns(uint64_t duration);
uint64_t realtime_ns();
uint64_t read_tsc();

// Returns whether the TSC ticks at one rate on all CPUs, even if they sleep or are throttled.
bool tsc_is_invariant();

// Returns ticks per second, measured against CLOCK_MONOTONIC since the program started. Waits until
// that is 10 ms ago. The error is below 50 ppm: half a microsecond per 10 ms of latency.
double tsc_frequency();

// Returns nanoseconds per tick, times 2^32.
uint64_t ns_multiplier();
// The same with a shorter wait, from the time that has passed: the error is within a percent if the
// program started at least 0.1 ms ago.
uint64_t rough_ns_multiplier();

}  // namespace pinprick
