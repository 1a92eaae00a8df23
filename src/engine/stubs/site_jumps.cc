#include "engine/stubs/site_jumps.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "arch/jump.h"
#include "engine/memory/kept_memory.h"
#include "engine/owners/shared_sites.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::SiteEntry;
using placement::SitePatch;
using placement::SitePlan;

template <class T>
bool fits(Address from, Address to) {
  const auto distance = static_cast<int64_t>(to - from);
  return distance == static_cast<T>(distance);
}

// Makes the site's jump lead there. False: it is out of reach.
bool lead(SiteEntry& from, Address to) {
  from.jump = static_cast<int32_t>(to - from.end());
  return from.length == arch::kShortJumpLength ? fits<int8_t>(from.end(), to)
                                               : fits<int32_t>(from.end(), to);
}

// Notes where the stub has the copies. False: out of reach.
bool note_copy(SiteEntry& site, const arch::Stub& stub) {
  if (!fits<int32_t>(site.address, stub.copy)) return false;
  site.copy_distance = static_cast<int32_t>(stub.copy - site.address);
  return true;
}

class PatchJumps {
 public:
  PatchJumps(const ArmingPlan& plan, layout::Session& journal, size_t patch)
      : plan_(plan),
        journal_(journal),
        number_(patch),
        patch_(plan.set.patches[patch]),
        site_(journal.sites[plan.states[patch].site]) {}

  bool note(const arch::Stub& stub);

 private:
  SiteEntry& trampoline() { return journal_.sites[plan_.states[number_].site + 1]; }
  // Where the jump at the site leads to come to the stub; 0: there is no way.
  Address way_to(const arch::Stub& stub);
  bool can_be_led_in() const;
  bool ends_as_others_say() const;

  const ArmingPlan& plan_;
  layout::Session& journal_;
  size_t number_;
  const SitePatch& patch_;
  SiteEntry& site_;
};

Address PatchJumps::way_to(const arch::Stub& stub) {
  if (patch_.plan.island) {
    const Address island = island_of(journal_, patch_);
    if (island == 0 && !patch_.plan.is_pun()) return stub.begin;
    return island;
  }
  if (!patch_.plan.trampoline) return stub.begin;
  if (lead(trampoline(), stub.begin)) return trampoline().address;
  // Where ours is out of its reach, a kept one stays as it is.
  const bool is_kept_stub = patch_.plan.trampoline->length == kKeptJumpLength;
  return is_kept_stub && lead(trampoline(), site_.address) ? stub.begin : 0;
}

// Of a site that others have, too.
bool PatchJumps::can_be_led_in() const {
  const auto shared = plan_.shared.find(number_);
  return shared == plan_.shared.end() ||
         OtherSites::arming(head_of(journal_, site_), shared->second).has_value();
}

// Does a pun's jump end in the bytes that are, or will be, there?
bool PatchJumps::ends_as_others_say() const {
  std::array<uint8_t, layout::kMaxSiteLength> jump, others;
  std::copy_n(site_.original, jump.size(), jump.begin());
  arch::encode_jump(std::span(jump).first(site_.length), site_.jump);
  const SitePlan& planned = patch_.plan;
  const auto own = std::min(planned.patch.written, planned.patch.displaced);
  if (planned.ends_in_next_jump) {
    const SitePatch& depends_on = plan_.set.patches[*planned.depends_on];
    const Address island = island_of(journal_, depends_on);
    if (island == 0) return false;
    arch::encode_jump(std::span(others).first(arch::kJumpLength),
                      static_cast<int32_t>(island - depends_on.site() - arch::kJumpLength));
  } else {
    std::copy(site_.original + own, site_.original + site_.length, others.begin());
  }
  return std::equal(jump.begin() + own, jump.begin() + site_.length, others.begin());
}

bool PatchJumps::note(const arch::Stub& stub) {
  const Address to = way_to(stub);
  if (to == 0 || !lead(site_, to) || !note_copy(site_, stub)) return false;
  if (patch_.plan.trampoline && !note_copy(trampoline(), stub)) return false;
  return can_be_led_in() && (!patch_.plan.is_pun() || ends_as_others_say());
}

}  // namespace

Address island_of(const layout::Session& journal, const SitePatch& patch) {
  const Address island = *patch.plan.island + patch.object->bias();
  const bool is_mapped =
      std::any_of(journal.mappings.begin(), journal.mappings.end(), [&](const MappingEntry& entry) {
        return entry.kind == MappingEntry::Kind::islands && island - entry.address < entry.size;
      });
  return is_mapped ? island : 0;
}

bool note_jumps(const ArmingPlan& plan, layout::Session& journal, size_t patch,
                const arch::Stub& stub) {
  return PatchJumps(plan, journal, patch).note(stub);
}

void forget_jumps(const ArmingPlan& plan, layout::Session& journal, size_t patch) {
  SiteEntry& site = journal.sites[plan.states[patch].site];
  site.jump = site.copy_distance = 0;
}

void note_probes(const ArmingPlan& plan, layout::Session& journal, size_t patch,
                 const arch::Stub& stub) {
  const auto from_copy = [&](Address at) { return static_cast<int32_t>(at - stub.copy); };
  const IndexRange& probes = plan.set.patches[patch].probes;
  OptionalIndex first_timed;
  for (size_t i : probes) {
    const auto offset = static_cast<uint8_t>(plan.set.probes[i].offset);
    // One measurement of a call serves all probes that time it, and has one switch.
    size_t turned = i;
    if (plan.set.times_call(plan.set.probes[i])) {
      if (!first_timed) first_timed = i;
      turned = *first_timed;
    }
    for (const arch::Copy& copy : stub.copies)
      if (copy.window_offset == offset) journal.probes[i].copy_offset = copy.offset;
    for (const arch::Switch& one : stub.switches)
      if (one.offset == offset && probes.first + one.probe == turned)
        journal.switches[i] = {.at = from_copy(one.at), .past = from_copy(one.past)};
  }
}

}  // namespace pinprick::engine
