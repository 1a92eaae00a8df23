// The last resorts of sites that have no room in their own function: room in other functions for
// blocks of two, three or four bytes between others, as compilers put aside what they think is
// rarely executed; and jumps that need no room, to memory of our own.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "image/object.h"
#include "placement/island_space.h"
#include "plan/function_plan.h"

namespace pinprick::placement {

// Bytes that patches of one object claim. Mostly they come by address.
class Taken {
 public:
  void add(Range range) { add(range, kNone); }
  // A plan::PlannedPatch, or what is kept of one. `index`: by which whoever asks knows it.
  template <class Planned>
  void add(const Planned& planned, size_t index) {
    const bool has_long_jump = planned.patch.written == arch::kJumpLength;
    add(planned.claimed(), has_long_jump ? static_cast<uint32_t>(index) : kNone);
    if (planned.trampoline && !planned.depends_on)
      add({planned.trampoline->address, planned.trampoline->address + arch::kJumpLength});
  }
  // By address.
  void add_of_others(Range range) { of_others_.push_back(range); }
  // Is what others have taken not free, either?
  void heed_others(bool heeds) { heeds_others_ = heeds; }
  bool is_free(Range range) const;
  // The patch that has its own long jump there, straight to its stub.
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
  // By begin; none overlaps another.
  std::vector<std::pair<Address, Claim>> ascending_;
  std::map<Address, Claim> others_;
  std::vector<Range> of_others_;
  bool heeds_others_ = true;
};

// Could there be a way around what is in the way of this site's own jump?
bool may_have_hop(plan::Reason reason);

// What it changes is added to `taken`. `last`: as in plan_far_hop().
std::optional<plan::FarHop> find_far_hop(image::Object& object, const image::Function& function,
                                         Address site, Address last, Taken& taken);

// The same for puns (plan/pun.h); where they lead is added to `islands`.
bool may_have_pun(plan::Reason reason);
std::optional<plan::PlannedPatch> find_pun(image::Object& object, const image::Function& function,
                                           Address site, Taken& taken, IslandSpace& islands);

// The same for puns that rely on the next instruction's jump.
struct Eviction {
  plan::PlannedPatch pun;
  // The patch of the next instruction: one that is there, or a new one that has no probes.
  std::optional<size_t> there;
  plan::PlannedPatch next;  // its island is that of the next instruction's jump in either case
};
std::optional<Eviction> find_evicting_pun(image::Object& object, const image::Function& function,
                                          Address site, Taken& taken, IslandSpace& islands);

}  // namespace pinprick::placement
