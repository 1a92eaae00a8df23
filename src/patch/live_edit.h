// Changes the text of our own process while its threads run. For one thread at a time.
//
// Bytes before and after, for `push %rbp; mov %rsp,%rbp; ...`, with | between instructions:
//
//     before   55 | 48 89 e5 | 48 ...
//     step 1   cc | cc 89 e5 | cc ...        each boundary under the jump
//     step 2   cc   cc 12 34   cc            the rest of the jump's bytes
//     step 3   e9   cc 12 34   cc            jmp stub
//
// After each step a membarrier makes every thread of the process fetch its instructions anew:
// instructions fetched before are executed or dropped before the next step starts. The stub's
// address is chosen so that the jump has 0xcc at the boundaries (target/trampoline_space.h). Every
// thread is safe, wherever it is:
//
//   - A thread at the site executes the first instruction, the breakpoint, or the jump. The
//     breakpoint's signal handler sends it to the stub. It never executes a mixture: while the
//     first byte is the old one, so are all bytes of its instruction, since step 2 comes after a
//     barrier; and when it becomes that of the jump, all other bytes of the jump are there, by the
//     barrier before step 3.
//   - A thread between two displaced instructions (it was preempted there, waits in the kernel, or
//     returns from a signal handler) executes the whole old instruction as long as the first byte
//     of that is the old one. Otherwise it hits a breakpoint, and is sent to the copy of the
//     instruction. That breakpoint is part of the jump and stays as long as the jump, so the thread
//     may arrive at any time.
//   - No thread can be stopped inside an instruction.
//   - A thread in the stub is safe because stubs stay, whatever happens at the site.
//
// Removing: in step 1 the first byte becomes a breakpoint, in step 2 the bytes that are no boundary
// get their old values, in step 3 the boundaries and the first byte do. In step 3 a thread finds at
// each boundary either the whole old instruction or a breakpoint that sends it to the copy,
// whatever the order of the writes.
//
// A jump can also become a breakpoint that stays, and a breakpoint a jump. Then the first byte is a
// breakpoint in all three steps of removing, and in the first two of placing; the rest is as above.
// Meanwhile the breakpoint leads to one of two stubs: one that displaces the first instruction only
// or one that displaces all that the jump does, whichever was named last. Either is right at any
// time, since the first one continues at the next instruction, which is the old one, or at a
// breakpoint that leads to its copy.
//
// A jump can be replaced by another one in the steps of placing, since the boundaries are
// breakpoints already. A site of one byte gets a breakpoint in step 1 and loses it in step 3.
//
// While a debugger traces the process, it would take these breakpoints for its own. If the process
// has only one thread, which is the one that changes the text, it does without them. Each edit is
// then one write of all its bytes (Order::at_once):
//
//     before   55 | 48 89 e5 | 48 ...
//     after    e9   cc 12 34   cc            and back
//
//   - No other thread executes the text: the process has none, and no other process shares its
//     memory (target::is_only_thread()).
//   - The thread itself is in the kernel while it writes. If the debugger stops it, it does so
//     before or after the write. Its signals are blocked, so that no signal handler runs between
//     the check and the last write, which might start a thread. After the last write the thread
//     fetches its instructions anew.
//   - The thread does not return to a boundary. No call returns to one, as the planner displaces
//     calls only as the last instruction. If a signal interrupted the thread at a boundary and its
//     handler called the library, or if a debugger stopped it there and called a function that
//     did, the caller refuses to place the jump (library/process/own_stack.h).
//   - When a jump is removed, the thread may be anywhere: each boundary gets its whole old
//     instruction back.
//   - Bytes that lie in two pages may get written in the first page only, if the kernel has no
//     memory to copy the second one. Then the first part is put back, before any signal is taken.
//
// With several threads there is no way without breakpoints, not even for a nop. Its bytes cannot
// become those of a jump by one store: no address at which the text is mapped may be stored to, and
// the kernel copies the bytes in an order of its own. And processors make no promise to a
// thread that executes the bytes during a store: it may see a part of it.
//
// A process that is killed or forked between two steps is a correct program: the breakpoints of the
// steps work as long as the signal handler does. Each byte changes by itself from one defined value
// to another, so pages can be written in pieces of any size.
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
  bool to_breakpoint = false;          // removing the jump leaves a breakpoint
  std::array<uint8_t, arch::kJumpLength> original{};
  std::array<uint8_t, arch::kJumpLength> jump{};
  std::span<const uint8_t> boundaries;  // offsets of the instruction boundaries under the jump

  bool is_boundary(size_t offset) const;
};

inline constexpr int kLiveSteps = 3;

struct ByteChange {
  Address address = 0;
  uint8_t value = 0;
  friend bool operator==(const ByteChange&, const ByteChange&) = default;
};

// What one step, 0..2, changes. Pure.
std::vector<ByteChange> placing_step(const LiveEdit& edit, int step);
std::vector<ByteChange> removing_step(const LiveEdit& edit, int step);

// Writes the changes, in any order, and no other bytes: an attached session may change those.
Result<void, SystemError> write_text(const target::Memory& memory, std::vector<ByteChange> changes);

enum class Order : uint8_t {
  in_steps,  // of all edits together, with three barriers in all
  at_once,   // one edit after the other; for an only thread, and for no edit with a breakpoint
};

// Make all edits. An error leaves a correct program, in which some of the edits are made.
Result<void, SystemError> place_live(const target::SelfTarget& self,
                                     std::span<const LiveEdit> edits, Order order);
Result<void, SystemError> remove_live(const target::SelfTarget& self,
                                      std::span<const LiveEdit> edits, Order order);

}  // namespace pinprick::patch
