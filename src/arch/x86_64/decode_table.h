// The few dozen encodings that make up most of what compilers emit, decoded from a table: some ten
// times as fast as the decoder that knows all of them, which decode() asks for the rest. Whole
// programs are decoded before a probe goes in, and the user waits for it.
//
// Pure, thread-safe, no allocation. Has to say exactly what the other one says, which
// tests/arch/decode_table_test.cc holds it to over whole libraries and random bytes.
#pragma once

#include <optional>
#include <span>

#include "arch/x86_64/decode.h"

namespace pinprick::arch {

// Nothing: not one of those, or no instruction at all.
std::optional<Instruction> decode_by_table(std::span<const uint8_t> bytes, Address address);

}  // namespace pinprick::arch
