#include "runtime/activations.h"

namespace pinprick::runtime {

layout::Slot* slots = nullptr;
Activation* activations = nullptr;
Range slot_code;
Range timed_slot_code;
std::atomic<bool> reusing = false;
layout::Slot* timed_slots = nullptr;

namespace {

std::atomic<uint64_t> free_slots{1};  // tag << 32 | index + 1; chained by global_next

// Takes an index from a lock-free stack. The head's tag changes with every exchange, so that a head
// that was taken and given back in between is not mistaken for the old one.
template <class Next>
uint32_t pop(std::atomic<uint64_t>& head, Next&& next) {
  uint64_t old = head.load(std::memory_order_acquire);
  for (;;) {
    const auto first = static_cast<uint32_t>(old);
    if (first == 0) return kNoItem;
    const uint64_t tag = (old >> 32) + 1;
    const uint32_t second = __atomic_load_n(&next(first - 1), __ATOMIC_RELAXED);
    if (head.compare_exchange_weak(old, tag << 32 | second, std::memory_order_acquire))
      return first - 1;
  }
}

template <class Next>
void push(std::atomic<uint64_t>& head, uint32_t index, Next&& next) {
  uint64_t old = head.load(std::memory_order_relaxed);
  for (;;) {
    __atomic_store_n(&next(index), static_cast<uint32_t>(old), __ATOMIC_RELAXED);
    const uint64_t tag = (old >> 32) + 1;
    if (head.compare_exchange_weak(old, tag << 32 | (index + 1), std::memory_order_release)) return;
  }
}

uint32_t& next_slot(uint32_t index) {
  return slots[index].global_next;
}

// Slots count as scarce once one with this index is taken: all before it were in use at once.
constexpr uint32_t kReusedFrom = kSlots / 8;
constexpr uint32_t kSlotsNoted = 4;

uint32_t reusable[1 << PP_REUSABLE_LOG2];  // index + 1
std::atomic<uint32_t> hand;

// The entries of a hash (slots.S).
uint32_t* reusable_by(uint64_t return_address, uint64_t stack) {
  const auto sum = static_cast<uint32_t>(return_address + stack);
  return reusable + (sum * 0x9e3779b1u >> (32 - PP_REUSABLE_LOG2) & ~(PP_REUSABLE_WAYS - 1u));
}

uint64_t load(const uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

// The slot that an entry leads to, if its call has these addresses.
layout::Slot* noted_slot(const uint32_t& entry, uint64_t return_address, uint64_t stack) {
  const uint32_t number = __atomic_load_n(&entry, __ATOMIC_RELAXED);
  if (number == 0) return nullptr;
  layout::Slot& slot = slots[number - 1];
  return load(slot.return_address) == return_address && load(slot.stack) == stack ? &slot : nullptr;
}

// Notes a slot that is in use, by the entry that leads to no slot in use, or to one with the same
// addresses; if there is none, by one of them in turn.
void note_slot(uint32_t index, uint64_t return_address) {
  const uint64_t stack = load(slots[index].stack);
  uint32_t* const entries = reusable_by(return_address, stack);
  uint32_t way = 0;
  for (; way < PP_REUSABLE_WAYS; ++way) {
    const uint32_t number = __atomic_load_n(&entries[way], __ATOMIC_RELAXED);
    if (number == 0 || load(slots[number - 1].return_address) == 0 ||
        noted_slot(entries[way], return_address, stack) != nullptr)
      break;
  }
  if (way == PP_REUSABLE_WAYS) way = index % PP_REUSABLE_WAYS;
  __atomic_store_n(&entries[way], index + 1, __ATOMIC_RELAXED);
}

// To be called when all slots are in use or kept by threads, of which some may have ended. To find
// out takes a system call for each thread, so it is only done if there are new threads since the
// last time, and on every 256th call.
uint32_t take_slot_of_ended_thread() {
  constexpr uint32_t kNowAndThen = 256;
  static std::atomic<uint32_t> misses, threads_then;
  const uint32_t threads = threads_begun.load(std::memory_order_relaxed);
  const bool is_time = misses.fetch_add(1, std::memory_order_relaxed) % kNowAndThen == 0;
  if (threads_then.exchange(threads, std::memory_order_relaxed) == threads && !is_time)
    return kNoItem;
  take_back_from_ended_threads();
  return pop(free_slots, next_slot);
}

}  // namespace

ItemPool::ItemPool(uint32_t* next, std::byte* data, size_t size, uint32_t count)
    : next_(next), data_(data), size_(size), head_(1) {
  for (uint32_t i = 0; i < count; ++i) next_[i] = i + 1 < count ? i + 2 : 0;
}

uint32_t ItemPool::take() {
  return pop(head_, [this](uint32_t i) -> uint32_t& { return next_[i]; });
}

void ItemPool::give(uint32_t item) {
  push(head_, item, [this](uint32_t i) -> uint32_t& { return next_[i]; });
}

layout::Slot* take_shared_slot() {
  uint32_t index = pop(free_slots, next_slot);
  if (index == kNoItem) index = take_slot_of_ended_thread();
  if (index >= kReusedFrom) note_slots();  // also for kNoItem
  return index == kNoItem ? nullptr : &slots[index];
}

void note_slots() {
  reusing.store(true, std::memory_order_relaxed);
  const uint32_t first = hand.fetch_add(kSlotsNoted, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kSlotsNoted; ++i) {
    const uint32_t index = (first + i) % kSlots;
    if (const uint64_t return_address = load(slots[index].return_address))
      note_slot(index, return_address);
  }
}

layout::Slot* find_abandoned_slot(uint64_t return_address, uint64_t stack) {
  const uint32_t* const entries = reusable_by(return_address, stack);
  for (uint32_t way = 0; way < PP_REUSABLE_WAYS; ++way) {
    layout::Slot* const slot = noted_slot(entries[way], return_address, stack);
    if (slot == nullptr) continue;
    slot->reused = PP_SLOT_REUSED_TAKEN;
    return slot;
  }
  return nullptr;
}

void share_kept_slots(Thread& thread) {
  while (thread.slots_kept != 0) share_slot(slots[thread.slots[--thread.slots_kept]]);
}

void share_slot(layout::Slot& slot) {
  if (keep_out_of_lists(slot)) return;
  __atomic_store_n(&slot.return_address, 0, __ATOMIC_RELAXED);
  push(free_slots, static_cast<uint32_t>(&slot - slots), next_slot);
}

}  // namespace pinprick::runtime

extern "C" {
uint64_t pp_timed_unwound;
}
