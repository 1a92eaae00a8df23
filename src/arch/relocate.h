// Moves one instruction to another address so that it does exactly what it did before.
//
// "Exactly" includes what other code can see: a moved call pushes the return address of the
// original, a moved syscall leaves the original's next address in rcx. What cannot be moved exactly
// is refused. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/assembler.h"
#include "arch/code.h"

namespace pinprick::arch {

enum class Displaceable : uint8_t {
  yes,
  undecodable,  // a full decode rejects it (invalid lock prefix, reserved encodings)
  privileged,   // faults in user space: a handler of that fault would see its address
  inexact,      // far branches, software interrupts, operand-size prefixed branches, eip-relative
};

Displaceable displaceable(std::span<const uint8_t> bytes, const Instruction& instruction);

// Appends the moved instruction. `instruction` was decoded from `bytes` and is displaceable.
// code.settle() tells whether everything is within reach of the new address. An instruction that
// does not fall through leaves the copy; all others end at code.here().
//
// If the copy has several instructions, a Between is added for each but the first.
struct Between {
  enum class Original : uint8_t {
    to_come,
    over,  // the original has had its effect; if it is a branch, it is not taken
  };
  Address at = 0;
  Original original = Original::to_come;
  int8_t words = 0;  // pushed in the copy, but not yet by the original
};
void relocate(Assembler& code, std::span<const uint8_t> bytes, const Instruction& instruction,
              std::vector<Between>* between = nullptr);

}  // namespace pinprick::arch
