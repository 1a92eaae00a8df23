// Decodes the few dozen encodings that make up most of what compilers emit from a table, about ten
// times as fast as the full decoder, which decode() uses for the rest. Whole programs are decoded
// before a probe is placed, while the user waits.
//
// Pure, thread-safe, no allocation. Results must equal those of the full decoder;
// tests/arch/decode_table_test.cc checks this on whole libraries and random bytes.
#pragma once

#include <optional>
#include <span>

#include "arch/code.h"
#include "arch/relocate.h"

namespace pinprick::arch {

// Returns nullopt if the encoding is not in the table, or if it is no instruction at all.
std::optional<Instruction> decode_by_table(std::span<const uint8_t> bytes, Address address);

// decode() and displaceable() without the table: what tests compare the two with.
std::optional<Instruction> decode_without_table(std::span<const uint8_t> bytes, Address address);
Displaceable displaceable_without_table(std::span<const uint8_t> bytes,
                                        const Instruction& instruction);

}  // namespace pinprick::arch
