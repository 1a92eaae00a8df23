#include "engine/owners/site_sharing.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pinprick::engine {
namespace {

using placement::SitePatch;
using placement::SitePlan;

class SiteSharing {
 public:
  SiteSharing(ArmingPlan& plan, const OtherSites& others, const target::Memory& memory)
      : plan_(plan), set_(plan.set), others_(others), memory_(memory) {}

  bool fits_in(size_t patch);
  // Why it does not.
  plan::Reason why_not(size_t patch) const {
    if (is_needed_by_program(set_.patches[patch])) return plan::Reason::probed_by_program;
    return is_left_by_threads(set_.patches[patch]) ? plan::Reason::thread_inside
                                                   : plan::Reason::neighbour;
  }
  void drop_unneeded_dependencies();

 private:
  std::vector<const OtherSite*> in(Range own, const SitePatch& patch) const {
    const uint64_t bias = patch.object->bias();
    return others_.in({own.begin + bias, own.end + bias});
  }
  bool is_needed_by_program(const SitePatch& patch) const;
  bool is_left_by_threads(const SitePatch& patch) const;
  bool has_free_trampoline(const SitePatch& patch) const;
  bool share(size_t patch, const OtherSite& other);
  std::optional<const OtherSite*> find_head(const OtherSite& other, image::Object& object,
                                            OptionalIndex& depends_on);
  bool take_window(size_t patch, const OtherSite& other);
  std::optional<size_t> dependency_at(const OtherSite& window, image::Object& object);
  std::optional<size_t> add_dependency(const OtherSite& window, image::Object& object);

  ArmingPlan& plan_;
  placement::ProbeSet& set_;
  const OtherSites& others_;
  const target::Memory& memory_;
  // The first patch at a site, of those before `indexed_`.
  std::unordered_map<Address, size_t> patch_at_;
  size_t indexed_ = 0;
};

// Of those that touch the same bytes: what has to be shared, or is in the way.
std::vector<const OtherSite*> apart(const std::vector<const OtherSite*>& touching) {
  std::vector<const OtherSite*> at_site;
  for (const OtherSite* one : touching) {
    const bool is_known =
        std::any_of(touching.begin(), touching.end(), [&](const OtherSite* other) {
          // Trampolines that lie in a window, after its jump, go with that; and all that share a
          // trampoline have the same jump to it.
          const bool lies_in = one->entry.displaced == 0 &&
                               other->entry.end() <= one->entry.address &&
                               other->touched().contains(one->touched());
          const bool is_same = one->leads_on && other->leads_on && other < one &&
                               other->entry.address == one->entry.address;
          return lies_in || is_same;
        });
    if (!is_known) at_site.push_back(one);
  }
  return at_site;
}

bool SiteSharing::is_needed_by_program(const SitePatch& patch) const {
  const uint64_t bias = patch.object->bias();
  const auto needs = [&](Range own) {
    return others_.program().needs_any_of({own.begin + bias, own.end + bias});
  };
  const auto& trampoline = patch.plan.trampoline;
  return needs(patch.plan.claimed()) ||
         (trampoline && needs({trampoline->address, trampoline->address + trampoline->length}));
}

bool SiteSharing::is_left_by_threads(const SitePatch& patch) const {
  const uint64_t bias = patch.object->bias();
  const Range own = patch.plan.claimed();
  const auto& trampoline = patch.plan.trampoline;
  const auto continue_in = [&](Address begin, Address end) {
    return others_.may_continue_inside({begin + bias, end + bias});
  };
  return continue_in(own.begin, own.end) ||
         (trampoline && continue_in(trampoline->address, trampoline->address + trampoline->length));
}

// False: something of another session, or of the program, is where the patch would be.
bool SiteSharing::fits_in(size_t patch) {
  if (is_needed_by_program(set_.patches[patch])) return false;
  const SitePlan& plan = set_.patches[patch].plan;
  if (is_left_by_threads(set_.patches[patch])) return false;
  const auto at_site = apart(in(plan.claimed(), set_.patches[patch]));
  if (at_site.size() == 1 && share(patch, *at_site[0])) return true;
  if (!at_site.empty()) return false;
  return has_free_trampoline(set_.patches[patch]);
}

bool SiteSharing::has_free_trampoline(const SitePatch& patch) const {
  const SitePlan& plan = patch.plan;
  const bool dependency_is_shared = plan.depends_on && plan_.shared.contains(*plan.depends_on);
  if (!plan.trampoline) return !dependency_is_shared;
  const Address begin = plan.trampoline->address;
  auto there = in({begin, begin + plan.trampoline->length}, patch);
  if (dependency_is_shared) {
    // The window there may be shorter than the one that was planned as room for the trampoline, and
    // its jump longer: the stub returns to the window's end.
    const plan::Window& window = set_.patches[*plan.depends_on].plan.patch;
    if (begin < window.site + window.written ||
        begin + plan.trampoline->length > window.site + window.displaced)
      return false;
  }
  // The bytes of a window that we share may be used by any patch that depends on it.
  std::erase_if(there, [&](const OtherSite* other) {
    return dependency_is_shared && other->entry.address == set_.patches[*plan.depends_on].site();
  });
  return there.empty();
}

// Windows that were planned as room for trampolines alone, where others' trampolines are used.
void SiteSharing::drop_unneeded_dependencies() {
  std::vector<bool> needed(set_.patches.size());
  for (const SitePatch& patch : set_.patches)
    if (patch.plan.depends_on) needed[*patch.plan.depends_on] = true;
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (!needed[i] && set_.patches[i].probes.empty() && !set_.patches[i].hook &&
        !set_.patches[i].plan.ends_calls() && !plan_.shared.contains(i))
      plan_.in_the_way.emplace(i, plan::Reason::neighbour);
}

// The site whose jump leads to the stub: `other`, or its trampoline; null: it is not there. Without
// a value the trampoline lies in a window that we cannot share. `depends_on`: our patch there.
std::optional<const OtherSite*> SiteSharing::find_head(const OtherSite& other,
                                                       image::Object& object,
                                                       OptionalIndex& depends_on) {
  if (!other.leads_on) return &other;
  const Address trampoline = other.entry.target();
  const OtherSite* head = nullptr;
  for (const OtherSite* there : others_.in({trampoline, trampoline + arch::kJumpLength}))
    if (there->entry.address == trampoline && there->entry.displaced == 0)
      head = there;
    else if (const auto found = dependency_at(*there, object))
      depends_on = *found;
    else
      return std::nullopt;
  return head;
}

// With the window and the trampoline that are there already: the instructions are displaced for
// all by the last stub, and where one jump stays, all stay that it needs.
bool SiteSharing::share(size_t patch, const OtherSite& other) {
  image::Object& object = *set_.patches[patch].object;
  for (size_t i : set_.patches[patch].probes)
    if (set_.probes[i].offset != 0) return false;
  // An end among the others' copies would not be seen.
  SitePlan& planned = set_.patches[patch].plan;
  if (planned.has_inner_end() && planned.timing == placement::CallTiming::by_exits)
    planned.time_by_slots();
  if (planned.has_inner_end()) return false;
  OptionalIndex depends_on;
  const OtherSite* const head = find_head(other, object, depends_on).value_or(nullptr);
  SitePlan& plan = set_.patches[patch].plan;  // which may have moved
  if (head == nullptr || !head->is_shareable || (plan.ends_calls() && head != &other) ||
      !take_window(patch, other))
    return false;
  plan.trampoline = {};
  plan.depends_on = depends_on;
  if (head != &other) {
    plan::Trampoline trampoline;
    trampoline.address = head->entry.address - object.bias();
    trampoline.length = head->entry.length;
    std::copy_n(head->entry.original, head->entry.length, trampoline.original.begin());
    plan.trampoline = trampoline;
  }
  plan_.shared[patch] = others_.position_for(memory_, *head, plan_.times_at(patch));
  return true;
}

// False: ours is another kind of patch, or was planned for other bytes.
bool SiteSharing::take_window(size_t patch, const OtherSite& other) {
  SitePatch& ours = set_.patches[patch];
  plan::Window& window = ours.plan.patch;
  if (other.entry.address != ours.site() || ours.plan.island || ours.plan.ends_in_next_jump ||
      ours.plan.is_pun() || other.entry.own != other.entry.length)
    return false;
  window.written = other.entry.length;
  window.displaced = other.entry.displaced;
  window.tactic = static_cast<plan::Tactic>(other.entry.tactic);
  window.at_start = other.entry.at_start;
  // No thread is under the jump that is there. But one may be where a trampoline of ours is to be.
  ours.plan.boundaries_end = std::min(ours.plan.boundaries_end, window.displaced);
  return std::equal(other.entry.original, other.entry.original + other.entry.own,
                    ours.original().begin());
}

// Our patch at the site of the window that a trampoline lies in; makes one if there is none.
std::optional<size_t> SiteSharing::dependency_at(const OtherSite& window, image::Object& object) {
  for (; indexed_ < set_.patches.size(); ++indexed_)
    patch_at_.emplace(set_.patches[indexed_].site(), indexed_);
  const Address at = window.entry.address;  // nothing can refer to a packed member
  const auto found = patch_at_.find(at);
  if (found == patch_at_.end()) return add_dependency(window, object);
  return plan_.shared.contains(found->second) ? std::optional(found->second) : std::nullopt;
}

std::optional<size_t> SiteSharing::add_dependency(const OtherSite& window, image::Object& object) {
  if (!window.is_shareable) return std::nullopt;
  SitePatch depends_on;
  depends_on.object = &object;
  depends_on.plan.patch.site = window.entry.address - object.bias();
  depends_on.plan.patch.written = window.entry.length;
  depends_on.plan.patch.displaced = window.entry.displaced;
  depends_on.probes = {set_.probes.size(), 0};
  const size_t index = set_.patches.size();
  set_.patches.push_back(std::move(depends_on));
  if (share(index, window)) return index;
  set_.patches.pop_back();
  return std::nullopt;
}

}  // namespace

void share_sites(ArmingPlan& plan, const OtherSites& others, const target::Memory& memory) {
  if (others.empty() && !others.program().is_there()) return;
  SiteSharing sharing(plan, others, memory);
  // Dependencies before what lies in their windows.
  const size_t count = plan.set.patches.size();
  for (const bool dependents : {false, true})
    for (size_t i = 0; i < count; ++i)
      if (static_cast<bool>(plan.set.patches[i].plan.depends_on) == dependents &&
          !sharing.fits_in(i))
        plan.in_the_way.emplace(i, sharing.why_not(i));
  sharing.drop_unneeded_dependencies();
}

}  // namespace pinprick::engine
