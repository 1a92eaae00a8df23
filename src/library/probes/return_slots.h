// Makes the slots of return probes in our own process, and makes them known to unwinders. For one
// thread at a time.
#pragma once

#include <unwind.h>

#include "arch/unwind_tables.h"
#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "layout/runtime_data.h"
#include "runtime/activations.h"
#include "target/self_target.h"

namespace pinprick::library {

// Makes runtime::slots at the first call. Fails if there is no memory, or it cannot be made
// executable.
Result<void, SystemError> make_return_slots(const target::SelfTarget& self);

// Makes memory for calls of a function with `count` return probes. Does nothing if these are no
// more than the usual number, or than there is memory for already. Fails if there is no memory.
Result<void, SystemError> make_more_participants(size_t count);
// Returns the memory that lists made from now on are to name.
runtime::MoreParticipants more_participants();

// Covers the frames of slots for good; unwinders find them after tell_unwinders() (unwinding.h).
void cover_slots(const arch::SlotFrames& frames, _Unwind_Personality_Fn personality);

}  // namespace pinprick::library
