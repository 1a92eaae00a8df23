// Decides how to place a probe: from a function's bytes and the branch targets around, to a Patch
// or a Refusal. Pure: touches no process, allocates only its result.
//
// What a Patch guarantees, and tests/plan/planner_test.cc specifies:
//   - the displaced bytes are whole instructions that can be moved exactly;
//   - no known branch leads behind the first of the bytes that the jump overwrites;
//   - a call among the displaced instructions is the last of them;
//   - overwritten bytes that are not displaced are padding that nothing executes;
//   - the jump lies in one page: a page is what gets written at once, whoever dies meanwhile.
// What is left to whoever writes it: that no thread stands, or will return to, inside the window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/code.h"
#include "base/result.h"
#include "base/short_bytes.h"
#include "image/branch_targets.h"
#include "plan/tactic.h"

namespace pinprick::plan {

struct FunctionCode {
  Range range;                     // of the function
  std::span<const uint8_t> bytes;  // from range.begin up to where the next thing begins
  const image::BranchTargets* targets = nullptr;
  std::span<const Range> reserved;  // must not be touched
  bool is_go = false;               // then only at a stack check: arch/stack_check.h
  // boundaries() of this function, where they are at hand: whoever plans many of its sites one by
  // one need not decode all of it for each.
  std::span<const Address> boundaries = {};

  Address limit() const { return range.begin + bytes.size(); }
};

// What a patch is, without the bytes that it replaces.
struct Window {
  Address site = 0;
  Tactic tactic = Tactic::insn;
  uint8_t written = 0;    // bytes that the jump overwrites, from site
  uint8_t displaced = 0;  // bytes whose instructions run in the stub, from site
  bool at_begin = false;  // of its function: others may read what stands there

  Range touched() const { return {site, site + std::max(written, displaced)}; }
};

struct Patch : Window {
  ShortBytes original;  // of touched(); of a pun that ends in the next jump, what is displaced

  // Offsets behind the first instruction at which another one began, inside the written bytes:
  // where a thread could stand in the middle of the jump.
  ShortBytes interior;

  std::span<const uint8_t> displaced_bytes() const { return std::span(original).first(displaced); }
};

// No window is longer.
inline constexpr uint64_t kMaxWindow = 128;

// Where a probe on the entry goes: behind an endbr64, which stays in place.
Address entry_site(const FunctionCode& function);

// With one jump of five bytes at the site itself; function_plan.h knows more ways.
Result<Patch, Refusal> plan_site(const FunctionCode& function, Address site);
// The same; `boundary`, an instruction's first address, is known to be one and not above the site.
Result<Patch, Refusal> plan_site(const FunctionCode& function, Address site, Address boundary);

// Some programs generate code that calls this function. If its first byte is that of a jump (0xe9),
// several generators take where that leads for the function itself, and their code goes there for
// good. So a jump at a function's begin has a prefix, which means nothing to the processor, where
// one more byte can be had: by the same tactic, and without taking a call or a system call along
// that the shorter jump leaves in place. Returns nullopt elsewhere.
std::optional<Patch> with_prefix(const FunctionCode& function, const Window& patch);

// As plan_site(), for a jump of `jump_length` bytes at `begin`, an instruction's first address,
// that displaces all instructions up to `end` at least.
Result<Patch, Refusal> displace(const FunctionCode& function, Address begin, Address end,
                                uint8_t jump_length);

// The first instruction of a patch by itself, under a breakpoint of one byte.
Patch under_breakpoint(const Patch& patch);

// Every instruction's first address from the function's begin on, as far as they can be decoded,
// and the end of the last.
std::vector<Address> boundaries(const FunctionCode& function);
// Does one of its instructions begin there? Not in code that signal handlers return to.
bool is_boundary(const FunctionCode& function, Address site);
// Goes on where `known` ends, which is not empty, up to `end` at least; false: there is no more.
bool extend_boundaries(const FunctionCode& function, Address end, std::vector<Address>& known);

// The instruction at an address of the function or of the padding behind it.
std::optional<arch::Instruction> instruction_at(const FunctionCode& function, Address at);

// Nothing: it can be executed elsewhere, exactly.
std::optional<Reason> why_not_displaceable(const FunctionCode& function,
                                           const arch::Instruction& instruction);

// Is what begins there executed, be it behind an instruction that never goes on, as far as is
// known? There may be data, too: then somebody takes its address, as of what is called; nothing but
// jumps leads to a block.
bool begins_block(const FunctionCode& function, Address at);

// Where padding that begins at `at` ends, `needed` at most: nops and int3 behind an instruction
// that never goes on; between functions also zeros.
Address padding_end(const FunctionCode& function, Address at, Address needed);

}  // namespace pinprick::plan
