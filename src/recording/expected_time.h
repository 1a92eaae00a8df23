// The system's time by the TSC, as one of them follows from the other. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pinprick::recording {

// Returns the time in nanoseconds at `tsc`, by that at another value of the TSC before or after it.
// `ns_multiplier` is nanoseconds per tick, times 2^32.
inline uint64_t expected_time(uint64_t tsc, uint64_t known_tsc, uint64_t known_ns,
                              uint64_t ns_multiplier) {
  __extension__ using Wide = unsigned __int128;
  const bool is_earlier = static_cast<int64_t>(tsc - known_tsc) < 0;
  const uint64_t ticks = is_earlier ? known_tsc - tsc : tsc - known_tsc;
  const auto passed = static_cast<uint64_t>(Wide{ticks} * ns_multiplier >> 32);
  return is_earlier ? known_ns - passed : known_ns + passed;
}

// Returns how many ticks so many nanoseconds take, rounded down. The multiplier is not 0.
inline uint64_t ticks_of(uint64_t ns, uint64_t ns_multiplier) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(std::min<Wide>((Wide{ns} << 32) / ns_multiplier, UINT64_MAX));
}

}  // namespace pinprick::recording
