// The few dozen encodings that make up most of what compilers emit, decoded from a table: some ten
// times as fast as the decoder that knows all of them, which decode() asks for the rest. Whole
// programs are decoded before a probe goes in, and the user waits for it.
//
// Pure, thread-safe, no allocation. Has to say exactly what the other one says, which
// tests/arch/decode_table_test.cc holds it to over whole libraries and random bytes.
#pragma once

#include <optional>
#include <span>

#include "arch/code.h"
#include "arch/relocate.h"

namespace pinprick::arch {

// Nothing: not one of those, or no instruction at all.
std::optional<Instruction> decode_by_table(std::span<const uint8_t> bytes, Address address);

// decode() and displaceable(), always from the decoder that knows every instruction: what those two
// are tested against.
std::optional<Instruction> decode_without_table(std::span<const uint8_t> bytes, Address address);
Displaceable displaceable_without_table(std::span<const uint8_t> bytes,
                                        const Instruction& instruction);

}  // namespace pinprick::arch
