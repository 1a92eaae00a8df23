#include "engine/calls/ended_threads.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "arch/syscall.h"
#include "base/clock.h"
#include "engine/calls/thread_ids.h"
#include "layout/runtime_data.h"
#include "target/procfs.h"

namespace pinprick::engine {
EndedThreads::EndedThreads(pid_t pid, std::span<const target::StoppedThread> threads,
                           std::span<const image::Mapping> maps, const target::Memory& memory,
                           uint64_t ns_multiplier)
    : pid_(pid), maps_(maps), memory_(&memory), ns_multiplier_(ns_multiplier) {
  for (const target::StoppedThread& thread : threads)
    if (!thread.is_worker())
      threads_.push_back(
          {thread.tid, thread.stack_pointer(), arch::thread_pointer(thread.registers)});
}

const image::Mapping* EndedThreads::mapping_at(Address address) const {
  const auto next =
      std::upper_bound(maps_.begin(), maps_.end(), address,
                       [](Address at, const image::Mapping& one) { return at < one.range.end; });
  return next != maps_.end() && next->range.contains(address) ? &*next : nullptr;
}

bool EndedThreads::is_first_function(Address return_address) const {
  const auto [known, is_new] = first_functions_.try_emplace(return_address);
  std::array<uint8_t, arch::kLongestThreadEnd> code;
  if (is_new) known->second = memory_->read(return_address, code) && arch::ends_thread(code);
  return known->second;
}

// glibc has a thread's control block at the end of its stack. It holds its own address twice. When
// the thread ends, the kernel clears the TID in it, and glibc makes it negative later.
bool EndedThreads::is_kept_stack(const image::Mapping& mapping, Address stack) const {
  constexpr size_t kAlignment = 64, kSelf = 16;
  const auto [known, is_new] = control_blocks_.try_emplace(mapping.range.end);
  const Range last = {mapping.range.end - kPageSize, mapping.range.end};
  std::array<uint8_t, kPageSize> bytes;
  if (is_new && memory_->read(last.begin, bytes)) {
    const auto word_at = [&](size_t at) {
      Address word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      return word;
    };
    int32_t tid = 0;
    for (size_t at = 0; at + kGlibcTid + sizeof tid <= bytes.size(); at += kAlignment) {
      if (word_at(at) != last.begin + at || word_at(at + kSelf) != last.begin + at) continue;
      std::memcpy(&tid, bytes.data() + at + kGlibcTid, sizeof tid);
      if (tid <= 0) known->second = last.begin + at;
    }
  }
  return stack < known->second;
}

// The kernel tells the start in hundredths of a second, and rounds it down. The ratio of the two
// clocks is known to within 50 ppm.
bool EndedThreads::was_started_after(const Thread& thread, uint64_t tsc) const {
  constexpr uint64_t kMostWrong = 10'000;
  const auto [known, is_new] = starts_ns_.try_emplace(thread.tid);
  if (is_new) {
    static const auto per_second = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
    const auto status = target::read_thread_status(pid_, thread.tid);
    known->second = status ? status->start_time * (1'000'000'000 / per_second) : 0;
  }
  __extension__ using Wide = unsigned __int128;
  const auto ago_ns =
      static_cast<uint64_t>(Wide{read_tsc() - (tsc & ~layout::kTscDropped)} * ns_multiplier_ >> 32);
  const uint64_t now_ns = boottime_ns();
  return ago_ns < now_ns && now_ns - ago_ns + ago_ns / kMostWrong < known->second;
}

bool EndedThreads::have_made(const Call& call) const {
  if (maps_.empty() || call.stack == 0) return false;
  const image::Mapping* const mapping = mapping_at(call.stack);
  if (mapping == nullptr) return true;
  if (!call.is_on_stack && is_first_function(call.return_address)) return true;
  bool is_of_living = false, is_of_later = false;
  // Two stacks may be one mapping, if no guard lies between them.
  const bool has_guard = mapping != maps_.data() && (mapping - 1)->is_guard() &&
                         (mapping - 1)->range.end == mapping->range.begin;
  for (const Thread& thread : threads_) {
    const bool has_control_block = mapping->range.contains(thread.control_block);
    if (!has_control_block && !mapping->range.contains(thread.stack_pointer)) continue;
    is_of_living = true;
    is_of_later = has_guard && has_control_block && call.stack < thread.control_block &&
                  was_started_after(thread, call.tsc);
  }
  if (is_of_living) return is_of_later;
  if (mapping->path == "[stack]")
    return std::none_of(threads_.begin(), threads_.end(),
                        [&](const Thread& thread) { return thread.tid == pid_; });
  return is_kept_stack(*mapping, call.stack);
}

}  // namespace pinprick::engine
