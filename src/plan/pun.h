// A pun: a jump of which only the first bytes are written. The rest of its distance consists of the
// bytes that follow, unchanged. So its target cannot be chosen, except for the lower bytes of the
// distance if the instruction is long enough to hold them. An island, which jumps to the stub, is
// put at the target, in memory that is mapped for it. If the target is not free, prefixes that do
// not change the jump shift the distance by a byte each.
//
//     before   c3 | 31 c0 e9 65 94              ret; xor %eax,%eax; jmp ...
//     after    e9 | 31 c0 e9 65 94              jmp site + 5 + 0x65e9c031; the rest as it was
//
// A pun needs one byte, whatever follows, jumps into it, or returns to it. Why every thread is safe
// at each step:
//   - The island is there before the text is written, and stays as long as a thread may be in it.
//   - Only bytes of a single instruction change, in a single page, while all threads are stopped.
//     No thread can be stopped inside an instruction. If code is known to branch into the
//     instruction (some jumps over a lock prefix), its bytes from there on are left unchanged.
//   - The bytes after it do not change: a thread that reaches them by any path, even in another
//     page, runs the original code.
//   - Nothing else may change these bytes either while the jump is there. No other patch of ours
//     touches them (they are part of Patch::touched). The pun is not written if they differ from
//     the plan, like all bytes of a patch, nor if one of them is a breakpoint, which its owner
//     would remove at some point. As under every jump of ours, a debugger's breakpoint that is
//     placed later would change the jump.
//
// Where no such jump leads to free memory, the next instruction can make room. It gets a jump of
// its own, of five bytes, to another island. The bytes after the site are then different ones, and
// all of them but the first can be chosen.
//
//     before   c3 | 48 89 f8 48 01 f0           ret; mov %rdi,%rax; add %rsi,%rax
//     after    e9 | e9 d0 d1 d2 d3 f0           jmp site + 5 + 0x[d2 d1 d0 e9]; jmp far away
//
// That jump is written first and removed last (PlannedPatch::ends_in_next_jump). In between, even
// if the controller dies, either site is unchanged or leads where it should. Only bytes of the
// first instruction are written with the first jump, so each page holds a correct program at any
// time.
//
// If only the first byte of an instruction lies in its page, and is a REX prefix, it is kept, since
// it does not change a jump. All bytes that change then lie in the next page.
//
// The idea is from Duck, Gao, Roychoudhury: Binary Rewriting without Control Flow Recovery (PLDI
// 2020), section 3, where it is called T1 and T2. Pure, like the planner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "plan/function_plan.h"

namespace pinprick::plan {

// Size of an island: an indirect jump, since not every stub is within reach of it, and the address
// that it jumps to.
inline constexpr uint64_t kIslandSize = arch::kIndirectJumpLength + sizeof(Address);

// Maximum number of prefixes, so that a jump is no longer than a SiteEntry has room for.
inline constexpr uint8_t kMostPrefixes = 3;
inline constexpr uint8_t kLongestPun = arch::kJumpLength + kMostPrefixes;

// Possible targets of a jump: `count` ranges of `width` addresses, one every `step`. They are
// addresses of the object, and may be below its 0.
struct Candidates {
  Address first = 0;
  uint64_t width = 1;
  uint64_t step = 1;
  uint64_t count = 1;
  // By code generators (with_prefix()): then the island may have to stay.
  bool is_followed = false;

  bool contains(Address address) const {
    const uint64_t distance = address - first;
    return distance - std::min(distance / step, count - 1) * step < width;
  }
};

// Takes and returns an address among the candidates at which kIslandSize bytes are available;
// nullopt if there is none.
using TakeIsland = std::function<std::optional<Address>(const Candidates&)>;

// Plans a pun. `site` is an instruction boundary, but not that of an endbr64 at the entry. `text`
// goes from the site to the end of the segment. `is_free` returns whether no patch has claimed
// these bytes. Returns nullopt if there is none.
std::optional<PlannedPatch> plan_pun(const FunctionCode& function, Address site,
                                     std::span<const uint8_t> text,
                                     const std::function<bool(Range)>& is_free,
                                     const TakeIsland& take);

// A pun that depends on the jump of the next instruction.
struct EvictingPun {
  PlannedPatch pun;    // ends in the jump of the next instruction
  Address island = 0;  // target of that jump
};

// Plans such a pun, for a next instruction that has, or will get, a jump of five bytes. `give_back`
// undoes `take`. Returns nullopt if there is none.
std::optional<EvictingPun> plan_evicting_pun(const FunctionCode& function, Address site,
                                             const std::function<bool(Range)>& is_free,
                                             const TakeIsland& take,
                                             const std::function<void(Address)>& give_back);

}  // namespace pinprick::plan
