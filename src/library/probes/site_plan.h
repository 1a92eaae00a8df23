// The plan for one site, before its neighbours are considered.
//
// Pure, but for the lazy loading of objects, so the caller holds the registry's lock. The error is
// the reason why the instruction cannot be probed.
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
  bool at_entry = false;  // of the function; after an endbr64 there
  std::optional<plan::Patch> jump;
  plan::Patch breakpoint;
  std::optional<plan::Reason> no_jump;
  arch::StackUse stack = arch::StackUse::at_entry;
  std::vector<Site*> in_the_way;  // these become breakpoints, or are removed if without probes
};

// Plans a site without regard to others. `callers` is of our process.
Result<SitePlan, plan::Reason> plan_site(const image::Match& match, placement::ProbeNeeds needs,
                                         placement::Breakpoints breakpoints,
                                         placement::CallerUse& callers);

}  // namespace pinprick::library
