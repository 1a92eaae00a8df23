// Probes on several instructions of one function, planned together.
//
// Where one jump of five bytes at the site will not do (planner.h), there is more:
//   - sites that lie close to each other share one window, whose instructions run in one stub with
//     the probes between them;
//   - a window may begin before the site, as long as nobody comes in between;
//   - two bytes are enough for a short jump to a trampoline: five bytes within its reach that hold
//     the long jump. Trampolines lie in padding, or where a window's own instructions were.
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

// Where the long jump lies that a short one leads to.
struct Trampoline {
  Address address = 0;
  uint8_t length = arch::kJumpLength;  // longer by a prefix: what an earlier session left
  std::array<uint8_t, arch::kJumpLength + 1> original{};
};

// Of a PlannedPatch, or what somebody keeps of one.
//
// Does it lead nowhere but to its island?
template <class Planned>
bool is_pun(const Planned& planned) {
  return planned.ends_in_next_jump || planned.patch.tactic == Tactic::pun;
}
// Bytes of the jump that are its own to write.
template <class Planned>
uint8_t own_bytes(const Planned& planned) {
  return planned.ends_in_next_jump ? planned.patch.displaced : planned.patch.written;
}
// Nobody else may change these.
template <class Planned>
Range claimed_by(const Planned& planned) {
  const Window& window = planned.patch;
  return planned.ends_in_next_jump ? Range{window.site, window.site + window.displaced}
                                   : window.touched();
}

struct PlannedPatch {
  Patch patch;
  ShortBytes points;  // probed instructions: offsets from patch.site, ascending
  std::optional<Trampoline> trampoline;
  // The patch whose window the trampoline lies in: it has to be there first, and stay longer. Its
  // jump and the trampoline lie in the same page.
  std::optional<size_t> depends_on;
  // Of a pun (pun.h), and of the patch that it depends on: where the jump leads, in memory that is
  // yet to be mapped.
  std::optional<Address> island;
  // Of a pun: what its jump ends in are bytes of the next instructionâs jump.
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
  at_site,  // the jump is the first thing that the probed instruction does: return probes
};

// `sites` ascending, each once; the entry means its entry_site().
FunctionPlan plan_function(const FunctionCode& function, std::span<const Address> sites,
                           Placing placing);

// A site that found no room in its own function: a short jump there, and a window nearby that makes
// room for the trampoline.
struct FarHop {
  PlannedPatch hop;  // it depends on the window
  Patch window;
};

// `last`: the last one of the instructions that are to move with it, if they can. `neighbours`:
// other functions around the site. `is_free`: nobody has planned to change these bytes.
std::optional<FarHop> plan_far_hop(const FunctionCode& function, Address site, Address last,
                                   std::span<const FunctionCode> neighbours,
                                   const std::function<bool(Range)>& is_free);
// Where such windows may lie: this far from the site.
inline constexpr uint64_t kFarHop = 160;
// And this far behind it, at most, the last instruction begins that moves with it.
inline constexpr uint64_t kFarHopTail = 16;

// The addresses of a function's instructions, from its entry_site() on, as far as they can be
// decoded; without the padding in front of branch targets, which nobody executes.
std::vector<Address> instructions(const FunctionCode& function);

}  // namespace pinprick::plan
