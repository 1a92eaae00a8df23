// One probe, planned without regard to others: for those that come and go one by one.
//
// The first thing that happens at the site is the probe, so there are no shared windows and no
// trampolines here (plan/function_plan.h). Where no jump fits, a breakpoint may. Pure but for the
// lazy loading of objects.
#pragma once

#include <optional>

#include "arch/stub.h"
#include "base/result.h"
#include "image/match.h"
#include "plan/planner.h"

namespace pinprick::placement {

enum class Wanted : uint8_t {
  hits,         // of any instruction
  calls,        // entry and return
  after_first,  // hits, and what the instruction did
};

enum class Breakpoints : uint8_t { none, where_no_jump_fits };

struct SinglePlan {
  plan::Patch patch;  // in the object's own addresses; `written` is 1 for a breakpoint
  arch::StackUse stack = arch::StackUse::at_entry;
  // Of a breakpoint: why it is no jump.
  std::optional<plan::Reason> no_jump;

  bool is_breakpoint() const { return no_jump.has_value(); }
};

Result<SinglePlan, plan::Refusal> plan_single(const image::Match& match, Wanted wanted,
                                              Breakpoints breakpoints);

// A breakpoint where something else stands in the way of a jump.
Result<SinglePlan, plan::Refusal> plan_breakpoint(const image::Match& match, plan::Reason no_jump);

}  // namespace pinprick::placement
