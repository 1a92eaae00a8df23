// Makes the slots of return probes in our own process, and makes them known to unwinders. For one
// thread at a time.
#pragma once

#include <unwind.h>

#include "arch/unwind_tables.h"
#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "layout/runtime_data.h"
#include "target/self_target.h"

namespace pinprick::library {

// Makes runtime::slots at the first call. Fails if there is no memory, or it cannot be made
// executable.
Result<void, SystemError> make_return_slots(const target::SelfTarget& self);

// Covers the frames of slots for good; unwinders find them after tell_unwinders() (unwinding.h).
void cover_slots(const arch::SlotFrames& frames, _Unwind_Personality_Fn personality);

}  // namespace pinprick::library
