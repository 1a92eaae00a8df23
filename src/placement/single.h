// Plans one probe without regard to others, for probes that come and go one by one. Pure, but for
// the lazy loading of objects.
//
// The probe is the first thing that happens at its site, so it shares no window and has no
// trampoline (plan/function_plan.h). Where no jump fits, a breakpoint may.
#pragma once

#include <optional>

#include "arch/stub.h"
#include "base/result.h"
#include "image/match.h"
#include "plan/planner.h"

namespace pinprick::placement {

class CallerUse;

enum class ProbeNeeds : uint8_t {
  hits,         // of any instruction
  calls,        // entry and return
  after_first,  // hits, and what the instruction did
};

enum class Breakpoints : uint8_t { none, where_no_jump_fits };

struct SinglePlan {
  plan::Patch patch;  // in the object's own addresses; `written` is 1 for a breakpoint
  arch::StackUse stack = arch::StackUse::at_entry;
  bool at_entry = false;  // of the function; after an endbr64 there
  // For a breakpoint: why the probe is not a jump.
  std::optional<plan::Reason> no_jump;

  bool is_breakpoint() const { return no_jump.has_value(); }
};

// Returns the plan for a jump. If there is not enough room for one, plans a breakpoint if those are
// allowed. Otherwise returns why the site is refused. `callers` is needed for calls only; it is of
// the process that the match is of.
Result<SinglePlan, plan::Refusal> plan_single(const image::Match& match, ProbeNeeds needs,
                                              Breakpoints breakpoints,
                                              CallerUse* callers = nullptr);

// Plans a breakpoint, where something else prevents a jump.
Result<SinglePlan, plan::Refusal> plan_breakpoint(const image::Match& match, plan::Reason no_jump);

}  // namespace pinprick::placement
