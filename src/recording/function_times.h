// How often the functions of a recording were called, how long they took, and how long without the
// recorded calls in them. Pure; not thread-safe.
//
// It needs the events at returns alone (self_times.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "recording/header.h"
#include "recording/self_times.h"
#include "session/events.h"

namespace pinprick::recording {

struct FunctionTime {
  std::string object, function, file;
  uint64_t address = 0;  // in that file
  uint64_t calls = 0;
  // Nanoseconds. A function that calls itself has its inner calls in its total, too.
  uint64_t total_ns = 0, self_ns = 0, longest_ns = 0;
};

class FunctionTimes {
 public:
  // Times of events are by the TSC, at the rate of these clocks, which latencies have as well.
  explicit FunctionTimes(const Clocks& clocks) : clocks_(clocks) {}

  // Events come in any order. Those without a latency are left out.
  void add(const session::Event& event);
  // Later events are not counted; the earliest of these ends counts.
  void end_at(uint64_t tsc) { end_tsc_ = std::min(end_tsc_, tsc); }
  // As Writer::told_until().
  void told_until(uint64_t tsc);
  // Returns the functions that were called, those with the largest total first. To be called once,
  // at the end.
  std::vector<FunctionTime> finish();

 private:
  struct Call {
    uint64_t tsc = 0, end_ns = 0, latency_ns = 0;
    uint64_t thread = 0;
    size_t function = 0;
  };
  void take(const Call& call);

  Clocks clocks_;
  std::vector<Call> waiting_;
  uint64_t end_tsc_ = UINT64_MAX;
  SelfTimes self_times_;
  std::map<std::pair<std::string, uint64_t>, size_t> numbers_;  // by file and address
  std::map<const void*, size_t> known_;                         // by the name of their probe
  std::vector<FunctionTime> functions_;
};

}  // namespace pinprick::recording
