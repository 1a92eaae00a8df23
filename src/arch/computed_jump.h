// Jumps whose target is computed, and not looked up: among blocks of code of one size, as assembly
// lays them out for copying with each possible alignment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/address.h"

namespace pinprick::arch {

// To `base`, or any multiple of `stride`, a power of two, away from it.
struct ComputedJump {
  Address base = 0;
  uint64_t stride = 0;
  bool only_up = false;  // never below `base`

  bool operator==(const ComputedJump&) const = default;
};

// Of straight code at `address` that ends with a jump to a register and that is entered at its
// first instruction only. Nothing where the code does not say of what its sum is made.
std::optional<ComputedJump> computed_jump(std::span<const uint8_t> code, Address address);

}  // namespace pinprick::arch
