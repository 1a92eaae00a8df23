// Which patches of a session are at sites that other sessions have, too, and how they are planned
// there (shared_sites.h has what sharing is).
//
// Called before anything is laid out, with the process's turn held: what others have must not
// change. Reads the links of others' stubs from memory, and changes the plan alone. Nothing fails:
// patches that cannot be where others' are become ArmingPlan::in_the_way.
#pragma once

#include "engine/owners/shared_sites.h"
#include "engine/plan/arming_plan.h"
#include "target/memory.h"

namespace pinprick::engine {

// Fills ArmingPlan::shared and in_the_way. Shared patches take the window that is there, and the
// trampoline; a patch is added where such a trampoline lies in a window that the plan does not
// have.
void share_sites(ArmingPlan& plan, const OtherSites& others, const target::Memory& memory);

}  // namespace pinprick::engine
