#include "base/content_hash.h"

#include <sys/random.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

namespace pinprick {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

// a * b modulo the prime, for factors below 2^61 and 2^62.
uint64_t multiply(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  uint64_t sum = (static_cast<uint64_t>(product) & kPrime) + static_cast<uint64_t>(product >> 61);
  sum = (sum & kPrime) + (sum >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

uint64_t load(const uint8_t* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

std::string to_hex(ContentHash hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t word : {hash.high, hash.low})
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15];
  return text;
}

HashKey HashKey::from(std::span<const uint8_t, kBytes> bytes) {
  HashKey key;
  std::memcpy(key.of_block.data(), bytes.data(), sizeof key.of_block);
  for (size_t i = 0; i < key.of_polynomial.size(); ++i)
    key.of_polynomial[i] = load(bytes.data() + sizeof key.of_block + i * sizeof(uint64_t)) % kPrime;
  return key;
}

HashKey HashKey::random() {
  std::array<uint8_t, kBytes> bytes{};
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::getrandom(bytes.data() + done, bytes.size() - done, 0);
    assert(n > 0 || errno == EINTR);
    if (n > 0) done += static_cast<size_t>(n);
  }
  return from(bytes);
}

void ContentHasher::add_to_sums(State& state, uint64_t word) const {
  for (size_t i = 0; i < state.sums.size(); ++i) {
    uint64_t& sum = state.sums[i];
    sum = multiply(sum + word, key_.of_polynomial[i]);
  }
}

void ContentHasher::add_block(State& state, const uint8_t* block) const {
  const auto product = [&](size_t i) {
    return static_cast<Wide>(load(block + 8 * i) + key_.of_block[i]) *
           (load(block + 8 * i + 8) + key_.of_block[i + 1]);
  };
  // Several sums, so that none has to wait for the one before.
  Wide sums[4] = {};
  for (size_t i = 0; i < HashKey::kBlockWords; i += 8)
    for (size_t j = 0; j < 4; ++j) sums[j] += product(i + 2 * j);
  const Wide sum = sums[0] + sums[1] + sums[2] + sums[3];
  // Numbers below the prime, which determine the sum.
  constexpr uint64_t kMask = (uint64_t{1} << 43) - 1;
  add_to_sums(state, static_cast<uint64_t>(sum) & kMask);
  add_to_sums(state, static_cast<uint64_t>(sum >> 43) & kMask);
  add_to_sums(state, static_cast<uint64_t>(sum >> 86));
}

void ContentHasher::add(std::span<const uint8_t> bytes) {
  state_.length += bytes.size();
  if (filled_ != 0) {
    const size_t n = std::min(bytes.size(), kBlock - filled_);
    std::copy_n(bytes.begin(), n, rest_.begin() + static_cast<ptrdiff_t>(filled_));
    filled_ += n;
    bytes = bytes.subspan(n);
    if (filled_ < kBlock) return;
    add_block(state_, rest_.data());
    filled_ = 0;
  }
  while (bytes.size() >= kBlock) {
    add_block(state_, bytes.data());
    bytes = bytes.subspan(kBlock);
  }
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
  filled_ = bytes.size();
}

// The last block is padded with zeros; the length tells how many.
ContentHash ContentHasher::finish() const {
  State state = state_;
  if (filled_ != 0) {
    std::array<uint8_t, kBlock> last{};
    std::copy_n(rest_.begin(), filled_, last.begin());
    add_block(state, last.data());
  }
  add_to_sums(state, state.length & kPrime);
  return {state.sums[0], state.sums[1]};
}

}  // namespace pinprick
