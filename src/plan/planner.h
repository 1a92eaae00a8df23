// Decides how to place a probe: takes a function's bytes and the branch targets around, and returns
// a Patch or a Refusal. Pure: touches no process, allocates only its result.
//
// What a Patch guarantees, as specified by tests/plan/planner_test.cc:
//   - The displaced bytes are whole instructions that can be moved exactly.
//   - No known branch leads to any overwritten byte but the first. Computed jumps do not either:
//   all
//     of the function's are known, or a compiler has left these bytes to be replaced.
//   - A call among the displaced instructions is the last of them.
//   - Overwritten bytes that are not displaced are padding that is never executed.
//   - The jump lies in one page: a page is written at once, even if the controller dies.
// The writer of a Patch has to check one thing: that no thread is inside the window, or will return
// into it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/code.h"
#include "base/result.h"
#include "base/short_bytes.h"
#include "image/scan/branch_targets.h"
#include "plan/tactic.h"

namespace pinprick::plan {

struct FunctionCode {
  Range range;                     // of the function
  std::span<const uint8_t> bytes;  // from range.begin to the next function or object
  const image::BranchTargets* targets = nullptr;
  std::span<const Range> reserved;  // must not be changed
  Range room = {};     // of the entry site that the compiler left: image/notes/entry_sites.h
  bool is_go = false;  // then probes go only on a stack check: arch/stack_check.h
  // Its language's runtime looks up faults and calls by the addresses of its instructions: probes
  // go only at its start, and displace nothing that can fault or call.
  bool is_managed = false;
  // Its compiler puts tables between its instructions, and nothing says where: the first one alone
  // is certainly an instruction.
  bool has_tables = false;
  // boundaries() of this function, if at hand: with them, planning many of its sites one by one
  // need not decode all of it for each.
  std::span<const Address> boundaries = {};

  Address limit() const { return range.begin + bytes.size(); }
};

// A patch without the bytes that it replaces.
struct Window {
  Address site = 0;
  Tactic tactic = Tactic::insn;
  uint8_t written = 0;    // size of the jump
  uint8_t displaced = 0;  // size of the displaced instructions, from site
  bool at_start = false;  // at the start of its function, whose first bytes other code may read

  Range touched() const { return {site, site + std::max(written, displaced)}; }
};

struct Patch : Window {
  ShortBytes original;  // of touched(); of a pun that ends in the next jump: the displaced bytes

  // Instruction boundaries under the jump, as offsets, without the first: where a thread could be
  // in the middle of the jump.
  ShortBytes boundaries;

  std::span<const uint8_t> displaced_bytes() const { return std::span(original).first(displaced); }
};

// The maximum size of a window.
inline constexpr uint64_t kMaxWindow = 128;

// Returns where a probe on the entry goes: after an endbr64, which stays in place.
Address entry_site(const FunctionCode& function);

// Plans one jump of five bytes at the site itself; function_plan.h has further ways.
Result<Patch, Refusal> plan_site(const FunctionCode& function, Address site);
// The same, if `boundary` is known to be an instruction boundary at or below the site.
Result<Patch, Refusal> plan_site(const FunctionCode& function, Address site, Address boundary);

// Some programs generate code that calls this function. If the function's first byte is that of a
// jump (0xe9), several code generators take the jump's target for the function itself, and their
// code goes there for good. So a jump at a function's entry gets a prefix, which does not change
// it, if one more byte is available: by the same tactic, and without displacing a call or a system
// call that the shorter jump leaves in place. Returns nullopt if that is not possible.
std::optional<Patch> with_prefix(const FunctionCode& function, const Window& patch);

// Like plan_site(), for a jump of `jump_length` bytes at the boundary `begin` that displaces all
// instructions up to at least `end`.
Result<Patch, Refusal> displace(const FunctionCode& function, Address begin, Address end,
                                uint8_t jump_length);

// Returns the patch for a breakpoint: one byte, over the first instruction of `patch`.
Patch under_breakpoint(const Patch& patch);

// Returns the instruction boundaries from the function's start on, as far as it can be decoded: the
// address of each instruction, and the end of the last.
std::vector<Address> boundaries(const FunctionCode& function);
// Returns whether an instruction starts there. Returns false in code that signal handlers return
// to.
bool is_boundary(const FunctionCode& function, Address site);
// Appends to `known`, which is not empty, the boundaries after its last one, up to at least `end`.
// Returns false if decoding ends before.
bool extend_boundaries(const FunctionCode& function, Address end, std::vector<Address>& known);

// Returns the instruction at an address of the function or of the padding after it.
std::optional<arch::Instruction> instruction_at(const FunctionCode& function, Address at);

// Returns nullopt if the instruction can be executed elsewhere exactly.
std::optional<Reason> why_not_displaceable(const FunctionCode& function,
                                           const arch::Instruction& instruction);

// Returns whether a block of instructions is known to start there, even after an instruction that
// does not fall through. Data may also lie there: but then its address is taken, as a callee's is,
// while a block is reached only by jumps.
bool starts_block(const FunctionCode& function, Address at);

// Returns the end of the padding that starts at `at`, but at most `needed`: nops and int3 after an
// instruction that does not fall through; between functions also zeros.
Address padding_end(const FunctionCode& function, Address at, Address needed);

}  // namespace pinprick::plan
