// Calls that return probes follow: the slots that they return to, and what is kept of each.
//
// docs/latency.md has the mechanism. The slots' code is that of attached sessions; what a slot
// leads to is pp_returned, in this process. Slots and their code are made once and stay.
//
// Hot, like handlers.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "layout/runtime_data.h"
#include "runtime/thread.h"

namespace pinprick::runtime {

struct ReturnProbeState;

inline constexpr uint32_t kMostReturnProbes = 4;  // at one address
inline constexpr uint32_t kSlots = 8192;          // calls in flight at once
inline constexpr uint32_t kNoItem = UINT32_MAX;

// What a return probe with data, or with a limit, keeps for each of its calls in flight. Lock-free.
class ItemPool {
 public:
  // `next`: `count` numbers; `data`: `count` times `size` bytes.
  ItemPool(uint32_t* next, std::byte* data, size_t size, uint32_t count);

  uint32_t take();  // kNoItem: all are in use
  void give(uint32_t item);
  void* data(uint32_t item) const { return data_ + item * size_; }

 private:
  uint32_t* next_;
  std::byte* data_;
  size_t size_;
  std::atomic<uint64_t> head_;  // tag << 32 | index + 1
};

// On cache lines of its own: neighbours belong to other threads.
struct alignas(64) Activation {
  struct Participant {
    ReturnProbeState* probe;
    uint64_t generation;
    uint32_t item;
  };
  Participant participants[kMostReturnProbes];
  uint32_t count;
  bool integer_only;  // their return handlers
};

// Slots, their activations, and where their code lies; null before make_slots().
extern layout::Slot* slots;
extern Activation* activations;
extern Range slot_code;

inline Activation& activation_of(const layout::Slot& slot) {
  return activations[&slot - slots];
}

// Threads keep a few slots: so a call costs no locked instruction. Null: all are in use.
layout::Slot* take_shared_slot();
inline layout::Slot* take_slot(Thread& self) {
  return self.slots_kept != 0 ? &slots[self.slots[--self.slots_kept]] : take_shared_slot();
}

// A slot whose call was left by longjmp is used again when slots, or what a return probe keeps of
// its calls, have become rare: by a call with the same return address at the same place on the
// stack. slots.S has why that is safe, and for whom. Null: none such is known.
extern std::atomic<bool> reusing;
layout::Slot* find_left_slot(uint64_t return_address, uint64_t stack);
inline layout::Slot* take_left_slot(uint64_t return_address, uint64_t stack) {
  if (__builtin_expect(!reusing.load(std::memory_order_relaxed), true)) return nullptr;
  return find_left_slot(return_address, stack);
}
// Something has become rare: notes where a few slots are, those of calls under way included.
void note_slots();

// Such a slot is never in a list again. True: it is one.
inline bool keep_for_its_place(layout::Slot& slot) {
  if (__builtin_expect(slot.reused == 0, true)) return false;
  slot.reused = PP_SLOT_REUSED_FREE;
  activation_of(slot).count = 0;  // who else comes back is not measured
  return true;
}

// Of a thread that has ended.
void share_kept_slots(Thread& thread);

// To all threads: also where what the thread keeps of its own may be in use further up.
void share_slot(layout::Slot& slot);
inline void give_slot(Thread& self, layout::Slot& slot) {
  if (keep_for_its_place(slot)) return;
  if (self.slots_kept == kSlotsKept) return share_slot(slot);
  __atomic_store_n(&slot.return_address, 0, __ATOMIC_RELAXED);
  self.slots[self.slots_kept++] = static_cast<uint32_t>(&slot - slots);
}

// Calls that are timed have slots of their own, whose code is that of attached sessions altogether.
// What pp_landed_timed needs of it, and where that code lies:
extern Range timed_slot_code;
extern layout::Slot* timed_slots;

}  // namespace pinprick::runtime

extern "C" {
extern const uint8_t pp_landed_timed[];
extern uint64_t pp_timed_unwound;  // pp_unwound, in that code
}
