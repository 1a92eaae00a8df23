// What the sites of a patch will hold: the jump to its stub, by way of its trampoline or island
// where it has one.
//
// Pure: from where the stub lies, into the journal's entries of this patch alone. Any thread, and
// several at once for different patches, once memory is mapped.
#pragma once

#include "arch/stub.h"
#include "base/address.h"
#include "engine/plan/arming_plan.h"
#include "layout/session_file.h"
#include "placement/probe_set.h"

namespace pinprick::engine {

// Where a patch with an island leads, in the target; 0: that page could not be mapped.
Address island_of(const layout::Session& journal, const placement::SitePatch& patch);

// Notes the jumps of the patch's site and trampoline. False: the stub is out of reach, or the
// program's bytes that a pun ends in are others.
bool note_jumps(const ArmingPlan& plan, layout::Session& journal, size_t patch,
                const arch::Stub& stub);
// There is no stub: another patch's may come to lie there.
void forget_jumps(const ArmingPlan& plan, layout::Session& journal, size_t patch);

// Where the stub has what belongs to its probes.
void note_probes(const ArmingPlan& plan, layout::Session& journal, size_t patch,
                 const arch::Stub& stub);

}  // namespace pinprick::engine
