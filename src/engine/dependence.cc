#include "engine/dependence.h"

namespace pinprick::engine {

using placement::Hook;

void drop_what_needs_hooks(ArmingPlan& plan, Counting counting) {
  const size_t count = plan.set.patches.size();
  const auto is_needed = [&](size_t i) {
    return plan.is_hook(i, Hook::Kind::vfork) ? counting == Counting::restartable
                                              : plan.times() && plan.serves_unwinding(i);
  };
  for (size_t i = 0; i < count; ++i)
    if (!plan.is_armed(i) && is_needed(i))
      for (size_t j = 0; j < count; ++j) plan.drop(j, plan::Reason::thread_inside);
}

void drop_dependents(ArmingPlan& plan) {
  // A call that no patch ends cannot be timed.
  for (size_t i : plan.dependents) {
    const placement::SitePlan& planned = plan.set.patches[i].plan;
    if (!planned.ends_calls() || plan.is_armed(i)) continue;
    const size_t start = *planned.depends_on;
    if (plan.set.patches[start].plan.timing == placement::CallTiming::starts_call)
      plan.drop(start, plan::Reason::text_changed);
  }
  for (size_t i : plan.dependents)
    if (!plan.is_armed(*plan.set.patches[i].plan.depends_on))
      plan.drop(i, plan::Reason::thread_inside);
}

std::vector<bool> patches_that_hang_together(const ArmingPlan& plan) {
  std::vector<bool> together(plan.set.patches.size());
  for (size_t i = 0; i < together.size(); ++i)
    if (const auto& hook = plan.set.patches[i].hook) together[i] = hook->is_for_probes();
  for (size_t i : plan.with_trampoline) together[i] = true;
  for (size_t i : plan.dependents)
    together[i] = together[*plan.set.patches[i].plan.depends_on] = true;
  return together;
}

}  // namespace pinprick::engine
