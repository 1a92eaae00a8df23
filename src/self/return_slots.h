// Makes the slots of return probes in one's own process, and tells the unwinder of them.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "target/self_target.h"

namespace pinprick::self {

// Once; from then on runtime::slots is there. One thread at a time.
Result<void, SystemError> make_return_slots(const target::SelfTarget& self);

}  // namespace pinprick::self
