#include "recording/self_times.h"

#include <algorithm>

namespace pinprick::recording {

uint64_t SelfTimes::take(uint64_t thread, uint64_t began, uint64_t end, uint64_t latency_ns) {
  uint64_t inner_ns = 0;
  ended_.add(
      thread, began, end, latency_ns,
      [&](uint64_t one_ns) {
        inner_ns += one_ns;
        has_inner_calls_ = true;
      },
      [](uint64_t) {});
  return latency_ns - std::min(latency_ns, inner_ns);
}

}  // namespace pinprick::recording
