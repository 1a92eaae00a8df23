#include "session/event_clock.h"

#include <algorithm>

#include "base/clock.h"

namespace pinprick::session {

// The shortest of several looks counts, as we may be interrupted between the two clocks.
void EventClock::look() {
  constexpr int kLooks = 5;
  uint64_t shortest = UINT64_MAX;
  Look best;
  for (int i = 0; i < kLooks; ++i) {
    const uint64_t first = read_tsc(), time_ns = realtime_ns(), second = read_tsc();
    if (second - first >= shortest) continue;
    shortest = second - first;
    best = {first + shortest / 2, time_ns};
  }
  add(best);
}

void EventClock::add(const Look& look) {
  // The system's clock may have been set back.
  const bool both_go_on =
      looks_.empty() || (look.tsc > looks_.back().tsc && look.time_ns > looks_.back().time_ns);
  if (!both_go_on) return;
  // Events that are older than so many looks are no longer in a ring.
  constexpr size_t kMost = 4096;
  if (looks_.size() == kMost) looks_.erase(looks_.begin(), looks_.begin() + kMost / 2);
  looks_.push_back(look);
}

uint64_t EventClock::time_of(uint64_t tsc) const {
  __extension__ using Wide = unsigned __int128;
  const auto at_rate = [](uint64_t ticks) {
    return static_cast<uint64_t>(Wide{ticks} * ns_multiplier() >> 32);
  };
  const Look &first = looks_.front(), &last = looks_.back();
  if (tsc <= first.tsc) return first.time_ns - at_rate(first.tsc - tsc);
  if (tsc >= last.tsc) return last.time_ns + at_rate(tsc - last.tsc);
  const auto next =
      std::upper_bound(looks_.begin(), looks_.end(), tsc,
                       [](uint64_t value, const Look& look) { return value < look.tsc; });
  const Look &from = *(next - 1), &to = *next;
  return from.time_ns + static_cast<uint64_t>(Wide{tsc - from.tsc} * (to.time_ns - from.time_ns) /
                                              (to.tsc - from.tsc));
}

}  // namespace pinprick::session
