#include "base/content_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace pinprick {
namespace {

std::vector<uint8_t> some_bytes(size_t size) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  return bytes;
}

ContentHash hash_of(const HashKey& key, std::span<const uint8_t> bytes) {
  ContentHasher hasher(key);
  hasher.add(bytes);
  return hasher.finish();
}

TEST(ContentHash, DoesNotDependOnHowContentsAreSplitIntoCalls) {
  const HashKey key = HashKey::random();
  const auto bytes = some_bytes(5000);
  const ContentHash whole = hash_of(key, bytes);
  for (size_t step : {1, 7, 1023, 1024, 1025, 4096}) {
    ContentHasher hasher(key);
    for (size_t at = 0; at < bytes.size(); at += step)
      hasher.add(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
    EXPECT_EQ(hasher.finish(), whole) << step;
  }
}

TEST(ContentHash, DiffersWithEachBitAndEachLength) {
  const HashKey key = HashKey::random();
  auto bytes = some_bytes(1100);
  std::set<ContentHash> seen = {hash_of(key, bytes)};
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ 1u << bit);
      EXPECT_TRUE(seen.insert(hash_of(key, bytes)).second) << at;
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ 1u << bit);
    }
  std::set<ContentHash> of_zeros;
  const std::vector<uint8_t> zeros(3000);
  for (size_t size = 0; size <= zeros.size(); ++size)
    EXPECT_TRUE(of_zeros.insert(hash_of(key, std::span(zeros).first(size))).second) << size;
}

// Two pieces that are exchanged: a plain sum of products would not differ.
TEST(ContentHash, DiffersWithTheOrderOfBlocksAndWords) {
  const HashKey key = HashKey::random();
  auto bytes = some_bytes(4096);
  bytes[0] = 99;
  const ContentHash before = hash_of(key, bytes);
  for (size_t distance : {8, 16, 64, 1024}) {
    auto swapped = bytes;
    std::swap_ranges(swapped.begin(), swapped.begin() + 8,
                     swapped.begin() + static_cast<ptrdiff_t>(distance));
    ASSERT_NE(swapped, bytes);
    EXPECT_NE(hash_of(key, swapped), before) << distance;
  }
}

TEST(ContentHash, DiffersWithTheKey) {
  const auto bytes = some_bytes(100);
  EXPECT_NE(hash_of(HashKey::random(), bytes), hash_of(HashKey::random(), bytes));
}

}  // namespace
}  // namespace pinprick
