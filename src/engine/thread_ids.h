// Where threads have their TIDs in their control blocks, by which stubs of spans know them.
//
// All threads have their TID at the same offset in their control blocks: that is where glibc or
// musl has it, or the first offset at which it is for all of them. musl takes it away from a thread
// that is about to end. A thread without a control block begins no span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "target/remote_target.h"
#include "target/stop.h"

namespace pinprick::engine {

// Pure: from what the control blocks of threads hold, one after the other.
class TidOffsets {
 public:
  // `control_block`: as much of it as can be read.
  void see(uint32_t tid, std::span<const uint8_t> control_block);
  // Nothing if no offset holds the TIDs of all threads that were seen, or none was.
  std::optional<int64_t> offset() const;

 private:
  std::map<size_t, size_t> holders_;  // by offset, for those that no thread contradicts
  bool is_first_ = true;
};

// Of a stopped target: reads its threads' control blocks.
std::optional<int64_t> find_tid_offset(target::Stop& stop, const target::RemoteTarget& target);

}  // namespace pinprick::engine
