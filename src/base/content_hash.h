// A keyed hash of contents, for names by which they are found again: fast, and not to be aimed at.
//
// NH with 64-bit words over blocks of a kilobyte (Black et al., UMAC: Fast and Secure Message
// Authentication, CRYPTO 1999; with these words in VMAC), then two polynomials modulo 2^61 - 1 over
// the blocks' results and the length. For two given contents that differ, up to a terabyte, one key
// in about 2^63 gives the same hash. That holds for contents that somebody has made on purpose as
// well, as long as the maker knows neither the key nor hashes made with it. So a key stays with the
// user who has made it, and nobody is shown a hash.
//
// Pure. A hasher belongs to one thread; a key may be shared.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace pinprick {

struct ContentHash {
  uint64_t high = 0;
  uint64_t low = 0;
  friend constexpr auto operator<=>(ContentHash, ContentHash) = default;
};

// 32 digits.
std::string to_hex(ContentHash hash);

struct HashKey {
  static constexpr size_t kBlockWords = 128;
  std::array<uint64_t, kBlockWords> of_block{};
  std::array<uint64_t, 2> of_polynomial{};

  // Any bytes make a key; random ones make a good one.
  static constexpr size_t kBytes = (kBlockWords + 2) * sizeof(uint64_t);
  static HashKey from(std::span<const uint8_t, kBytes> bytes);
  // From the kernel.
  static HashKey random();
};

class ContentHasher {
 public:
  // `key` outlives the hasher.
  explicit ContentHasher(const HashKey& key) : key_(key) {}

  void add(std::span<const uint8_t> bytes);
  void add(uint64_t word) { add({reinterpret_cast<const uint8_t*>(&word), sizeof word}); }
  void add(ContentHash hash) {
    add(hash.high);
    add(hash.low);
  }
  // Of all that was added; where one call of add() ended and the next began does not matter.
  ContentHash finish() const;

 private:
  static constexpr size_t kBlock = HashKey::kBlockWords * sizeof(uint64_t);
  struct State {
    std::array<uint64_t, 2> sums{};
    uint64_t length = 0;
  };
  void add_block(State& state, const uint8_t* block) const;
  void add_to_sums(State& state, uint64_t word) const;

  const HashKey& key_;
  State state_;
  size_t filled_ = 0;
  alignas(64) std::array<uint8_t, kBlock> rest_{};
};

}  // namespace pinprick
