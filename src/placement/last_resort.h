// The last resorts for sites where no jump fits within their own function: a hop through another
// function's bytes, for blocks of two to four bytes, as compilers put between others what they
// think is rarely executed; and puns, jumps to memory of our own that need no space.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "image/object.h"
#include "placement/island_space.h"
#include "plan/function_plan.h"

namespace pinprick::placement {

// The bytes that patches of one object claim. Fast if most are added by ascending address.
class Taken {
 public:
  void add(Range range) { add(range, kNone); }
  // Adds a plan::PlannedPatch, or a SitePlan; long_jump_at() returns its `index`.
  template <class Planned>
  void add(const Planned& planned, size_t index) {
    const bool has_long_jump = planned.patch.written == arch::kJumpLength;
    add(planned.claimed(), has_long_jump ? static_cast<uint32_t>(index) : kNone);
    if (planned.trampoline && !planned.depends_on)
      add({planned.trampoline->address, planned.trampoline->address + arch::kJumpLength});
  }
  // Adds a range that another owner has changed.
  void add_of_others(Range range) { of_others_.push_back(range); }
  // Sets whether is_free() returns false for ranges of other owners.
  void heed_others(bool heeds) { heeds_others_ = heeds; }
  bool is_free(Range range) const;
  // The patch that has its own long jump there, directly to its stub.
  std::optional<size_t> long_jump_at(Address site) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Claim {
    uint32_t size = 0;
    uint32_t long_jump = kNone;
    void merge(const Claim& other) {
      size = std::max(size, other.size);
      if (other.long_jump != kNone) long_jump = other.long_jump;
    }
  };
  void add(Range range, uint32_t long_jump);
  // By address; none overlaps another.
  std::vector<std::pair<Address, Claim>> ascending_;
  std::map<Address, Claim> others_;
  std::vector<Range> of_others_;
  bool heeds_others_ = true;
};

// What is done about a site at which a jump was refused.
struct LastResort {
  plan::PlannedPatch patch;  // at the site
  // The patch that it depends on: the window of a hop, or the patch of the next instruction, whose
  // jump the pun ends in. It has no probes.
  std::optional<plan::PlannedPatch> needed;
  // The next instruction has this patch already (Taken's index), which gets `needed`'s island.
  std::optional<size_t> there;
};

// Can there be a last resort where a jump was refused for this reason?
bool may_have_last_resort(plan::Reason reason);

// Looks for a hop through the functions around `function`, then for a pun (plan/pun.h), then for a
// pun that ends in the next instruction's jump. Adds what the first of these that is found changes
// to `taken`, and takes islands from `islands`. `reason` is why a jump was refused, `last` is as in
// plan_far_hop().
std::optional<LastResort> find_last_resort(image::Object& object, const image::Function& function,
                                           Address site, plan::Reason reason, Address last,
                                           Taken& taken, IslandSpace& islands);

}  // namespace pinprick::placement
