// Plans probes on several instructions of one function together.
//
// Where one jump of five bytes at the site does not fit (planner.h), there are more ways:
//   - Sites close to each other share one window: its instructions run in one stub, with the probes
//     between them.
//   - A window may start before the site, if no branch leads in between.
//   - Two bytes are enough for a short jump to a trampoline: five bytes within its reach that hold
//     the long jump. Trampolines lie in padding, or where a window's displaced instructions were.
// Pure, like the planner.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "arch/jump.h"
#include "plan/planner.h"

namespace pinprick::plan {

// Holds the long jump that a short jump leads to.
struct Trampoline {
  Address address = 0;
  uint8_t length = arch::kJumpLength;  // one more with a prefix: what an earlier session left
  std::array<uint8_t, arch::kJumpLength + 1> original{};
};

// The following take a PlannedPatch, or what is kept of one.
//
// Returns whether its jump can lead only to its island.
template <class Planned>
bool is_pun(const Planned& planned) {
  return planned.ends_in_next_jump || planned.patch.tactic == Tactic::pun;
}
// Returns how many bytes of the jump it writes itself.
template <class Planned>
uint8_t own_bytes(const Planned& planned) {
  return planned.ends_in_next_jump ? planned.patch.displaced : planned.patch.written;
}
// Returns the bytes that no other patch may change.
template <class Planned>
Range claimed_by(const Planned& planned) {
  const Window& window = planned.patch;
  return planned.ends_in_next_jump ? Range{window.site, window.site + window.displaced}
                                   : window.touched();
}

struct PlannedPatch {
  Patch patch;
  ShortBytes points;  // probed instructions, as ascending offsets from patch.site
  std::optional<Trampoline> trampoline;
  // The patch that this one depends on: the trampoline lies in its window, so it must be written
  // before and removed after this one. Its jump and the trampoline lie in one page.
  std::optional<size_t> depends_on;
  // For a pun (pun.h), and for the patch that it depends on: the jump's target, in memory that has
  // yet to be mapped.
  std::optional<Address> island;
  // For a pun: its jump ends in bytes of the next instruction's jump.
  bool ends_in_next_jump = false;

  bool is_pun() const { return plan::is_pun(*this); }
  uint8_t own() const { return own_bytes(*this); }
  Range claimed() const { return claimed_by(*this); }
};

struct FunctionPlan {
  std::vector<PlannedPatch> patches;  // by address; those without points only make room
  std::vector<std::pair<Address, Refusal>> refused;
};

enum class Placing : uint8_t {
  anywhere,
  at_site,  // return probes: the window starts at the probed instruction
};

// `sites` are ascending and unique. A function's entry stands for its entry_site().
FunctionPlan plan_function(const FunctionCode& function, std::span<const Address> sites,
                           Placing placing);

// A site without room in its own function: it gets a short jump, and a window nearby makes room for
// the trampoline.
struct FarHop {
  PlannedPatch hop;  // depends on `window`
  Patch window;
};

// Plans a far hop for `site`. If possible it also displaces the instructions after it up to the one
// at `last`. `neighbours` are other functions around the site. `is_free` returns whether no patch
// has claimed these bytes. Returns nullopt if no window has room.
std::optional<FarHop> plan_far_hop(const FunctionCode& function, Address site, Address last,
                                   std::span<const FunctionCode> neighbours,
                                   const std::function<bool(Range)>& is_free);
// Maximum distance of such windows from the site.
inline constexpr uint64_t kFarHop = 160;
// Maximum distance from the site to `last`.
inline constexpr uint64_t kFarHopTail = 16;

// Returns the addresses of a function's instructions, from its entry_site() on, as far as they can
// be decoded; without the padding before branch targets, which is never executed, and without
// constants that the function reads.
std::vector<Address> instructions(const FunctionCode& function);

}  // namespace pinprick::plan
