// How long calls took without the recorded calls in them, by their returns alone (ended_calls.h).
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recording/ended_calls.h"

namespace pinprick::recording {

class SelfTimes {
 public:
  // Takes the calls of each thread in the order in which they return. `began` and `end` are times
  // in any unit. Returns the time of the call without the calls in it.
  uint64_t take(uint64_t thread, uint64_t began, uint64_t end, uint64_t latency_ns);
  // Returns whether some call lay in another one.
  bool has_inner_calls() const { return has_inner_calls_; }

 private:
  static constexpr size_t kMostEnded = 1 << 22;

  EndedCalls<uint64_t> ended_{kMostEnded};  // with their latencies
  bool has_inner_calls_ = false;
};

}  // namespace pinprick::recording
