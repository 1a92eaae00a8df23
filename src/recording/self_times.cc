#include "recording/self_times.h"

#include <algorithm>

namespace pinprick::recording {

uint64_t SelfTimes::take(uint64_t thread, uint64_t began, uint64_t end, uint64_t latency_ns) {
  // Calls that are in no recorded one would add up. The oldest ones matter least.
  constexpr size_t kMostEnded = 1 << 16;
  std::vector<Ended>& ended = threads_[thread];
  uint64_t inner_ns = 0;
  for (; !ended.empty() && ended.back().end > began; ended.pop_back())
    inner_ns += ended.back().latency_ns;
  if (ended.size() >= kMostEnded) ended.erase(ended.begin(), ended.begin() + kMostEnded / 2);
  ended.push_back({end, latency_ns});
  return latency_ns - std::min(latency_ns, inner_ns);
}

}  // namespace pinprick::recording
