// The public name of a planner's reason for a breakpoint. Pure; any thread may call it; cannot
// fail.
#pragma once

#include "pinprick/probe.h"
#include "plan/tactic.h"

namespace pinprick::library {

// `reason` is one for which a site is a breakpoint instead of a jump (placement/single.h,
// neighbours.h, batch.h); any other is a broken invariant, asserted.
NoJump no_jump_of(plan::Reason reason);

}  // namespace pinprick::library
