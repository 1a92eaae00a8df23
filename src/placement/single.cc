#include "placement/single.h"

#include <algorithm>
#include <cassert>

#include "arch/code.h"
#include "placement/callee.h"
#include "placement/caller_use.h"
#include "placement/probe_set.h"

namespace pinprick::placement {
namespace {

// Is the reason about the bytes after the first instruction?
bool is_about_room(plan::Reason reason) {
  switch (reason) {
    case plan::Reason::branch_inside:
    case plan::Reason::call_inside:
    case plan::Reason::too_short:
    case plan::Reason::indirect_jumps:
    case plan::Reason::page_edge:
    case plan::Reason::privileged:
    case plan::Reason::inexact:
    case plan::Reason::undecodable:
    case plan::Reason::reserved:
    case plan::Reason::foreign_breakpoint:
      return true;
    default:
      return false;
  }
}

struct Site {
  plan::FunctionCode code;
  Address address = 0;  // in the object's own addresses
  bool at_entry = false;
  Entered entered = Entered::by_jump;
};

Result<Site, plan::Refusal> site_of(const image::Match& match) {
  image::Object& object = *match.object;
  const Address wanted = match.site - object.bias();
  if (match.unresolved) return fail(plan::Refusal{plan::Reason::unresolved_ifunc, wanted});
  const auto code = code_of(object, *match.function);
  if (!code) return fail(plan::Refusal{plan::Reason::unreadable, wanted});
  const Address entry = plan::entry_site(*code);
  const bool at_entry = wanted == entry || wanted == match.function->range.begin;
  return Site{*code, at_entry ? entry : wanted, at_entry, how_entered(object, *match.function)};
}

Result<plan::Patch, plan::Refusal> breakpoint_at(const Site& site) {
  if (!site.code.range.contains(site.address))
    return fail(plan::Refusal{plan::Reason::outside, site.address});
  // The breakpoint's own signal handler returns there.
  if (arch::is_signal_restorer(site.code.bytes))
    return fail(plan::Refusal{plan::Reason::reserved, site.address});
  const auto boundaries = plan::boundaries(site.code);
  if (!std::binary_search(boundaries.begin(), boundaries.end(), site.address))
    return fail(plan::Refusal{plan::Reason::mid_instruction, site.address});
  return plan::displace(site.code, site.address, site.address + 1, arch::kBreakpointLength);
}

SinglePlan planned(const Site& site, plan::Patch patch) {
  SinglePlan plan;
  plan.patch = std::move(patch);
  plan.at_entry = site.at_entry;
  plan.stack = stack_use(site.entered == Entered::by_call && site.at_entry);
  return plan;
}

}  // namespace

Result<SinglePlan, plan::Refusal> plan_single(const image::Match& match, ProbeNeeds needs,
                                              Breakpoints breakpoints, CallerUse* callers) {
  const auto site = site_of(match);
  if (!site) return fail(site.error());
  if (needs == ProbeNeeds::calls) {
    if (auto refusal = why_no_slots(*match.object)) {
      refusal->where = site->address;
      return fail(*refusal);
    }
    if (!site->at_entry) return fail(plan::Refusal{plan::Reason::not_called, site->address});
    assert(callers != nullptr);
    callers->look_at({&match, 1});
    auto candidate = return_candidate(*match.object, *match.function, site->code);
    candidate.entered = site->entered;
    auto reason = why_not_called(candidate);
    if (!reason) reason = why_no_slot(candidate, *callers);
    if (reason) return fail(plan::Refusal{*reason, site->address});
    // Other probes at the entry would share the site, and this one is after its first instruction.
    if (return_site(*match.object, candidate.code, candidate.begin(), site->address) !=
        site->address)
      return fail(plan::Refusal{plan::Reason::reads_return_address, site->address});
  }
  if (needs == ProbeNeeds::after_first) {
    const auto first = plan::instruction_at(site->code, site->address);
    if (first && first->flow != arch::Flow::next)
      return fail(plan::Refusal{plan::Reason::inexact, site->address});
  }
  auto patch = plan::plan_site(site->code, site->address);
  if (patch) return planned(*site, *std::move(patch));
  if (breakpoints == Breakpoints::none || !is_about_room(patch.error().reason))
    return fail(patch.error());
  return plan_breakpoint(match, patch.error().reason);
}

Result<SinglePlan, plan::Refusal> plan_breakpoint(const image::Match& match, plan::Reason no_jump) {
  const auto site = site_of(match);
  if (!site) return fail(site.error());
  auto patch = breakpoint_at(*site);
  if (!patch) return fail(patch.error());
  SinglePlan plan = planned(*site, *std::move(patch));
  plan.no_jump = no_jump;
  return plan;
}

}  // namespace pinprick::placement
