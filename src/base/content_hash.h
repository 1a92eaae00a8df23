// ContentHash: a keyed hash of contents, by which they are stored and found. It is fast, and
// collisions cannot be provoked.
//
// NH with 64-bit words over blocks of a kilobyte (Black et al., UMAC: Fast and Secure Message
// Authentication, CRYPTO 1999; with these words in VMAC), then two polynomials modulo 2^61 - 1 over
// the blocks' results and the length. For two different contents of up to a terabyte, about one key
// in 2^63 gives the same hash. This also holds for contents that were made to collide, as long as
// their maker knows neither the key nor hashes made with it. So a key stays with the user who made
// it, and hashes are not shown.
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

// Returns 32 digits.
std::string to_hex(ContentHash hash);

struct HashKey {
  static constexpr size_t kBlockWords = 128;
  std::array<uint64_t, kBlockWords> of_block{};
  std::array<uint64_t, 2> of_polynomial{};

  // Any bytes make a key; it should be random bytes.
  static constexpr size_t kBytes = (kBlockWords + 2) * sizeof(uint64_t);
  static HashKey from(std::span<const uint8_t, kBytes> bytes);
  // Random bytes from the kernel.
  static HashKey random();
};

class ContentHasher {
 public:
  // `key` must outlive the hasher.
  explicit ContentHasher(const HashKey& key) : key_(key) {}

  void add(std::span<const uint8_t> bytes);
  void add(uint64_t word) { add({reinterpret_cast<const uint8_t*>(&word), sizeof word}); }
  void add(ContentHash hash) {
    add(hash.high);
    add(hash.low);
  }
  // Returns the hash of everything that was added, however it was split into calls of add().
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
