// The jumps that probes write into a program's text, and how far they reach. native.h has their
// lengths.
//
// Pure, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/native.h"
#include "base/address.h"

namespace pinprick::arch {

// Returns the bytes of a jump, kJumpLength of them; nullopt if `to` is out of reach.
std::optional<std::vector<uint8_t>> encode_jump(Address from, Address to);
// The same for a short jump, of kShortJumpLength bytes.
std::optional<std::vector<uint8_t>> encode_short_jump(Address from, Address to);

// Fills `bytes`, two or at least five of them, with one jump. `distance` counts from its end. From
// six bytes on it has prefixes, which do not change it. If `bytes` starts with a REX prefix, that
// prefix is kept as one of them.
void encode_jump(std::span<uint8_t> bytes, int32_t distance);
// Returns the distance of the jump that these bytes, five or more, are. Returns nullopt if they are
// not what encode_jump() writes over bytes that do not start with a REX prefix.
std::optional<int32_t> jump_distance(std::span<const uint8_t> bytes);
bool is_rex(uint8_t byte);

// Returns the bytes of a jump to the address stored at `memory`, kIndirectJumpLength of them;
// nullopt if `memory` is out of reach.
std::optional<std::vector<uint8_t>> encode_indirect_jump(Address from, Address memory);

// Fills these bytes with nops: one, if there are at most nine.
void fill_with_nops(std::span<uint8_t> bytes);

// A link: kLinkLength bytes of a stub through which another session's stub for the same site can be
// chained in. It is a jump to that stub, or a nop. Returns its bytes; nullopt if `to` is out of
// reach. `to` is 0 for a nop.
inline constexpr uint8_t kLinkLength = kJumpLength;
using LinkBytes = std::array<uint8_t, kLinkLength>;
std::optional<LinkBytes> encode_link(Address at, Address to);
// Returns where the link at `at` leads, 0 for a nop; nullopt if the bytes are not a link.
std::optional<Address> link_target(Address at, const LinkBytes& bytes);

// Returns whether a 32-bit displacement that ends at `from` can reach `to`.
constexpr bool reaches(Address from, Address to) {
  const int64_t distance = static_cast<int64_t>(to - from);
  return distance >= INT32_MIN && distance <= INT32_MAX;
}

}  // namespace pinprick::arch
