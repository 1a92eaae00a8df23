// The clock that targets use (the TSC), the one that the controller uses (CLOCK_MONOTONIC), and the
// ratio of the two. Thread-safe; nothing here fails.
#pragma once

#include <cstdint>

namespace pinprick {

uint64_t monotonic_ns();  // CLOCK_MONOTONIC
uint64_t boottime_ns();   // CLOCK_BOOTTIME: since the start, while suspended, too
uint64_t realtime_ns();   // CLOCK_REALTIME: since 1970
uint64_t read_tsc();      // in ticks

void sleep_ns(uint64_t duration);

// Returns whether the TSC ticks at the same constant rate on all CPUs, even while they sleep or are
// throttled.
bool tsc_is_invariant();

// Returns the TSC's ticks per second, measured against CLOCK_MONOTONIC since the program started.
// If the program is younger than 10 ms, waits until it is not. The error is below 50 ppm, which is
// half a microsecond in a latency of 10 ms.
double tsc_frequency();

// Returns nanoseconds per tick, times 2^32.
uint64_t ns_multiplier();
// Returns the same without a long wait: the error is below one percent if the program started at
// least 0.1 ms ago.
uint64_t rough_ns_multiplier();

}  // namespace pinprick
