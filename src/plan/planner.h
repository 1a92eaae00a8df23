// Decides how to place a probe: from a function's bytes and the branch targets around, to a Patch
// or a Refusal. Pure: touches no process, allocates only its result.
//
// What a Patch guarantees, and tests/plan/planner_test.cc specifies:
//   - the displaced bytes are whole instructions that can be moved exactly;
//   - no known branch leads behind the first of the bytes that the jump overwrites;
//   - a call among the displaced instructions is the last of them;
//   - overwritten bytes that are not displaced are padding that nothing executes.
// What is left to whoever writes it: that no thread stands, or will return to, inside the window.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/x86_64/decode.h"
#include "base/result.h"
#include "image/branch_targets.h"
#include "plan/tactic.h"

namespace pinprick::plan {

struct FunctionCode {
  Range range;                     // of the function
  std::span<const uint8_t> bytes;  // from range.begin up to where the next thing begins
  const image::BranchTargets* targets = nullptr;
  std::span<const Range> reserved;  // must not be touched

  Address limit() const { return range.begin + bytes.size(); }
};

struct Patch {
  Tactic tactic = Tactic::insn;
  Address site = 0;
  uint8_t written = 0;    // bytes that the jump overwrites, from site
  uint8_t displaced = 0;  // bytes whose instructions run in the stub, from site
  std::array<uint8_t, 2 * arch::kMaxInstructionLength> original{};  // max(written, displaced)

  // Offsets behind the first instruction at which another one began, inside the written bytes:
  // where a thread could stand in the middle of the jump.
  std::vector<uint8_t> interior;

  std::span<const uint8_t> displaced_bytes() const { return std::span(original).first(displaced); }
};

// Where a probe on the entry goes: behind an endbr64, which stays in place.
Address entry_site(const FunctionCode& function);

Result<Patch, Refusal> plan_site(const FunctionCode& function, Address site);

}  // namespace pinprick::plan
