#include "engine/stubs/known_stubs.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "arch/jump.h"
#include "engine/memory/kept_memory.h"

namespace pinprick::engine {
namespace {

using placement::Probe;
using placement::ProbeSet;
using placement::SitePatch;

// Of these patches those that may be known. All their probes lie in `probes`, in the same order.
void move_to_front(ProbeSet& set, IndexRange patches, IndexRange probes) {
  std::vector<SitePatch> known;  // the last one first, as their probes
  std::vector<Probe> probes_of_known;
  size_t to = patches.first + patches.size();
  size_t to_probe = probes.first + probes.size();
  const auto take_probe = [&](const Probe& probe) { set.probes[--to_probe] = probe.of_patch(to); };
  for (size_t i = to; i-- > patches.first;) {
    SitePatch& patch = set.patches[i];
    const IndexRange its = patch.probes;
    if (may_be_known(patch)) {
      for (size_t j = its.size(); j-- > 0;) probes_of_known.push_back(set.probes[its[j]]);
      known.push_back(std::move(patch));
      continue;
    }
    --to;
    for (size_t j = its.size(); j-- > 0;) take_probe(set.probes[its[j]]);
    patch.probes = {to_probe, its.size()};
    if (to != i) set.patches[to] = std::move(patch);
  }
  auto next = probes_of_known.begin();
  for (SitePatch& patch : known) {
    --to;
    for (size_t j = 0; j < patch.probes.size(); ++j) take_probe(*next++);
    patch.probes = {to_probe, patch.probes.size()};
    set.patches[to] = std::move(patch);
  }
}

bool has_room_for_trampoline(const ArmingPlan& plan, size_t patch) {
  const placement::SitePlan& planned = plan.set.patches[patch].plan;
  return !planned.trampoline && !planned.island && !planned.depends_on &&
         !plan.shared.contains(patch);
}

std::optional<plan::Trampoline> trampoline_at(Address kept, const SitePatch& patch,
                                              const target::Memory& memory) {
  plan::Trampoline trampoline;
  trampoline.address = kept - patch.object->bias();
  trampoline.length = kKeptJumpLength;
  const auto bytes = std::span(trampoline.original).first(kKeptJumpLength);
  return memory.read(kept, bytes) ? std::optional(trampoline) : std::nullopt;
}

}  // namespace

bool may_be_known(const SitePatch& patch) {
  const plan::Window& jump = patch.plan.patch;
  return !patch.hook && jump.at_start && jump.written == arch::kJumpLength;
}

bool may_any_be_known(const ProbeSet& set) {
  return std::any_of(set.patches.begin(), set.patches.end(), may_be_known);
}

// In place: there may be millions.
void put_known_first(ProbeSet& set) {
  std::vector<uint32_t> position(set.patches.size());
  bool is_moved = false;
  size_t end = 0, end_probe = 0;
  while (end < set.patches.size()) {
    const size_t first = end, first_probe = end_probe;
    size_t known = 0;
    for (; end < set.patches.size() && set.patches[end].object == set.patches[first].object;
         ++end) {
      known += may_be_known(set.patches[end]) ? 1 : 0;
      end_probe += set.patches[end].probes.size();
    }
    size_t front = first, back = first + known;
    for (size_t i = first; i < end; ++i)
      position[i] = static_cast<uint32_t>(may_be_known(set.patches[i]) ? front++ : back++);
    const auto of = std::span(position).subspan(first, end - first);
    if (std::is_sorted(of.begin(), of.end())) continue;
    is_moved = true;
    move_to_front(set, {first, end - first}, {first_probe, end_probe - first_probe});
  }
  if (!is_moved) return;
  for (SitePatch& patch : set.patches) {
    if (patch.plan.depends_on) patch.plan.depends_on = position[*patch.plan.depends_on];
    if (patch.plan.start) patch.plan.start = position[*patch.plan.start];
  }
}

void lead_through_kept_stubs(ArmingPlan& plan, const std::map<Address, Address>& kept,
                             const target::Memory& memory) {
  if (kept.empty()) return;
  for (size_t i = 0; i < plan.set.patches.size(); ++i) {
    SitePatch& patch = plan.set.patches[i];
    if (!may_be_known(patch)) continue;
    const auto found = kept.find(patch.site());
    if (found == kept.end() || !arch::reaches(patch.site() + arch::kJumpLength, found->second))
      continue;
    const bool is_island =
        patch.plan.island && *patch.plan.island + patch.object->bias() == found->second;
    if (!is_island && !has_room_for_trampoline(plan, i)) continue;
    patch.plan.trampoline = trampoline_at(found->second, patch, memory);
    if (is_island && patch.plan.trampoline) patch.plan.island = {};
  }
}

}  // namespace pinprick::engine
