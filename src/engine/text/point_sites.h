// Turns tracepoints of ours on and off, for a session whose probes wait in their blocks.
//
// A point has a count of those who want it on: the program itself (libpinprick), and each session.
// The rule: **a nop is a jump to its block while the count is not 0.** Each one that changes the
// count then makes the nops follow it:
//
//     a session      stops all threads; changes the count (engine/text/semaphores.h), then the nops
//     the program    changes the count atomically, then the nops, as patch/live_edit.h does; then
//                    looks at count and nops again, until they agree
//
// Neither waits for the other. Every thread is safe at each step, and in the end the nops are as
// the count says:
//
//   - A session changes a nop only if all of its bytes are those of the nop or the jump. Both are
//     correct, whatever the count is: the block calls the functions that are attached, maybe none.
//   - If a thread of the program was stopped in the middle of a change, the nop begins with a
//     breakpoint. The session leaves it alone, and that thread looks at the count afterwards.
//   - If it was stopped before the first byte of its change, it goes on to write the bytes it had
//     decided on: a breakpoint, the rest, the first byte. That is right over either form, and it
//     looks at the count afterwards.
//   - In between the point may be off for the time of one change although it is wanted.
//
// If the controller dies between the count and the nops, the journal says that the count is being
// raised or lowered. A later disarm lowers it, and makes the nops follow in any case. A nop in two
// pages cannot be written at once: such a point is left out (page_edge).
//
// Points whose nops others have displaced are left out, too, with the reason. A nop that a session
// has in its journal is not displaced by other sessions (engine/owners/shared_sites.h) nor by the
// program (library/process/attached_sessions.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_range.h"
#include "engine/owners/shared_sites.h"
#include "engine/plan/arming_plan.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

// Returns the nops of the points that these semaphores are the counts of. The patches are of one
// object, and the semaphores sorted; they will have numbers from `first` in the journal.
std::vector<layout::PointSiteEntry> point_sites_of(
    const placement::ProbeSet& set, const IndexRange& patches,
    std::span<const layout::SemaphoreEntry> semaphores, uint32_t first);

// Adds to ArmingPlan::in_the_way the probes of points that cannot be turned on, and the patches
// that would displace a nop of a point that is to be turned on.
void leave_out_held_points(ArmingPlan& plan, const OtherSites& others,
                           const target::Memory& memory);

// Drop the armed probes of points that cannot be turned on any more: since others changed a nop, as
// can be seen while all threads are stopped; and since the program displaces it by a probe of its
// own. Return true if any was dropped.
bool drop_changed_points(ArmingPlan& plan, const layout::Session& journal,
                         const target::Memory& memory);
bool drop_points_probed_by(const patch::OwnProbes& program, ArmingPlan& plan,
                           const layout::Session& journal);

// Makes the nops of these counts, numbers in journal.semaphores, follow them. All threads are
// stopped. Returns false if a nop cannot be written.
bool follow_counts(const layout::Session& journal, std::span<const uint32_t> counts,
                   const target::Memory& memory);

}  // namespace pinprick::engine
