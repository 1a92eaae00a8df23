// Stubs that code which the program generates may come to know, as it follows the jump at a
// function's start: they may have to stay when the session's probes are out (kept_memory.h).
//
// For arming, before anything is laid out. Pure, but that lead_through_kept_stubs() reads what the
// kept stubs hold. Nothing can fail.
#pragma once

#include <map>

#include "base/address.h"
#include "engine/arming_plan.h"
#include "placement/probe_set.h"
#include "target/memory.h"

namespace pinprick::engine {

// Does its jump make a function's first byte that of a jump?
bool may_be_known(const placement::SitePatch& patch);
bool may_any_be_known(const placement::ProbeSet& set);

// Those of an object's patches whose stubs may have to stay come first, so that their stubs fill
// few pages. Each object's patches keep their order otherwise, and so do probes.
void put_known_first(placement::ProbeSet& set);

// Leads the stubs that earlier sessions left on to ours: generated code that jumps to an old stub
// reaches the new one through it, so no other stub has to stay. `kept` is what kept_stubs() has
// returned. Shared patches are left out: share_sites() must have been called before.
void lead_through_kept_stubs(ArmingPlan& plan, const std::map<Address, Address>& kept,
                             const target::Memory& memory);

}  // namespace pinprick::engine
