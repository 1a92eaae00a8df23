// Finds at which offset of its control block each thread has its TID. The stubs of spans identify
// threads by it.
//
// The offset is the same for all threads of a process. If it is not where glibc or musl keeps the
// TID, it is the first offset at which all control blocks hold the TID of their thread. musl clears
// the TID of a thread that is about to end. A thread without a control block starts no span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "target/remote_target.h"
#include "target/stop.h"

namespace pinprick::engine {

// Where glibc keeps a thread's TID in its control block.
inline constexpr size_t kGlibcTid = 0x2d0;

// Finds the offset from the contents of control blocks, which are passed one after the other. Pure.
class TidOffsets {
 public:
  // `control_block` is as much of the thread's control block as can be read.
  void see(uint32_t tid, std::span<const uint8_t> control_block);
  // Returns nullopt if no offset holds the TIDs of all threads that were seen, or if none was seen.
  std::optional<int64_t> offset() const;

 private:
  std::map<size_t, size_t> holders_;  // by offset, for those that no thread contradicts
  bool is_first_ = true;
};

// Does each thread of a stopped target have a control block that starts with its own address? A
// thread gets its own from the thread that creates it, so later ones have it as well.
bool all_have_control_blocks(target::Stop& stop, const target::RemoteTarget& target);

// Reads the control blocks of a stopped target's threads. Returns nullopt if there is no such
// offset.
std::optional<int64_t> find_tid_offset(target::Stop& stop, const target::RemoteTarget& target);

}  // namespace pinprick::engine
