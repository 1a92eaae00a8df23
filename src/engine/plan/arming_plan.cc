#include "engine/plan/arming_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "action/at_return.h"

namespace pinprick::engine {

using placement::Hook;
using placement::SitePatch;

ArmingPlan::ArmingPlan(placement::ProbeSet planned, layout::Gap gaps)
    : set(std::move(planned)),
      gap(gaps),
      times_(set.actions.times_calls()),
      does_more_(!set.actions.only_times_calls()),
      needs_runtime_(!set.actions.only_counts() || set.actions.uses_keys() ||
                     set.actions.follows_pointers() || set.actions.tell_threads()),
      uses_keys_(set.actions.uses_keys()),
      records_events_(set.actions.has(placement::Kind::event)),
      keeps_values_(std::any_of(set.actions.all().begin(), set.actions.all().end(),
                                [](const action::Action& one) {
                                  std::vector<select::Expression> kept;
                                  action::add_kept(one, action::Entry::does_not_decide, kept);
                                  return !kept.empty();
                                })) {}

bool ArmingPlan::times_at(size_t patch) const {
  const SitePatch& planned = set.patches[patch];
  if (!times_ || planned.hook) return false;
  // A patch without probes may serve another patch.
  if (only_times() || planned.plan.ends_calls()) return true;
  for (const size_t probe : planned.probes)
    if (set.times_call(set.probes[probe])) return true;
  return false;
}

void ArmingPlan::note_cells() {
  std::vector<uint32_t> cells(set.probes.size());
  bool is_own_number = true;
  for (size_t i = 0; i < set.probes.size(); ++i) {
    const action::Action& action = set.action_of(set.probes[i]);
    const bool is_event = action.kind == placement::Kind::event && !action.at_return;
    if (action.kind == placement::Kind::span || is_event) continue;
    uint64_t& next = action.counts() ? counters_ : histograms_;
    cells[i] = static_cast<uint32_t>(next++);
    is_own_number = is_own_number && cells[i] == i;
  }
  if (!is_own_number) cells_ = std::move(cells);
}

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
  if (!times_at(patch) && !shared.contains(patch)) return Link::none;
  // A link lies before the copies. It would lead threads past the end that is among them.
  if (set.patches[patch].plan.has_inner_end()) return Link::none;
  return is_hook(patch, Hook::Kind::vfork) ? Link::at_start : Link::before_copy;
}

std::optional<Address> ArmingPlan::link_of(size_t patch) const {
  if (kind_of_link(patch) == layout::SiteEntry::Link::none) return std::nullopt;
  const auto position = shared.find(patch);
  return position == shared.end() ? Address{0} : position->second.below;
}

void ArmingPlan::choose_slots_or_exits() {
  if (!times()) return;
  const bool has_gaps = gap != layout::Gap::none;
  std::vector<bool> lost(set.patches.size());
  for (size_t i = 0; i < lost.size(); ++i) {
    placement::SitePlan& planned = set.patches[i].plan;
    if (has_gaps && planned.timing == placement::CallTiming::by_exits) planned.time_by_slots();
    lost[i] = in_the_way.contains(i) || (has_gaps && planned.is_timed_by_exits());
  }
  placement::lose_ends(set, lost);
  for (size_t i = 0; i < lost.size(); ++i)
    if (lost[i])
      in_the_way.emplace(i, has_gaps ? plan::Reason::needs_slot : plan::Reason::neighbour);
    else if (set.patches[i].plan.is_timed_by_exits())
      times_by_exits = true;
}

void ArmingPlan::note_dependencies() {
  for (size_t i = 0; i < set.patches.size(); ++i) {
    const SitePatch& patch = set.patches[i];
    const auto number = static_cast<uint32_t>(i);
    if (patch.plan.ends_calls()) ends.push_back(number);
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
