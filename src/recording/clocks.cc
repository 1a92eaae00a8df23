#include "base/clock.h"
#include "recording/expected_time.h"
#include "recording/header.h"

namespace pinprick::recording {

// The shortest of several looks counts, as we may be interrupted between two clocks.
Clocks Clocks::now() {
  constexpr int kLooks = 10;
  Clocks best;
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < kLooks; ++i) {
    const uint64_t first = read_tsc();
    Clocks one = {.boottime_ns = pinprick::boottime_ns(),
                  .monotonic_ns = pinprick::monotonic_ns(),
                  .realtime_ns = pinprick::realtime_ns()};
    const uint64_t passed = read_tsc() - first;
    if (passed >= shortest) continue;
    shortest = passed;
    best = one;
    best.tsc = first + passed / 2;
  }
  best.ns_multiplier = pinprick::ns_multiplier();
  return best;
}

// At one rate, which latencies have as well: calls stay within the calls that they lie in.
uint64_t Clocks::at(uint64_t when_tsc, uint64_t first_ns) const {
  return expected_time(when_tsc, tsc, first_ns, ns_multiplier);
}

}  // namespace pinprick::recording
