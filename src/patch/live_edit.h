// Changing the text of one's own process while its threads run.
//
// Bytes before and after, for `push %rbp; mov %rsp,%rbp; ...`, where | stands between instructions:
//
//     before   55 | 48 89 e5 | 48 ...
//     step 1   cc | cc 89 e5 | cc ...        each boundary under the jump
//     step 2   cc   cc 12 34   cc            the rest of the jump's bytes
//     step 3   e9   cc 12 34   cc            jmp stub
//
// After each step a membarrier makes every thread of the process fetch its instructions anew: what
// was fetched before the step is executed or dropped before the step is over. The stub is chosen so
// that the bytes of its distance at the boundaries are 0xcc (target/trampoline_space.h). Why every
// thread is safe, wherever it stands:
//
//   - Before the jump, at the site: it executes the first instruction, the breakpoint, or the jump.
//     The breakpoint's signal handler sends it to the stub. No byte sequence is half one and half
//     the other: while the first byte is the old one all bytes of its instruction are, since step 2
//     comes after a barrier; and when it becomes the jump's, all the jump's are there, by the
//     barrier before step 3.
//   - Between two displaced instructions (it was preempted there, waits in the kernel, or comes
//   back
//     from a signal handler): it executes the old instruction, whole, as long as its first byte is
//     the old one, or else meets a breakpoint and is sent on in the copy of the instruction. That
//     breakpoint is part of the jump and stays as long as the jump, so a thread may come as late as
//     it likes.
//   - Inside of an instruction stands nobody.
//   - In the stub: stubs stay, whatever becomes of the site.
//
// Back again: 1 the first byte becomes a breakpoint, 2 the bytes that are no boundary get their old
// values, 3 the boundaries and the first byte do. In step 3 a thread finds at each boundary the
// whole old instruction or a breakpoint that sends it to the copy, in any order.
//
// A jump can also become a breakpoint that stays, and a breakpoint a jump. Then the first byte is
// one in all three steps of removing, and in the first two of placing; everything else is as above.
// In both, the breakpoint leads to a stub that displaces the first instruction only, or to one that
// displaces all that the jump does, whichever was named last: either is right at any time, for what
// the first goes back to is the next instruction, or a breakpoint that leads to its copy.
//
// A site that holds a jump can be given another one in the steps of placing it: the boundaries are
// breakpoints already. A site of one byte gets a breakpoint in step 1 and loses it in step 3.
//
// A process that ends its life between two steps, or is forked there, is a correct program: the
// steps' breakpoints work as long as the signal handler does. A byte is the unit of every change,
// and each byte changes from one defined value to another; so pages can be written in pieces of any
// size.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/jump.h"
#include "base/address.h"
#include "base/result.h"
#include "target/self_target.h"

namespace pinprick::patch {

struct LiveEdit {
  Address site = 0;
  uint8_t length = arch::kJumpLength;  // 1: a breakpoint that stays
  bool to_breakpoint = false;          // removing the jump leaves one
  std::array<uint8_t, arch::kJumpLength> original{};
  std::array<uint8_t, arch::kJumpLength> jump{};
  std::span<const uint8_t> interior;  // offsets of boundaries under the jump

  bool is_boundary(size_t offset) const;
};

inline constexpr int kLiveSteps = 3;

struct ByteChange {
  Address address = 0;
  uint8_t value = 0;
  friend bool operator==(const ByteChange&, const ByteChange&) = default;
};

// What one step changes, 0..2. Pure.
std::vector<ByteChange> placing_step(const LiveEdit& edit, int step);
std::vector<ByteChange> removing_step(const LiveEdit& edit, int step);

// Any order of writes; what lies between close changes is written with the value that it has, since
// nobody else writes text.
Result<void, SystemError> write_text(const target::Memory& memory, std::vector<ByteChange> changes);

// All edits together: three barriers, however many they are. An error leaves a correct program, in
// which some of the edits are done.
Result<void, SystemError> place_live(const target::SelfTarget& self,
                                     std::span<const LiveEdit> edits);
Result<void, SystemError> remove_live(const target::SelfTarget& self,
                                      std::span<const LiveEdit> edits);

}  // namespace pinprick::patch
