// Drops patches that must not be armed without another patch or hook which was left out.
//
// The caller holds the process's turn. It calls these functions before the text is announced, and
// again, while all threads are stopped, if something was dropped in between. Pure; nothing can
// fail. drop_what_needs_hooks() comes first, because other patches may depend on those that it
// drops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/arming_plan.h"

namespace pinprick::engine {

// Do stubs count by restartable sequences? A child that shares the memory has to be marked then.
enum class Counting : uint8_t { locked, restartable };

// Drops patches whose hooks are missing. A slot's address must not be on a stack if the unwinder
// does not know slots. If nothing is timed, the hooks serve threads that unwind from within a stub.
// A child that is not marked must not count on a CPU. Probes that do not time calls stay if hooks
// in unwinders are missing.
void drop_what_needs_hooks(ArmingPlan& plan, Counting counting);

// Drops patches that lie in the window of a dropped patch or end in its jump, patches at which
// calls start of which an end was dropped, and ends of calls whose start was dropped.
void drop_dependents(ArmingPlan& plan);

// Returns the code that a patch was planned from, at least, in its object's addresses: what it
// claims, the function there, and that of its probes, in which it may lie without being a part of
// it.
Range planned_from(const ArmingPlan& plan, const placement::SitePatch& patch);

// Drops these patches, the text of which is not as it was planned for, and all others of their
// functions: the plan of a function rests on all of its bytes, which tell where instructions begin
// and where branches lead. So if some were wrong, jumps of the others may be as well, although
// their own bytes are right.
void drop_functions_of(ArmingPlan& plan, std::span<const size_t> changed);

// Returns, for each patch, whether others may need it, as they need hooks, whether it is a part of
// another one, or has another one as a part. If the text of such a patch has changed, it must be
// known before anything is written.
std::vector<bool> patches_that_hang_together(const ArmingPlan& plan);

}  // namespace pinprick::engine
