#include "target/trampoline_space.h"

#include <algorithm>
#include <array>
#include <vector>

#include "arch/jump.h"

namespace pinprick::target {
namespace {

constexpr Address kLowest = 1 << 20;
constexpr Address kProgramEnd = 0x7fff'ffff'f000;

std::vector<uint8_t> all_bytes(uint8_t first) {
  std::vector<uint8_t> all(256);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(first + i);
  return all;
}

// The values that a byte of the distance may have, in the order in which they are tried.
std::vector<uint8_t> values(std::span<const uint8_t> boundaries, size_t byte) {
  if (std::find(boundaries.begin(), boundaries.end(), byte + 1) != boundaries.end())
    return {arch::kBreakpoint};
  auto all = all_bytes(0);
  // The distance's sign is in its last byte: addresses below the site first, nearest first, since
  // above an executable its heap grows.
  if (byte == 3)
    for (size_t i = 0; i < 128; ++i) {
      all[i] = static_cast<uint8_t>(0xff - i);
      all[128 + i] = static_cast<uint8_t>(i);
    }
  return all;
}

}  // namespace

TrampolineSpace::Chunk* TrampolineSpace::chunk(Address at) {
  const Address begin = align_down(at, kChunk);
  auto [found, is_new] = chunks_.try_emplace(begin);
  if (is_new && begin >= kLowest && begin + kChunk <= kProgramEnd && map_({begin, begin + kChunk}))
    found->second = std::make_unique<Chunk>();
  return found->second.get();
}

bool TrampolineSpace::is_free(Address at) {
  for (Address byte = at; byte < at + arch::kIndirectJumpLength; ++byte) {
    const Chunk* const of = chunk(byte);
    if (of == nullptr || of->used[byte % kChunk]) return false;
  }
  return true;
}

std::optional<Address> TrampolineSpace::take(Address site, std::span<const uint8_t> boundaries,
                                             Address pointer) {
  const std::array<std::vector<uint8_t>, 4> bytes = {values(boundaries, 0), values(boundaries, 1),
                                                     values(boundaries, 2), values(boundaries, 3)};
  for (uint8_t byte3 : bytes[3])
    for (uint8_t byte2 : bytes[2])
      for (uint8_t byte1 : bytes[1]) {
        const auto with = [&](uint8_t byte0) {
          const uint32_t distance = byte0 | byte1 << 8 | byte2 << 16 | uint32_t{byte3} << 24;
          return site + arch::kJumpLength +
                 static_cast<uint64_t>(int64_t{static_cast<int32_t>(distance)});
        };
        if (chunk(with(bytes[0].front())) == nullptr) continue;
        for (uint8_t byte0 : bytes[0]) {
          const Address at = with(byte0);
          if (!arch::reaches(at + arch::kIndirectJumpLength, pointer) || !is_free(at)) continue;
          for (Address byte = at; byte < at + arch::kIndirectJumpLength; ++byte)
            chunk(byte)->used.set(byte % kChunk);
          return at;
        }
      }
  return std::nullopt;
}

}  // namespace pinprick::target
