// Which calls are being measured, as the slots and the stacks of a target say.
#pragma once

#include <vector>

#include "base/address.h"
#include "layout/runtime_data.h"
#include "layout/session_file.h"
#include "ledger/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

struct SlotUse {
  std::vector<layout::Slot> slots;  // that were ever used
  Address address = 0;              // of the first one in the target
  std::vector<size_t> waiting;      // calls that will return to their slot
  std::vector<Address> waiting_at;  // where the address of that lies, of each
  size_t abandoned = 0;             // slots of calls that were left: in use, but on no stack
  std::vector<size_t> left;  // of them, those whose call the runtime has not counted as abandoned
  std::vector<size_t> kept;  // all that are abandoned: who had one may come back to it
  uint64_t room = 0;         // slots that there can be
  Address first_code() const { return slots.empty() ? 0 : slots.front().code; }
};

// Who returns where. A slot is waited for if its address lies where the call's return address was,
// or if a slot that is waited for returns to it in turn: a tail call leaves one behind the other,
// and so does a call that another session times as well, in whose slot the address then lies.
// Others were left by longjmp, belong to a thread that ended, or to a stack that somebody moved
// elsewhere; or a detach that did not come to its end had begun to release them (release_calls).
// One that was used again is abandoned for good: who had it first may come back.
// `data`: the mapping that the slots are in; `others`: those of other sessions. Of a target that
// runs on, a guess.
SlotUse look_at_slots(const target::Memory& memory, const layout::MappingEntry& data,
                      const std::vector<layout::MappingEntry>& others = {});

// By histogram, as the runtime has counted them, and with `use`: calls that were left.
std::vector<uint64_t> calls_abandoned(const target::Memory& memory, const SlotUse& use,
                                      const ledger::SessionFile& file,
                                      const layout::Session& journal);

// Gives calls that are in flight their own return address back: they return straight to their
// caller, and are never measured. In this order, so that we may die in between: the mark, by which
// a later look knows that nobody returns to the slot unless the stack still says so (the call was
// made, the address of its body is of no use any more); the stack; the slot.
size_t release_calls(const target::Memory& memory, const SlotUse& use);

}  // namespace pinprick::engine
