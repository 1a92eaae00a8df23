#include "recording/self_times.h"

#include <algorithm>

namespace pinprick::recording {

void SelfTimes::forget_oldest(std::vector<Ended>& ended) {
  const size_t count = (ended.size() + 1) / 2;
  ended.erase(ended.begin(), ended.begin() + static_cast<std::ptrdiff_t>(count));
  ended_ -= count;
}

uint64_t SelfTimes::take(uint64_t thread, uint64_t began, uint64_t end, uint64_t latency_ns) {
  // Calls that are in no recorded one would add up. The oldest ones matter least.
  constexpr size_t kMostEnded = 1 << 16, kMostOfAll = 1 << 22;
  std::vector<Ended>& ended = threads_[thread];
  uint64_t inner_ns = 0;
  for (; !ended.empty() && ended.back().end > began; ended.pop_back(), --ended_) {
    inner_ns += ended.back().latency_ns;
    has_inner_calls_ = true;
  }
  if (ended.size() >= kMostEnded) forget_oldest(ended);
  if (ended_ >= kMostOfAll)
    for (auto& [identity, one] : threads_) forget_oldest(one);
  ended.push_back({end, latency_ns});
  ++ended_;
  return latency_ns - std::min(latency_ns, inner_ns);
}

}  // namespace pinprick::recording
