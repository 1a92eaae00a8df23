// Which calls are being measured, according to the slots and the stacks of a target. Exact only
// while the target is stopped; of a running one, a guess.
#pragma once

#include <span>
#include <vector>

#include "base/address.h"
#include "engine/calls/ended_threads.h"
#include "layout/own_probes.h"
#include "layout/runtime_data.h"
#include "layout/session_file.h"
#include "ledger/session_file.h"
#include "target/memory.h"
#include "target/stop.h"

namespace pinprick::engine {

struct SlotUse {
  std::vector<layout::Slot> slots;  // that were ever used
  Address address = 0;              // of the first one in the target
  std::vector<size_t> waiting;      // slots that calls on a stack will return to
  std::vector<Address> waiting_at;  // for each of these, where its return address lies
  size_t abandoned = 0;             // size of `kept`
  std::vector<size_t> left;  // slots of abandoned calls that the runtime has not counted as such
  std::vector<size_t> kept;  // slots of all abandoned calls: in use, but on no stack
  // Slots of calls by threads that have ended: none will return to them (take_ended).
  std::vector<size_t> ended;
  uint64_t room = 0;  // how many slots there can be
  Address first_code() const { return slots.empty() ? 0 : slots.front().code; }
};

// Finds out which slots calls will return to. A call waits for its slot if the slot's address lies
// where the call's return address was, or if a slot that a call waits for returns to it in turn.
// The latter happens at tail calls, and for a call that another session times, too, in whose slot
// the address then lies. Slots of several sessions may take turns in such a line. All other slots
// in use belong to calls abandoned by longjmp, to a thread that ended, or to a stack that was moved
// elsewhere; or an unfinished detach has started to release them (release_calls). A slot that was
// used again counts as abandoned for good: its first call may still return. `data` is the mapping
// with the slots, `others` those of other sessions, and `program` has those of the program itself.
SlotUse look_at_slots(const target::Memory& memory, const layout::MappingEntry& data,
                      const std::vector<layout::MappingEntry>& others = {},
                      const std::vector<layout::OwnSlots>& program = {});

// What a thread may have at hand of calls whose return addresses it is working on: its registers,
// and the words at the top of its stack.
std::vector<uint64_t> words_at_hand(const target::StoppedThread& thread,
                                    const target::Memory& memory);
// Is any of the words an address in the code of the slots?
bool has_slot_code(const SlotUse& use, std::span<const uint64_t> words);
// Takes the slots that the words lead to out of `left`: a thread in our code works on them, so that
// their calls, which are on no stack for now, were not left.
void leave_out_slots_at_hand(SlotUse& use, std::span<const uint64_t> words);

// The same for a process that is not stopped by us, from what /proc shows: by the parts of stacks
// on which threads work that are in our code, or that will return there from a signal handler.
// Threads that run are not seen. Takes slots out of `kept` as well.
std::vector<Range> stacks_in_code(pid_t pid, const target::Memory& memory,
                                  std::span<const Range> code);
void leave_out_slots_on(SlotUse& use, std::span<const Range> stacks);

// Moves the slots of calls that these threads have made from the other lists to `ended`.
void take_ended(SlotUse& use, const EndedThreads& threads);

// Calls that never returned, by histogram.
struct NeverReturned {
  std::vector<uint64_t> abandoned;
  std::vector<uint64_t> ended;  // with their thread
};
// Returns those that the runtime has counted when it used their slots again, and those in `use`.
// The former were made from the same places as the calls that have these slots now: if all of those
// have ended with their thread, so have these.
NeverReturned calls_never_returned(const target::Memory& memory, const SlotUse& use,
                                   const ledger::SessionFile& file, const layout::Session& journal);

// Gives calls in flight their own return address back: they return straight to their caller, and
// are never measured. Returns how many slots that releases. The controller may die at any point of
// this order: first a mark, by which a later look knows that no call returns to the slot unless the
// stack still says so (it replaces the address of the out-of-line copy, which is of no use after
// the call was made); then the stack; then the slot.
size_t release_calls(const target::Memory& memory, const SlotUse& use);

}  // namespace pinprick::engine
