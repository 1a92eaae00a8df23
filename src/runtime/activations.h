// The calls that return probes measure in our own process: the slots to which they return, and what
// is kept of each call.
//
// docs/latency.md describes the mechanism. The slots' code is the same as in attached sessions, but
// leads to pp_returned, in this process. Slots and their code are made once and stay.
//
// On the hot path, like handlers.h: any thread calls these functions, also in signal handlers, and
// they neither allocate nor lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "layout/runtime_data.h"
#include "runtime/thread.h"

namespace pinprick::runtime {

struct ReturnProbeState;

inline constexpr uint32_t kUsualReturnProbes = 4;  // at one address; more need memory elsewhere
inline constexpr uint32_t kSlots = 8192;           // calls in flight at once
inline constexpr uint32_t kNoItem = UINT32_MAX;

// The items of a return probe with data or with a limit: one for each of its calls in flight.
// Lock-free.
class ItemPool {
 public:
  // The caller provides the memory: `next` for `count` numbers, `data` for `count` items of `size`
  // bytes.
  ItemPool(uint32_t* next, std::byte* data, size_t size, uint32_t count);

  uint32_t take();  // returns kNoItem if all are in use
  void give(uint32_t item);
  void* data(uint32_t item) const { return data_ + item * size_; }

 private:
  uint32_t* next_;
  std::byte* data_;
  size_t size_;
  std::atomic<uint64_t> head_;  // tag << 32 | index + 1
};

// A return probe that takes part in a call.
struct Participant {
  ReturnProbeState* probe;
  uint64_t generation;
  uint32_t item;
};

// Memory for the participants of calls with more than the usual number: `each` of them for each
// slot. There is a larger one when a list needs it. None is ever freed: calls that began with an
// older list have theirs in the older memory. Threads are safe because a slot belongs to one call
// at a time, whose participants are in the one memory that its list named when it began.
struct MoreParticipants {
  Participant* memory = nullptr;
  uint32_t each = 0;
};

// On cache lines of its own, since its neighbours belong to other threads.
struct alignas(64) Activation {
  Participant usual[kUsualReturnProbes];
  Participant* participants;  // set when the call begins; these, or the slot's in MoreParticipants
  uint32_t count;
  bool integer_only;  // all of their return handlers are
};

// The slots, their activations, and where their code lies; nullptr before make_slots().
extern layout::Slot* slots;
extern Activation* activations;
extern Range slot_code;

inline Activation& activation_of(const layout::Slot& slot) {
  return activations[&slot - slots];
}

// Takes a free slot; nullptr if all are in use. Each thread keeps a few slots, so that a call
// usually costs no locked instruction.
layout::Slot* take_shared_slot();
inline layout::Slot* take_slot(Thread& self) {
  return self.slots_kept != 0 ? &slots[self.slots[--self.slots_kept]] : take_shared_slot();
}

// Takes the slot of a call that was abandoned by longjmp, for a call that has the same return
// address at the same position on the stack; nullptr if none is known. That is done once slots, or
// a return probe's items, have become scarce. slots.S says why it is safe.
extern std::atomic<bool> reusing;
layout::Slot* find_abandoned_slot(uint64_t return_address, uint64_t stack);
inline layout::Slot* take_abandoned_slot(uint64_t return_address, uint64_t stack) {
  if (__builtin_expect(!reusing.load(std::memory_order_relaxed), true)) return nullptr;
  return find_abandoned_slot(return_address, stack);
}
// To be called when slots or items are scarce: notes the return addresses of a few slots, also of
// calls that are still running.
void note_slots();

// Returns true if the slot was reused, and is kept out of the lists: it is never in one again.
inline bool keep_out_of_lists(layout::Slot& slot) {
  if (__builtin_expect(slot.reused == 0, true)) return false;
  slot.reused = PP_SLOT_REUSED_FREE;
  activation_of(slot).count = 0;  // if the first call returns after all, it is not measured
  return true;
}

// Gives the slots that an ended thread has kept to all threads.
void share_kept_slots(Thread& thread);

// Gives a slot to all threads. Unlike give_slot(), it is safe in a signal handler that has
// interrupted give_slot() or take_slot().
void share_slot(layout::Slot& slot);
inline void give_slot(Thread& self, layout::Slot& slot) {
  if (keep_out_of_lists(slot)) return;
  if (self.slots_kept == kSlotsKept) return share_slot(slot);
  __atomic_store_n(&slot.return_address, 0, __ATOMIC_RELAXED);
  self.slots[self.slots_kept++] = static_cast<uint32_t>(&slot - slots);
}

// Timed calls have slots of their own, with the runtime of attached sessions. Where the code of
// those slots lies, and the slots:
extern Range timed_slot_code;
extern layout::Slot* timed_slots;

}  // namespace pinprick::runtime

extern "C" {
extern const uint8_t pp_landed_timed[];
extern uint64_t pp_timed_unwound;  // the address of pp_unwound in that runtime
}
