// Moves one instruction to another address so that it does exactly what it did before.
//
// "Exactly" includes what others can see: a moved call pushes the return address of the original, a
// moved syscall leaves the original's next address in rcx. What cannot be had exactly is refused.
// Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/assembler.h"
#include "arch/code.h"

namespace pinprick::arch {

enum class Displaceable : uint8_t {
  yes,
  undecodable,  // a full decode rejects it (lock on what cannot be locked, reserved encodings)
  privileged,   // faults in user space: its address is what a handler would look at
  inexact,      // far branches, software interrupts, operand-size prefixed branches, eip-relative
};

Displaceable displaceable(std::span<const uint8_t> bytes, const Instruction& instruction);

// Appends the moved instruction. `instruction` was decoded from `bytes` and is displaceable;
// whether everything is in reach of the new place shows in code.settle(). An instruction that does
// not fall through leaves the copy; all others end at code.here().
//
// Where the copy is of several instructions, `between` hears where those behind the first begin.
struct Between {
  enum class Original : uint8_t {
    to_come,
    over,  // the original instruction has had its effect, and is not taken
  };
  Address at = 0;
  Original original = Original::to_come;
  int8_t words = 0;  // pushed that the original has not pushed yet
};
void relocate(Assembler& code, std::span<const uint8_t> bytes, const Instruction& instruction,
              std::vector<Between>* between = nullptr);

}  // namespace pinprick::arch
