// Stubs that generated code may come to know, if the program's code generator follows the jump at
// a function's start. They may have to stay when the session's probes are out (kept_memory.h).
//
// Arming calls these functions before anything is laid out. Pure, except that
// lead_through_kept_stubs() reads the kept stubs. Nothing can fail.
#pragma once

#include <map>

#include "base/address.h"
#include "engine/plan/arming_plan.h"
#include "placement/probe_set.h"
#include "target/memory.h"

namespace pinprick::engine {

// Returns whether the patch's jump is at a function's first byte, where generated code follows it.
bool may_be_known(const placement::SitePatch& patch);
bool may_any_be_known(const placement::ProbeSet& set);

// Moves those of an object's patches whose stubs may have to stay to the front, so that these stubs
// fill few pages. Otherwise each object's patches keep their order, and so do probes.
void put_known_first(placement::ProbeSet& set);

// Uses the stubs that earlier sessions left as trampolines to ours: generated code that jumps to an
// old stub then reaches the new one, and no second stub has to stay. `kept` is what kept_stubs()
// has returned. Shared patches are left out, so share_sites() must have been called before. A patch
// whose jump can only lead to its island has been planned with the kept stub for one.
void lead_through_kept_stubs(ArmingPlan& plan, const std::map<Address, Address>& kept,
                             const target::Memory& memory);

}  // namespace pinprick::engine
