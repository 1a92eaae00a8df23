#include "engine/calls/thread_ids.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/address.h"
#include "target/procfs.h"

namespace pinprick::engine {
namespace {

constexpr size_t kMusl = 0x30;
constexpr size_t kMost = 2048;  // bytes of a control block

}  // namespace

void TidOffsets::see(uint32_t tid, std::span<const uint8_t> control_block) {
  std::map<size_t, size_t> here;
  for (size_t at = 0; at + sizeof tid <= control_block.size(); at += sizeof tid) {
    uint32_t word = 0;
    std::memcpy(&word, control_block.data() + at, sizeof word);
    const bool holds = word == tid;
    const bool may_have_held = word == 0 && (at == kGlibcTid || at == kMusl);
    const auto before = holders_.find(at);
    if ((holds || may_have_held) && (is_first_ || before != holders_.end()))
      here[at] = (is_first_ ? 0 : before->second) + (holds ? 1 : 0);
  }
  holders_ = std::move(here);
  is_first_ = false;
}

std::optional<int64_t> TidOffsets::offset() const {
  const auto holds = [&](size_t at) {
    const auto found = holders_.find(at);
    return found != holders_.end() && found->second != 0;
  };
  for (const size_t at : {kGlibcTid, kMusl})
    if (holds(at)) return static_cast<int64_t>(at);
  for (const auto& [at, count] : holders_)
    if (count != 0) return static_cast<int64_t>(at);
  return std::nullopt;
}

bool all_have_control_blocks(target::Stop& stop, const target::RemoteTarget& target) {
  const auto& threads = stop.threads();
  return std::all_of(threads.begin(), threads.end(), [&](const target::StoppedThread& thread) {
    const Address control_block = thread.registers.fs_base;
    Address first = 0;
    return thread.is_worker() ||
           (target.memory().read_value(control_block, first) && first == control_block);
  });
}

std::optional<int64_t> find_tid_offset(target::Stop& stop, const target::RemoteTarget& target) {
  TidOffsets offsets;
  const pid_t pid = target.pid();
  const bool is_inside = target::tid_inside(pid, pid) == pid;  // we see what the program sees
  for (const auto& thread : stop.threads()) {
    const Address control_block = thread.registers.fs_base;
    if (thread.is_worker() || control_block == 0) continue;
    const auto tid =
        static_cast<uint32_t>(is_inside ? thread.tid : target::tid_inside(pid, thread.tid));
    std::array<uint8_t, kMost> bytes;
    size_t size = bytes.size();
    if (!target.memory().read(control_block, bytes)) {
      size = std::min<size_t>(size, kPageSize - control_block % kPageSize);
      if (!target.memory().read(control_block, std::span(bytes).first(size))) size = 0;
    }
    offsets.see(tid, std::span(bytes).first(size));
  }
  return offsets.offset();
}

}  // namespace pinprick::engine
