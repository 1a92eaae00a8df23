#include "engine/plan/dependence.h"

#include <algorithm>
#include <utility>

namespace pinprick::engine {

using placement::Hook;

namespace {

Range joined(Range a, Range b) {
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

}  // namespace

Range planned_from(const ArmingPlan& plan, const placement::SitePatch& patch) {
  Range code = patch.plan.claimed();
  const auto add = [&](const image::Function* function) {
    if (function != nullptr) code = joined(code, function->range);
  };
  add(patch.object->functions().find(patch.plan.patch.site));
  for (size_t i : patch.probes) add(plan.set.matches[plan.set.probes[i].match].function);
  return code;
}

void drop_functions_of(ArmingPlan& plan, std::span<const size_t> changed) {
  std::vector<std::pair<const image::Object*, Range>> functions;
  for (size_t i : changed) {
    const placement::SitePatch& patch = plan.set.patches[i];
    functions.emplace_back(patch.object, planned_from(plan, patch));
    plan.drop(i, plan::Reason::text_changed);
  }
  if (functions.empty()) return;
  for (size_t i = 0; i < plan.set.patches.size(); ++i) {
    if (!plan.is_armed(i)) continue;
    const placement::SitePatch& patch = plan.set.patches[i];
    const Range code = planned_from(plan, patch);
    if (std::any_of(functions.begin(), functions.end(), [&](const auto& function) {
          return function.first == patch.object && function.second.overlaps(code);
        }))
      plan.drop(i, plan::Reason::text_changed);
  }
}

void drop_what_needs_hooks(ArmingPlan& plan, Counting counting) {
  const size_t count = plan.set.patches.size();
  const auto is_needed = [&](size_t i) {
    return plan.is_hook(i, Hook::Kind::vfork) ? counting == Counting::restartable
                                              : plan.times() && plan.serves_unwinding(i);
  };
  for (size_t i = 0; i < count; ++i) {
    if (plan.is_armed(i) || !is_needed(i)) continue;
    const bool is_vfork = plan.is_hook(i, Hook::Kind::vfork);
    // No unwinder meets with calls that are timed by exits.
    const auto has_slots = [&](size_t j) {
      const placement::SitePlan& planned = plan.set.patches[j].plan;
      return !planned.is_timed_by_exits() && !planned.ends_calls() &&
             (plan.only_times() || plan.times_at(j));
    };
    for (size_t j = 0; j < count; ++j)
      if (is_vfork || has_slots(j)) plan.drop(j, plan::Reason::thread_inside);
  }
}

// A call that has no end at one of its exits cannot be timed, and ends without starts are of no
// use. What depends on what was dropped is dropped, too, which may be an end.
void drop_dependents(ArmingPlan& plan) {
  const auto& patches = plan.set.patches;
  for (bool is_any = true; is_any;) {
    is_any = false;
    for (size_t i : plan.dependents)
      if (!plan.is_armed(*patches[i].plan.depends_on))
        is_any = plan.drop(i, plan::Reason::thread_inside) || is_any;
    for (size_t i : plan.ends) {
      const size_t start = *patches[i].plan.start;
      if (!plan.is_armed(i) && patches[start].plan.is_timed_by_exits())
        is_any = plan.drop(start, plan::Reason::thread_inside) || is_any;
    }
    // An end without starts does nothing, and others may have probes there.
    for (size_t i : plan.ends)
      if (!plan.is_armed(*patches[i].plan.start) && patches[i].probes.empty())
        is_any = plan.drop(i, plan::Reason::thread_inside) || is_any;
  }
}

std::vector<bool> patches_that_hang_together(const ArmingPlan& plan) {
  std::vector<bool> together(plan.set.patches.size());
  for (size_t i = 0; i < together.size(); ++i)
    if (const auto& hook = plan.set.patches[i].hook) together[i] = hook->is_for_probes();
  for (size_t i : plan.with_trampoline) together[i] = true;
  for (size_t i : plan.dependents)
    together[i] = together[*plan.set.patches[i].plan.depends_on] = true;
  for (size_t i : plan.ends) together[i] = together[*plan.set.patches[i].plan.start] = true;
  return together;
}

}  // namespace pinprick::engine
