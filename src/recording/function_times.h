// How often the functions of a recording were called, how long they took, and how long without the
// recorded calls in them. Pure; not thread-safe.
//
// It needs the events at returns alone (ended_calls.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "recording/function_table.h"
#include "recording/in_order.h"
#include "recording/self_times.h"
#include "session/events.h"

namespace pinprick::recording {

// Its texts are those of the probe.
struct FunctionTime {
  std::string_view object, function, file;
  uint64_t address = 0;  // in that file
  uint64_t calls = 0;
  // Nanoseconds. A function that calls itself has its inner calls in its total, too.
  uint64_t total_ns = 0, self_ns = 0, longest_ns = 0;
};

class FunctionTimes {
 public:
  // `ns_multiplier` is nanoseconds per tick, times 2^32, and not 0.
  explicit FunctionTimes(uint64_t ns_multiplier = uint64_t{1} << 32)
      : ns_multiplier_(ns_multiplier) {}

  // Events come in any order. Those without a latency are left out. Their names must outlive this,
  // and what finish() returns.
  void add(const session::Event& event);
  // Events that come more than `ticks` after `tsc` are not counted. The earliest of these ends
  // counts.
  void end_after(uint64_t tsc, uint64_t ticks) { waiting_.end_after(tsc, ticks); }
  // As Writer::told_until().
  void told_until(uint64_t tsc);
  // Returns the functions that were called, those with the largest total first. To be called once,
  // at the end.
  std::vector<FunctionTime> finish();

 private:
  struct Call {
    uint64_t tsc = 0, latency_ns = 0;
    uint64_t thread = 0;
    uint32_t function = 0;
  };
  void take(const Call& call);

  uint64_t ns_multiplier_;
  InOrder<Call> waiting_;
  SelfTimes self_times_;
  FunctionTable functions_;
  std::vector<FunctionTime> times_;  // by their numbers
};

}  // namespace pinprick::recording
