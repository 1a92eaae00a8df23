#include "plan/planner.h"

#include <algorithm>
#include <optional>

#include "arch/faults.h"
#include "arch/jump.h"
#include "arch/relocate.h"
#include "arch/stack_check.h"

namespace pinprick::plan {
namespace {

using arch::Instruction;
using arch::kJumpLength;
using arch::Special;

std::span<const uint8_t> bytes_at(const FunctionCode& function, Address at) {
  return function.bytes.subspan(at - function.range.begin);
}

// Decoding from a boundary, and therefore from the function's start, must arrive at the site.
std::optional<Refusal> prove_boundary(const FunctionCode& function, Address boundary,
                                      Address site) {
  if (!function.range.contains(site)) return Refusal{Reason::outside, site};
  for (Address at = boundary; at != site;) {
    const auto instruction = instruction_at(function, at);
    if (!instruction) return Refusal{Reason::undecodable, at};
    at = instruction->end();
    if (at > site) return Refusal{Reason::mid_instruction, site};
  }
  return std::nullopt;
}

Tactic tactic_of(bool only_nops, size_t instructions, bool padded) {
  if (padded) return Tactic::pad;
  if (only_nops) return Tactic::nop;
  return instructions == 1 ? Tactic::insn : Tactic::window;
}

}  // namespace

std::optional<Instruction> instruction_at(const FunctionCode& function, Address at) {
  if (at < function.range.begin || at >= function.limit()) return std::nullopt;
  return arch::decode(bytes_at(function, at), at);
}

std::optional<Reason> why_not_displaceable(const FunctionCode& function,
                                           const Instruction& instruction) {
  if (instruction.special == Special::int3) return Reason::foreign_breakpoint;
  if (function.is_managed &&
      (instruction.is_call() || arch::can_fault(bytes_at(function, instruction.address))))
    return Reason::runtime_reads_code;
  switch (arch::displaceable(bytes_at(function, instruction.address), instruction)) {
    case arch::Displaceable::yes:
      return std::nullopt;
    case arch::Displaceable::undecodable:
      return Reason::undecodable;
    case arch::Displaceable::privileged:
      return Reason::privileged;
    case arch::Displaceable::inexact:
      return Reason::inexact;
  }
  return Reason::undecodable;
}

std::vector<Address> boundaries(const FunctionCode& function) {
  std::vector<Address> all = {function.range.begin};
  extend_boundaries(function, function.range.end, all);
  return all;
}

bool is_boundary(const FunctionCode& function, Address site) {
  auto known = function.boundaries;
  std::vector<Address> decoded;
  if (known.empty()) known = decoded = boundaries(function);
  return std::binary_search(known.begin(), known.end(), site) &&
         !arch::is_signal_restorer(function.bytes);
}

bool extend_boundaries(const FunctionCode& function, Address end, std::vector<Address>& known) {
  while (known.back() < std::min(end, function.range.end)) {
    const auto instruction = instruction_at(function, known.back());
    if (!instruction || instruction->end() > function.range.end) return false;
    known.push_back(instruction->end());
  }
  return true;
}

bool starts_block(const FunctionCode& function, Address at) {
  return at == function.range.begin ||
         (function.targets->contains(at) && !function.targets->is_callee(at));
}

// Zeros may be padding, or the beginning of a constant. As padding, they are followed by nothing
// else.
static bool is_padding_to_limit(const FunctionCode& function, Address at) {
  while (at < function.limit()) {
    const auto instruction = instruction_at(function, at);
    const bool is_filler = instruction && (instruction->special == Special::nop ||
                                           instruction->special == Special::int3);
    if (!is_filler && bytes_at(function, at)[0] != 0) return false;
    at = is_filler ? instruction->end() : at + 1;
  }
  return true;
}

Address padding_end(const FunctionCode& function, Address at, Address needed) {
  while (at < needed) {
    const auto instruction = instruction_at(function, at);
    if (instruction &&
        (instruction->special == Special::nop || instruction->special == Special::int3)) {
      at = instruction->end();
    } else if (at >= function.range.end && at < function.limit() &&
               bytes_at(function, at)[0] == 0 && is_padding_to_limit(function, at)) {
      ++at;
    } else {
      break;
    }
  }
  return std::min(at, function.limit());
}

Address entry_site(const FunctionCode& function) {
  const auto first = instruction_at(function, function.range.begin);
  const bool marked =
      first && first->special == Special::landing_pad && function.range.contains(first->end());
  return marked ? first->end() : function.range.begin;
}

Result<Patch, Refusal> plan_site(const FunctionCode& function, Address site) {
  return plan_site(function, site, function.range.begin);
}

Result<Patch, Refusal> plan_site(const FunctionCode& function, Address site, Address boundary) {
  if (function.bytes.empty()) return fail(Refusal{Reason::unreadable, site});
  if (site == function.range.begin) site = entry_site(function);
  if (auto refusal = prove_boundary(function, boundary, site)) return fail(*refusal);
  if (arch::is_signal_restorer(function.bytes)) return fail(Refusal{Reason::reserved, site});
  return displace(function, site, site + 1, kJumpLength);
}

Result<Patch, Refusal> displace(const FunctionCode& function, Address begin, Address end,
                                uint8_t jump_length) {
  const auto refuse = [](Reason reason, Address where) { return fail(Refusal{reason, where}); };
  Patch patch;
  patch.site = begin;
  patch.at_start = begin == function.range.begin;
  const Address jump_end = begin + jump_length;
  const Address needed = std::max(end, jump_end);
  if (needed > begin + kMaxWindow) return refuse(Reason::too_short, begin);
  if (begin != entry_site(function)) {
    if (function.is_managed) return refuse(Reason::runtime_reads_code, begin);
    if (function.has_tables) return refuse(Reason::tables_inside, begin);
  }
  bool only_nops = true;
  bool padded = false;
  size_t instructions = 0;
  Address at = begin;
  while (at < needed) {
    const auto instruction = instruction_at(function, at);
    if (!instruction) return refuse(Reason::undecodable, at);
    if (instruction->end() > function.range.end)
      return refuse(instructions == 0 ? Reason::undecodable : Reason::too_short, at);
    if (auto reason = why_not_displaceable(function, *instruction)) return refuse(*reason, at);
    if (at != begin && at < jump_end) patch.boundaries.push_back(static_cast<uint8_t>(at - begin));
    ++instructions;
    only_nops = only_nops && instruction->special == Special::nop;
    at = instruction->end();
    if (at >= needed) break;
    if (instruction->is_call()) return refuse(Reason::call_inside, at);
    if (!instruction->falls_through()) {
      if (at < end) return refuse(Reason::too_short, at);
      if (padding_end(function, at, needed) < needed) return refuse(Reason::too_short, at);
      padded = true;
      break;
    }
    if (at == function.range.end) return refuse(Reason::too_short, at);
  }

  const Address touched_end = std::max(at, jump_end);
  patch.written = jump_length;
  patch.displaced = static_cast<uint8_t>(at - begin);
  // An XRay sled is a jump over nops.
  const bool is_left_for_us = function.room.contains(Range{begin, touched_end});
  patch.tactic = is_left_for_us ? Tactic::nop : tactic_of(only_nops, instructions, padded);

  for (Range reserved : function.reserved)
    if (reserved.overlaps({begin, touched_end})) return refuse(Reason::reserved, reserved.begin);
  // Some code jumps over a lock prefix, into a single instruction. If it arrives after the jump, it
  // runs unchanged bytes.
  const Address closed_end = instructions == 1 ? jump_end : touched_end;
  if (function.targets->any_in(begin + 1, closed_end)) return refuse(Reason::branch_inside, begin);
  const bool needs_control_flow = (instructions > 1 || padded) && !is_left_for_us;
  if (needs_control_flow && function.targets->has_unresolved_jump(function.range.begin))
    return refuse(Reason::indirect_jumps, begin);
  if (align_down(begin, kPageSize) != align_down(jump_end - 1, kPageSize))
    return refuse(Reason::page_edge, begin);

  if (function.is_go &&
      arch::displaced_of_stack_check(bytes_at(function, begin)) != patch.displaced)
    return refuse(Reason::goroutine, begin);

  const auto original = bytes_at(function, begin).first(touched_end - begin);
  patch.original.assign(original.begin(), original.end());
  return patch;
}

std::optional<Patch> with_prefix(const FunctionCode& function, const Window& patch) {
  if (!patch.at_start || patch.written != kJumpLength) return std::nullopt;
  auto longer = displace(function, patch.site, patch.site + patch.displaced, kJumpLength + 1);
  if (!longer || longer->tactic != patch.tactic) return std::nullopt;
  for (Address at = patch.site + patch.displaced; at < patch.site + longer->displaced;) {
    const auto instruction = instruction_at(function, at);
    if (instruction->is_call() || instruction->special == Special::syscall) return std::nullopt;
    at = instruction->end();
  }
  return *std::move(longer);
}

Patch under_breakpoint(const Patch& patch) {
  Patch one;
  one.site = patch.site;
  one.written = 1;
  one.displaced = arch::decode(patch.displaced_bytes(), patch.site)->length;
  one.original.assign(patch.original.begin(), patch.original.begin() + one.displaced);
  return one;
}

}  // namespace pinprick::plan
