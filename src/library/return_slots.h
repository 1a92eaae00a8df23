// Makes the slots of return probes in one's own process, and tells unwinders of them.
#pragma once

#include <unwind.h>

#include "arch/unwind_tables.h"
#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "layout/runtime_data.h"
#include "target/self_target.h"

namespace pinprick::library {

// Once; from then on runtime::slots is there. One thread at a time.
Result<void, SystemError> make_return_slots(const target::SelfTarget& self);

// Frames of slots are found by unwinders once they have been told (unwinding.h). For good.
void cover_slots(const arch::SlotFrames& frames, _Unwind_Personality_Fn personality);

}  // namespace pinprick::library
