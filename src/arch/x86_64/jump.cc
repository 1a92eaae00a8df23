#include "arch/jump.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "arch/assembler.h"

namespace pinprick::arch {

std::optional<std::vector<uint8_t>> encode_jump(Address from, Address to) {
  Assembler code(from);
  code.jmp(to);
  return code.finish();
}

std::optional<std::vector<uint8_t>> encode_short_jump(Address from, Address to) {
  Assembler code(from);
  code.jmp_short(to);
  return code.finish();
}

std::optional<std::vector<uint8_t>> encode_indirect_jump(Address from, Address memory) {
  Assembler code(from);
  code.jmp_memory(memory);
  return code.finish();
}

bool is_rex(uint8_t byte) {
  return byte >> 4 == 4;
}

void encode_jump(std::span<uint8_t> bytes, int32_t distance) {
  if (bytes.size() < kJumpLength) {
    assert(bytes.size() == kShortJumpLength);
    bytes[0] = kShortJumpOpcode;
    bytes[1] = static_cast<uint8_t>(distance);
    return;
  }
  const size_t prefixes = bytes.size() - kJumpLength;
  const bool keeps_rex = prefixes > 0 && is_rex(bytes[0]);
  std::fill(bytes.begin() + keeps_rex, bytes.begin() + static_cast<ptrdiff_t>(prefixes),
            kNullPrefix);
  bytes[prefixes] = kJumpOpcode;
  std::memcpy(bytes.data() + prefixes + 1, &distance, sizeof distance);
}

std::optional<int32_t> jump_distance(std::span<const uint8_t> bytes) {
  int32_t distance;
  if (bytes.size() < kJumpLength || bytes.size() > kMaxInstructionLength) return std::nullopt;
  std::memcpy(&distance, bytes.data() + bytes.size() - sizeof distance, sizeof distance);
  uint8_t jump[kMaxInstructionLength] = {};
  encode_jump(std::span(jump).first(bytes.size()), distance);
  return std::equal(bytes.begin(), bytes.end(), jump) ? std::optional(distance) : std::nullopt;
}

// The forms that the processors' manuals recommend.
void fill_with_nops(std::span<uint8_t> bytes) {
  static constexpr uint8_t kNops[][9] = {{0x90},
                                         {0x66, 0x90},
                                         {0x0f, 0x1f, 0x00},
                                         {0x0f, 0x1f, 0x40},
                                         {0x0f, 0x1f, 0x44},
                                         {0x66, 0x0f, 0x1f, 0x44},
                                         {0x0f, 0x1f, 0x80},
                                         {0x0f, 0x1f, 0x84},
                                         {0x66, 0x0f, 0x1f, 0x84}};
  while (!bytes.empty()) {
    const size_t length = std::min(bytes.size(), std::size(kNops));
    std::copy_n(std::begin(kNops[length - 1]), length, bytes.begin());
    bytes = bytes.subspan(length);
  }
}

namespace {
constexpr LinkBytes kNoLink = {0x0f, 0x1f, 0x44, 0x00, 0x00};  // nop
}

std::optional<LinkBytes> encode_link(Address at, Address to) {
  if (to == 0) return kNoLink;
  if (!reaches(at + kLinkLength, to)) return std::nullopt;
  LinkBytes bytes = {};
  encode_jump(bytes, static_cast<int32_t>(to - at - kLinkLength));
  return bytes;
}

std::optional<Address> link_target(Address at, const LinkBytes& bytes) {
  if (bytes == kNoLink) return Address{0};
  const auto distance = jump_distance(bytes);
  if (!distance) return std::nullopt;
  return at + kLinkLength + static_cast<uint64_t>(int64_t{*distance});
}

}  // namespace pinprick::arch
