#include "recording/self_times.h"

#include <algorithm>

namespace pinprick::recording {

uint64_t SelfTimes::take(uint64_t thread, uint64_t began, uint64_t end, uint64_t latency_ns) {
  // Calls that are in no recorded one would add up. The oldest ones matter least.
  constexpr size_t kMostEnded = 1 << 16, kMostOfAll = 1 << 22;
  std::vector<Ended>& ended = threads_[thread];
  uint64_t inner_ns = 0;
  for (; !ended.empty() && ended.back().end > began; ended.pop_back(), --ended_) {
    inner_ns += ended.back().latency_ns;
    has_inner_calls_ = true;
  }
  if (ended.size() >= kMostEnded || ended_ >= kMostOfAll) {
    const size_t oldest = (ended.size() + 1) / 2;
    ended.erase(ended.begin(), ended.begin() + static_cast<std::ptrdiff_t>(oldest));
    ended_ -= oldest;
  }
  ended.push_back({end, latency_ns});
  ++ended_;
  return latency_ns - std::min(latency_ns, inner_ns);
}

}  // namespace pinprick::recording
