// Which calls are being timed by exits, according to the table in a target (runtime/open_call.inc)
// and its stacks. Exact only while the target is stopped.
//
// A call that was left by longjmp or by an exception keeps its entry, until a call at the same
// position on the stack replaces it, or the session ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "engine/calls/ended_threads.h"
#include "layout/runtime_data.h"
#include "layout/session_file.h"
#include "target/memory.h"
#include "target/stop.h"

namespace pinprick::engine {

struct OpenCallEntry {
  Address address = 0;  // in the target
  layout::OpenCall call = {};
};

// Returns the entries in use. `data` is the mapping with the table. The target can write what says
// where that is: whatever is there, the table lies in the mapping.
std::vector<OpenCallEntry> open_calls(const target::Memory& memory,
                                      const layout::MappingEntry& data);

// Drops calls in flight: they are not recorded when they end.
void drop_open_calls(const target::Memory& memory, const layout::MappingEntry& data);

// Takes the calls of a session out of its table when its probes are taken out. Calls return as
// they would without us, so what is left to do is to count them.
class OpenCallCount {
 public:
  explicit OpenCallCount(const layout::Session& journal);

  // To be called at each stop of the process, after the text was restored, with the entries at that
  // time. A thread in `code`, which is ours, may be about to enter a call or to take one out; that
  // one is left to it. A call that other sessions time by slots has an address in their code where
  // its own was.
  void take(const target::Memory& memory, std::span<const target::StoppedThread> threads,
            std::span<const Range> code, std::span<const Range> of_others,
            std::span<const OpenCallEntry> entries, const EndedThreads& ended);

  uint64_t in_flight() const { return in_flight_; }
  // Calls that were left, and those whose thread has ended, by histogram.
  const std::vector<uint64_t>& left() const { return left_; }
  const std::vector<uint64_t>& ended() const { return ended_; }

 private:
  void count(const layout::OpenCall& call, std::vector<uint64_t>& calls) const;

  uint64_t first_counters_ = 0;  // offset of those of the first histogram
  bool is_first_look_ = true;
  uint64_t in_flight_ = 0;
  std::vector<uint64_t> left_, ended_;
};

}  // namespace pinprick::engine
