// What is planned for one site before it is known whether its neighbours leave it room.
//
// Pure but for the lazy loading of objects, so the registry's lock is held. The error is the reason
// why the instruction cannot be probed.
#pragma once

#include <optional>
#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "base/result.h"
#include "image/match.h"
#include "placement/single.h"
#include "plan/planner.h"

namespace pinprick::library {

struct Site;

struct SitePlan {
  Address address = 0;
  std::optional<plan::Patch> jump;
  plan::Patch breakpoint;
  std::optional<plan::Reason> no_jump;
  arch::StackUse stack = arch::StackUse::at_entry;
  std::vector<Site*> in_the_way;  // become breakpoints; those without probes go altogether
};

// Without regard to other sites.
Result<SitePlan, plan::Reason> plan_site(const image::Match& match, placement::Wanted wanted,
                                         placement::Breakpoints breakpoints);

}  // namespace pinprick::library
