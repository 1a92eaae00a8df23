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

// Can a hop help where a jump was refused for this reason?
bool may_have_hop(plan::Reason reason);

// Looks for a hop through the functions around `function`, and adds what it changes to `taken`.
// `last` is as in plan_far_hop().
std::optional<plan::FarHop> find_far_hop(image::Object& object, const image::Function& function,
                                         Address site, Address last, Taken& taken);

// The same for puns (plan/pun.h), whose islands are taken from `islands`.
bool may_have_pun(plan::Reason reason);
std::optional<plan::PlannedPatch> find_pun(image::Object& object, const image::Function& function,
                                           Address site, Taken& taken, IslandSpace& islands);

// The same for puns that end in the next instruction's jump.
struct Eviction {
  plan::PlannedPatch pun;
  // The patch of the next instruction if there is one; otherwise `next` is a new one, without
  // probes.
  std::optional<size_t> there;
  plan::PlannedPatch next;  // its island is where the next instruction's jump leads in either case
};
std::optional<Eviction> find_evicting_pun(image::Object& object, const image::Function& function,
                                          Address site, Taken& taken, IslandSpace& islands);

}  // namespace pinprick::placement
