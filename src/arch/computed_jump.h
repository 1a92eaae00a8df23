// Jumps that compute their target instead of looking it up: into one of several code blocks of the
// same size, as assembly lays them out for copying with each possible alignment. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/address.h"

namespace pinprick::arch {

// A jump to `base` plus any multiple of `stride`, a power of two.
struct ComputedJump {
  Address base = 0;
  uint64_t stride = 0;
  bool only_up = false;  // never below `base`

  bool operator==(const ComputedJump&) const = default;
};

// Returns the computed jump that ends this straight-line code, which lies at `address`, ends with a
// jump to a register and is entered only at its first instruction. Returns nullopt if the code does
// not show how the target is computed.
std::optional<ComputedJump> computed_jump(std::span<const uint8_t> code, Address address);

// Does the instruction compute a sum in the register that the jump after it jumps to?
bool jumps_to_sum(std::span<const uint8_t> sum, std::span<const uint8_t> jump);

}  // namespace pinprick::arch
