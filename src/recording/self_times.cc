#include "recording/self_times.h"

#include <algorithm>

namespace pinprick::recording {

uint64_t SelfTimes::take(uint64_t thread, uint64_t end_ns, uint64_t latency_ns) {
  // Calls that are in no recorded one would add up. The oldest ones matter least.
  constexpr size_t kMostEnded = 1 << 16;
  std::vector<Ended>& ended = threads_[thread];
  const uint64_t began_ns = end_ns - latency_ns;
  uint64_t inner_ns = 0;
  for (; !ended.empty() && ended.back().end_ns > began_ns; ended.pop_back())
    inner_ns += ended.back().latency_ns;
  if (ended.size() >= kMostEnded) ended.erase(ended.begin(), ended.begin() + kMostEnded / 2);
  ended.push_back({end_ns, latency_ns});
  return latency_ns - std::min(latency_ns, inner_ns);
}

}  // namespace pinprick::recording
