#include "probe/summary.h"

#include "plan/function_plan.h"

namespace pinprick::probe {
namespace {

void add(Summary& summary, const plan::FunctionPlan& plan) {
  for (const plan::PlannedPatch& patch : plan.patches) {
    summary.probeable += patch.points.size();
    summary.by_tactic[patch.patch.tactic] += patch.points.size();
  }
  for (const auto& [site, refusal] : plan.refused) ++summary.refused[refusal.reason];
}

}  // namespace

Summary summarize(const std::vector<image::Match>& matches, Sites sites) {
  Summary summary;
  for (const image::Match& match : matches) {
    image::Object& object = *match.object;
    const auto bytes = object.code(*match.function);
    plan::FunctionCode code;
    code.range = match.function->range;
    code.bytes = bytes;
    code.targets = &object.targets();
    code.reserved = object.reserved();
    std::vector<Address> wanted = {code.range.begin};
    if (sites != Sites::entries) wanted = plan::instructions(code);
    summary.sites += wanted.size();
    const auto plan = [&](std::span<const Address> some) {
      add(summary, plan::plan_function(code, some, plan::Placing::anywhere));
    };
    if (sites == Sites::instructions)
      for (const Address& site : wanted) plan({&site, 1});
    else
      plan(wanted);
  }
  return summary;
}

}  // namespace pinprick::probe
