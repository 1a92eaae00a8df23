// A jump of which only the first bytes are written: the rest of its distance are the bytes that
// follow, as they are. So where it leads is not ours to choose, but for the lower bytes of the
// distance, if the instruction has them; and there a trampoline is put, in memory that is mapped
// for it. Where that is not free, a prefix that means nothing moves the distance on by a byte.
//
//     before   c3 | 31 c0 e9 65 94              ret; xor %eax,%eax; jmp ...
//     after    e9 | 31 c0 e9 65 94              jmp site + 5 + 0x65e9c031; the rest as it was
//
// Needs one byte, whatever follows, jumps into it, or returns to it. Why every thread is safe, at
// each step:
//   - The trampoline is there before the text is written, and as long as anybody stands at it.
//   - Bytes of a single instruction change, in a single page, while all threads stand still. No
//     thread can stand in the midst of an instruction; and where somebody is known to come there
//     from elsewhere (some code jumps over a lock prefix), it is left as it is from there on.
//   - The bytes behind do not change: who executes them, however he came there, and be it in
//     another page, executes what he would have without us.
//   - They are not to be changed by others either, as long as the jump is there: no patch of ours
//     touches them (they are part of Patch::touched), they are not written where they are not as
//     planned, as all that a patch says was there before, and none of them is a breakpoint, which
//     its owner would take out some time. As under every jump of ours, a debugger's breakpoint that
//     comes later would make the jump another one.
//
// Where no such jump leads to free memory, the instruction behind makes room for it: under a jump
// of its own, of five bytes, which leads by a trampoline too, the bytes that follow are others,
// and all of them but the first can be chosen.
//
//     before   c3 | 48 89 f8 48 01 f0           ret; mov %rdi,%rax; add %rsi,%rax
//     after    e9 | e9 d0 d1 d2 d3 f0           jmp site + 5 + 0x[d2 d1 d0 e9]; jmp far away
//
// That jump is there first, and stays longer (PlannedPatch::ends_in_next_jump); between the two,
// and whoever dies meanwhile, either site is as it was or leads where it should. Only bytes of the
// first instruction are written with the first jump, so each page holds a correct program at any
// time.
//
// An instruction of which one byte lies in its page keeps that byte where it is a REX prefix, which
// means nothing to a jump: all that changes lies in the next page.
//
// Duck, Gao, Roychoudhury: Binary Rewriting without Control Flow Recovery (PLDI 2020), section 3,
// has the idea, and calls them T1 and T2. Pure, like the planner.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "plan/function_plan.h"

namespace pinprick::plan {

// Bytes of a trampoline: an indirect jump, since from there not every stub is in reach, and the
// address that it goes to.
inline constexpr uint64_t kIslandSize = arch::kIndirectJumpLength + sizeof(Address);

// No jump has more prefixes, so that none is longer than what a journal has room for.
inline constexpr uint8_t kMostPrefixes = 3;
inline constexpr uint8_t kLongestPun = arch::kJumpLength + kMostPrefixes;

// Where a jump may lead: `count` ranges of `width` addresses, one every `step`. In the object's own
// addresses, which may be below its 0.
struct Candidates {
  Address first = 0;
  uint64_t width = 1;
  uint64_t step = 1;
  uint64_t count = 1;
};

// An address of those at which kIslandSize bytes can be had; it is taken.
using TakeIsland = std::function<std::optional<Address>(const Candidates&)>;

// `site`: an instruction's, and not an endbr64 at the entry. `text`: from there on, as far as the
// segment goes. `is_free`: nobody has planned to change these bytes.
std::optional<PlannedPatch> plan_pun(const FunctionCode& function, Address site,
                                     std::span<const uint8_t> text,
                                     const std::function<bool(Range)>& is_free,
                                     const TakeIsland& take);

// A pun that relies on the jump of the next instruction.
struct EvictingPun {
  PlannedPatch pun;    // it ends in the jump of the next instruction
  Address island = 0;  // where that one is to lead
};

// The next instruction is, or will be, under a jump of five bytes. `give_back`: what was taken.
std::optional<EvictingPun> plan_evicting_pun(const FunctionCode& function, Address site,
                                             const std::function<bool(Range)>& is_free,
                                             const TakeIsland& take,
                                             const std::function<void(Address)>& give_back);

}  // namespace pinprick::plan
