#include "library/probes/site_plan.h"

#include <utility>

namespace pinprick::library {

Result<SitePlan, plan::Reason> plan_site(const image::Match& match, placement::ProbeNeeds needs,
                                         placement::Breakpoints breakpoints,
                                         placement::CallerUse& callers) {
  auto single = placement::plan_single(match, needs, breakpoints, &callers);
  if (!single) return fail(single.error().reason);
  SitePlan planned;
  planned.stack = single->stack;
  planned.at_entry = single->at_entry;
  planned.no_jump = single->no_jump;
  planned.address = single->patch.site + match.object->bias();
  single->patch.site = planned.address;
  planned.breakpoint =
      single->is_breakpoint() ? single->patch : plan::under_breakpoint(single->patch);
  if (!single->is_breakpoint()) planned.jump = std::move(single->patch);
  return planned;
}

}  // namespace pinprick::library
