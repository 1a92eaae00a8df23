// The clock of the targets (raw TSC) and that of the controller (CLOCK_MONOTONIC).
#pragma once

#include <cstdint>

namespace pinprick {

uint64_t monotonic_ns();
void sleep_ns(uint64_t duration);
uint64_t realtime_ns();
uint64_t read_tsc();

// Does the TSC tick at one rate on all CPUs, whatever they sleep or throttle?
bool tsc_is_invariant();

// Ticks per second, measured against CLOCK_MONOTONIC since the program started, which has to be
// 10 ms ago: waits until it is.
// Error below 50 ppm: half a microsecond per 10 ms of latency.
double tsc_frequency();

// Nanoseconds per tick, times 2^32.
uint64_t ns_multiplier();
// The same without waiting, from whatever time has passed: within a percent, once the program has
// started a tenth of a millisecond ago.
uint64_t rough_ns_multiplier();

}  // namespace pinprick
