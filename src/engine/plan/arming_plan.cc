#include "engine/plan/arming_plan.h"

namespace pinprick::engine {

using placement::Hook;
using placement::SitePatch;

bool ArmingPlan::is_hook(size_t patch, Hook::Kind kind) const {
  const auto& hook = set.patches[patch].hook;
  return hook && hook->kind == kind;
}

bool ArmingPlan::serves_unwinding(size_t patch) const {
  const auto& hook = set.patches[patch].hook;
  return hook && hook->is_for_unwinding();
}

bool ArmingPlan::has_hook(Hook::Kind kind) const {
  for (size_t i = 0; i < set.patches.size(); ++i)
    if (is_hook(i, kind)) return true;
  return false;
}

layout::SiteEntry::Link ArmingPlan::kind_of_link(size_t patch) const {
  using Link = layout::SiteEntry::Link;
  const bool is_timed = times() && !set.patches[patch].hook;
  if (!is_timed && !shared.contains(patch)) return Link::none;
  return is_hook(patch, Hook::Kind::vfork) ? Link::at_start : Link::before_copy;
}

std::optional<Address> ArmingPlan::link_of(size_t patch) const {
  if (kind_of_link(patch) == layout::SiteEntry::Link::none) return std::nullopt;
  const auto position = shared.find(patch);
  return position == shared.end() ? Address{0} : position->second.below;
}

void ArmingPlan::choose_slots_or_sleds() {
  if (!times()) return;
  std::vector<bool> lost(set.patches.size());
  for (size_t i = 0; i < lost.size(); ++i)
    lost[i] =
        set.patches[i].plan.ends_calls() && (gap != layout::Gap::none || in_the_way.contains(i));
  placement::time_by_slots(set, lost);
  for (size_t i = 0; i < lost.size(); ++i) {
    if (lost[i]) in_the_way.emplace(i, plan::Reason::neighbour);
    if (set.patches[i].plan.timing == placement::CallTiming::starts_call) has_sleds = true;
  }
}

void ArmingPlan::note_dependencies() {
  for (size_t i = 0; i < set.patches.size(); ++i) {
    const SitePatch& patch = set.patches[i];
    const auto number = static_cast<uint32_t>(i);
    if (patch.plan.trampoline) with_trampoline.push_back(number);
    if (patch.plan.island) puns.push_back(number);
    if (!patch.plan.depends_on) continue;
    dependents.push_back(number);
    const size_t depends_on = *patch.plan.depends_on;
    if (patch.plan.trampoline && !patch.plan.ends_in_next_jump)  // and not a kept stub elsewhere
      hidden[depends_on].push_back(static_cast<uint8_t>(patch.plan.trampoline->address -
                                                        set.patches[depends_on].plan.patch.site));
  }
}

void ArmingPlan::arm_all() {
  for (PatchState& state : states) state.is_armed = 1;
}

bool ArmingPlan::drop(size_t patch, plan::Reason reason) {
  if (!is_armed(patch)) return false;
  leave_out(patch);
  for (size_t i : set.patches[patch].probes) {
    const placement::Probe& probe = set.probes[i];
    left_out.push_back(
        {set.match_of(probe), {reason, set.patches[patch].plan.patch.site + probe.offset}});
  }
  return true;
}

}  // namespace pinprick::engine
