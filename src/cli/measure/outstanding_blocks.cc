#include "cli/measure/outstanding_blocks.h"

namespace pinprick::cli {

// Pointers are multiples of 16, and often of more.
size_t OutstandingBlocks::Hash::operator()(const Key& key) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
  constexpr unsigned kHalf = 32;
  const uint64_t mixed = (key.pointer ^ static_cast<uint64_t>(key.process) << kHalf) * kOdd;
  return mixed ^ mixed >> kHalf;
}

bool OutstandingBlocks::Thread::is_freeing(uint64_t pointer) const {
  return last_freed == pointer ||
         std::any_of(reallocations.begin(), reallocations.end(),
                     [&](const Reallocation& one) { return one.pointer == pointer; });
}

// Threads that have ended are forgotten with all others, once there are very many. Then an
// allocation that contains others may count together with these, once for each thread.
OutstandingBlocks::Thread* OutstandingBlocks::thread_of(const AllocationEvent& event) {
  constexpr size_t kMostThreads = 1 << 16;
  constexpr unsigned kHalf = 32;
  if (event.thread == 0) return nullptr;
  if (threads_.size() >= kMostThreads) threads_.clear();
  return &threads_[static_cast<uint64_t>(event.process) << kHalf |
                   static_cast<uint32_t>(event.thread)];
}

// Takes the block out that is freed, if it is known.
std::optional<OutstandingBlocks::Block> OutstandingBlocks::take(const AllocationEvent& event,
                                                                Thread* thread) {
  std::optional<Block> block;
  const auto found = blocks_.find({event.freed, event.process});
  if (found != blocks_.end() && found->second.tsc < event.start_tsc) {
    block = found->second;
    blocks_.erase(found);
    ++figures_.freed;
  } else if (found == blocks_.end() && (thread == nullptr || !thread->is_freeing(event.freed))) {
    ++figures_.unknown_freed;
  }
  return block;
}

void OutstandingBlocks::begin_reallocation(const AllocationEvent& event, Thread& thread) {
  const std::optional<Block> block = take(event, &thread);
  thread.reallocations.push_back({event.tsc, event.freed, block});
}

// Those above its own on the thread did not return, because of an exception or longjmp, or their
// events were dropped. If its own is not known, the old block goes now.
void OutstandingBlocks::end_reallocation(AllocationEvent event, Thread* thread) {
  const bool has_begun =
      thread != nullptr &&
      std::any_of(thread->reallocations.begin(), thread->reallocations.end(),
                  [&](const Thread::Reallocation& one) { return one.pointer == event.freed; });
  if (!has_begun) {
    if (!event.has_failed && event.freed != 0) take(event, thread);
  } else {
    while (thread->reallocations.back().pointer != event.freed) thread->reallocations.pop_back();
    const Thread::Reallocation begun = thread->reallocations.back();
    thread->reallocations.pop_back();
    event.start_tsc = begun.tsc;
    if (event.has_failed && begun.block &&
        blocks_.emplace(Key{event.freed, event.process}, *begun.block).second)
      --figures_.freed;
  }
  if (event.allocated != 0) allocate(event, thread);
}

// The start may be known too late. So what returned the same pointer right before is part of the
// call, too.
void OutstandingBlocks::remove_nested(const AllocationEvent& event, Thread& thread) {
  while (!thread.allocations.empty()) {
    const Thread::Allocation inner = thread.allocations.back();
    if (inner.tsc <= event.start_tsc && inner.pointer != event.allocated) return;
    thread.allocations.pop_back();
    const auto found = blocks_.find({inner.pointer, event.process});
    if (found == blocks_.end() || found->second.tsc != inner.tsc) continue;
    blocks_.erase(found);
    --figures_.allocations;
  }
}

// Where no threads are known, what comes twice within some hundred microseconds is one block.
void OutstandingBlocks::allocate(const AllocationEvent& event, Thread* thread) {
  constexpr uint64_t kSoon = 1 << 20;  // ticks
  if (thread != nullptr) {
    remove_nested(event, *thread);
    thread->allocations.push_back({event.tsc, event.allocated});
    if (thread->last_freed == event.allocated) thread->last_freed = 0;
  }
  ++figures_.allocations;
  const Block block = {event.size, event.tsc, event.origin};
  const auto found = blocks_.find({event.allocated, event.process});
  if (found != blocks_.end()) {
    const bool is_same = thread == nullptr && found->second.tsc + kSoon > event.start_tsc;
    found->second = block;
    if (is_same)
      --figures_.allocations;
    else
      ++figures_.reused;
  } else if (blocks_.size() < most_) {
    blocks_.emplace(Key{event.allocated, event.process}, block);
  } else {
    ++figures_.no_room;
  }
}

void OutstandingBlocks::apply(const AllocationEvent& event) {
  using Kind = AllocationEvent::Kind;
  Thread* const thread = thread_of(event);
  switch (event.kind) {
    case Kind::free:
      take(event, thread);
      if (thread != nullptr) thread->last_freed = event.freed;
      break;
    case Kind::allocation:
      if (event.allocated != 0) allocate(event, thread);
      break;
    case Kind::reallocation_begins:
      if (thread != nullptr) begin_reallocation(event, *thread);
      break;
    case Kind::reallocation:
      end_reallocation(event, thread);
      break;
  }
}

void OutstandingBlocks::forget(pid_t process) {
  figures_.allocations -=
      std::erase_if(blocks_, [&](const auto& block) { return block.first.process == process; });
}

}  // namespace pinprick::cli
