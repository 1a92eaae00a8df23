#include "engine/calls/stack_owners.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "base/clock.h"
#include "engine/calls/thread_ids.h"
#include "target/procfs.h"

namespace pinprick::engine {
namespace {

// Control blocks start with their own address. glibc has it a second time, as the third word.
constexpr size_t kSelfAgain = 16;
constexpr size_t kMuslTid = 0x30;
// No control block of the two is larger. The list of robust mutexes, and the description of the
// stack, lie within it.
constexpr size_t kLargest = 0x1000;
constexpr uint64_t kLargestStack = uint64_t{1} << 40;

// A copy of a part of memory.
struct Part {
  Address begin = 0;
  std::vector<uint8_t> bytes;

  static Part read(const target::Memory& memory, Range range) {
    // Memory may end within it, but at the end of a page only.
    for (; range.begin < range.end; range.end = align_down(range.end - 1, kPageSize)) {
      std::vector<uint8_t> bytes(range.size());
      if (memory.read(range.begin, bytes)) return {range.begin, std::move(bytes)};
    }
    return {};
  }
  bool has(Address address, size_t size) const {
    return address >= begin && address - begin <= bytes.size() &&
           bytes.size() - (address - begin) >= size;
  }
  template <class T>
  std::optional<T> at(Address address) const {
    T value = {};
    if (!has(address, sizeof value)) return std::nullopt;
    std::memcpy(&value, bytes.data() + (address - begin), sizeof value);
    return value;
  }
};

}  // namespace

StackOwners::StackOwners(pid_t pid, const target::Memory& memory,
                         std::span<const image::Mapping> maps)
    : pid_(pid), memory_(&memory), maps_(maps) {
  for (const pid_t tid : target::list_threads(pid)) {
    Thread& thread = threads_.emplace_back();
    thread.tid = tid;
    if (const auto stack = stack_by_kernel(tid)) thread.stack = *stack;
  }
}

// The stack's address and its size are two words next to each other, of which the control block is
// in the stack. Other words cannot be these: they would have to be whole pages, too.
std::optional<Range> StackOwners::stack_of_control_block(Address control_block) const {
  const Part block = Part::read(*memory_, {control_block, control_block + kLargest});
  for (Address at = control_block;; at += sizeof(Address)) {
    const auto begin = block.at<Address>(at);
    const auto size = block.at<uint64_t>(at + sizeof(Address));
    if (!begin || !size) return std::nullopt;
    if (*begin != 0 && *begin % kPageSize == 0 && *size % kPageSize == 0 && *size < kLargestStack &&
        *begin < control_block && control_block - *begin < *size)
      return Range{*begin, control_block};
  }
}

std::optional<Range> StackOwners::stack_by_kernel(pid_t tid) const {
  uint64_t list = 0;
  size_t size = 0;
  if (::syscall(SYS_get_robust_list, tid, &list, &size) != 0 || list <= kLargest ||
      list % sizeof(Address) != 0)
    return std::nullopt;
  // The control block may start on the page before, of which nothing else need be mapped.
  const Address page = align_down(list, kPageSize);
  for (const Address begin : {list - kLargest, page}) {
    const Part part = Part::read(*memory_, {begin, list});
    for (Address at = list - sizeof(Address); at >= begin; at -= sizeof(Address))
      if (part.at<Address>(at) == at) return stack_of_control_block(at);
  }
  return std::nullopt;
}

const image::Mapping* StackOwners::mapping_at(Address address) const {
  const auto next =
      std::upper_bound(maps_.begin(), maps_.end(), address,
                       [](Address at, const image::Mapping& one) { return at < one.range.end; });
  return next != maps_.end() && next->range.contains(address) ? &*next : nullptr;
}

StackOwners::Thread* StackOwners::thread_by_inner_tid(pid_t tid) {
  if (!inner_tids_) {
    inner_tids_.emplace();
    for (size_t i = 0; i < threads_.size(); ++i)
      inner_tids_->emplace(target::tid_inside(pid_, threads_[i].tid), i);
  }
  const auto found = inner_tids_->find(tid);
  return found == inner_tids_->end() ? nullptr : &threads_[found->second];
}

const StackOwners::StackEnd& StackOwners::end_of(const image::Mapping& mapping) {
  const auto [known, is_new] = ends_.try_emplace(mapping.range.end);
  StackEnd& end = known->second;
  if (!is_new) return end;
  const Address begin = std::max(mapping.range.begin, mapping.range.end - 2 * kPageSize);
  const Part part = Part::read(*memory_, {begin, mapping.range.end});
  for (Address at = align_down(mapping.range.end - 1, sizeof(Address));
       at >= begin && end.thread == nullptr && end.of_ended.empty(); at -= sizeof(Address)) {
    if (part.at<Address>(at) != at) continue;
    const bool is_glibcs = part.at<Address>(at + kSelfAgain) == at;
    const auto tid = part.at<int32_t>(at + (is_glibcs ? kGlibcTid : kMuslTid));
    Thread* const thread = tid && *tid > 0 ? thread_by_inner_tid(*tid) : nullptr;
    const auto stack = thread != nullptr || is_glibcs ? stack_of_control_block(at) : std::nullopt;
    if (!stack) continue;
    if (thread == nullptr) {
      end.of_ended = *stack;
    } else if (thread->stack.empty()) {
      thread->stack = *stack;
      end.thread = thread;
    }
  }
  return end;
}

// The kernel tells the start in hundredths of a second, and rounds it down. The ratio of the two
// clocks is known to within 50 ppm.
bool StackOwners::was_started_after(Thread& thread, uint64_t tsc) {
  constexpr uint64_t kMostWrong = 10'000;
  if (!thread.start_ns) {
    static const auto per_second = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
    const auto status = target::read_thread_status(pid_, thread.tid);
    thread.start_ns = status ? status->start_time * (1'000'000'000 / per_second) : 0;
  }
  __extension__ using Wide = unsigned __int128;
  const uint64_t now = read_tsc(), now_ns = boottime_ns();
  if (tsc >= now) return false;
  const auto ago_ns = static_cast<uint64_t>(Wide{now - tsc} * ns_multiplier() >> 32);
  return ago_ns < now_ns && now_ns - ago_ns + ago_ns / kMostWrong < *thread.start_ns;
}

StackOwners::Owner StackOwners::owner_in(Thread& thread, Range stack, Address address,
                                         uint64_t tsc) {
  // glibc gives the stack of a thread that has ended to a later one. The first thread of a forked
  // child has that of the thread that forked, and is in its calls.
  if (thread.tid != pid_ && was_started_after(thread, tsc)) return {0, true};
  if (!thread.stack_pointer) {
    const auto position = target::position_of(pid_, thread.tid);
    thread.stack_pointer = position ? std::optional(position->stack_pointer) : std::nullopt;
  }
  // A thread that is on another stack, such as that of a coroutine, may come back to this one.
  const auto top = *thread.stack_pointer;
  return {thread.tid, top && stack.contains(*top) && address < *top};
}

StackOwners::Owner StackOwners::owner_of(Address address, uint64_t tsc) {
  const auto has_it = [&](const Thread& one) { return one.stack.contains(address); };
  const auto thread = std::find_if(threads_.begin(), threads_.end(), has_it);
  if (thread != threads_.end()) {
    const bool is_certain = std::find_if(thread + 1, threads_.end(), has_it) == threads_.end();
    return is_certain ? owner_in(*thread, thread->stack, address, tsc) : Owner{};
  }
  const image::Mapping* const mapping = mapping_at(address);
  if (mapping == nullptr) return {};
  if (mapping->path == "[stack]") {
    const auto first = std::find_if(threads_.begin(), threads_.end(),
                                    [&](const Thread& one) { return one.tid == pid_; });
    // In a child that another thread has forked, the first thread has that one's stack.
    if (first == threads_.end() || !first->stack.empty()) return {0, true};
    return owner_in(*first, mapping->range, address, tsc);
  }
  const StackEnd& end = end_of(*mapping);
  if (end.of_ended.contains(address)) return {0, true};
  if (end.thread != nullptr && end.thread->stack.contains(address))
    return owner_in(*end.thread, end.thread->stack, address, tsc);
  return {};
}

pid_t StackOwners::thread_inside(pid_t tid, uint64_t tsc) {
  Thread* const thread = thread_by_inner_tid(tid);
  if (thread == nullptr) return 0;
  return thread->tid != pid_ && was_started_after(*thread, tsc) ? 0 : thread->tid;
}

}  // namespace pinprick::engine
