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

// The bytes of the jump that a probed site gets, kJumpLength of them. Returns nullopt if `to` is
// out of reach.
std::optional<std::vector<uint8_t>> encode_jump(Address from, Address to);
// The same for the short jump, of kShortJumpLength bytes.
std::optional<std::vector<uint8_t>> encode_short_jump(Address from, Address to);

// A jump that has just these bytes: two, or five and more. A longer one has prefixes that mean
// nothing to it. One is the REX prefix with which the bytes begin, if they do: it stays. `distance`
// counts from the jump's end.
void encode_jump(std::span<uint8_t> bytes, int32_t distance);
// The distance of the jump that has just these bytes, five or more, as encode_jump() makes them
// where there was no REX prefix. Returns nullopt if they are anything else.
std::optional<int32_t> jump_distance(std::span<const uint8_t> bytes);
bool is_rex(uint8_t byte);

// The bytes of a jump to the address that lies at `memory`, kIndirectJumpLength of them. Returns
// nullopt if `memory` is out of reach.
std::optional<std::vector<uint8_t>> encode_indirect_jump(Address from, Address memory);

// A link is kLinkLength bytes of a stub where another one's can be led in: a jump to that one, or
// nothing. encode_link: `to` is 0 for nothing; returns nullopt if it is out of reach.
inline constexpr uint8_t kLinkLength = kJumpLength;
using LinkBytes = std::array<uint8_t, kLinkLength>;
std::optional<LinkBytes> encode_link(Address at, Address to);
// Where the link at `at` leads, 0 for nothing. Returns nullopt if the bytes are no link.
std::optional<Address> link_target(Address at, const LinkBytes& bytes);

// Can a 32-bit displacement that ends at `from` reach `to`?
constexpr bool reaches(Address from, Address to) {
  const int64_t distance = static_cast<int64_t>(to - from);
  return distance >= INT32_MIN && distance <= INT32_MAX;
}

}  // namespace pinprick::arch
