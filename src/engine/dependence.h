// What must not be armed without something else, and goes with it.
//
// Called with the process's turn held, before the text is announced, and once more while all
// threads are stopped if something was dropped since. Pure; each drops patches of the plan, and
// nothing fails. drop_what_needs_hooks() comes first: what it drops others may depend on.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/arming_plan.h"

namespace pinprick::engine {

// Do stubs count by restartable sequences? A child that shares the memory has to be marked then.
enum class Counting : uint8_t { locked, restartable };

// A slot's address must not be on a stack whose unwinder has not been told of slots. Where nothing
// is timed, the hooks are for threads that unwind from within a stub. And a child that is not
// marked must not count on a CPU.
void drop_what_needs_hooks(ArmingPlan& plan, Counting counting);

// What lies in the window of a patch, or ends in its jump, must not be written without that patch.
void drop_dependents(ArmingPlan& plan);

// Which patches are part of others, or have others as a part: of those, all is written or nothing.
// Empty if there are none.
std::vector<bool> patches_that_hang_together(const ArmingPlan& plan);

}  // namespace pinprick::engine
