#include "base/short_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace pinprick {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<uint8_t> ascending(size_t n) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < n; ++i) bytes.push_back(static_cast<uint8_t>(i));
  return bytes;
}

TEST(ShortBytes, KeepBytesThatAreAddedOneByOne) {
  ShortBytes bytes;
  const auto expected = ascending(ShortBytes::kMost);
  for (uint8_t byte : expected) {
    bytes.push_back(byte);
    ASSERT_EQ(bytes.back(), byte);
    ASSERT_EQ(bytes, std::span(expected).first(bytes.size()));
  }
}

TEST(ShortBytes, HaveTheSameBytesAfterCopiesAndMoves) {
  for (size_t size : {0, 1, 15, 16, 200}) {
    const auto expected = ascending(size);
    ShortBytes bytes;
    bytes.assign(expected.begin(), expected.end());
    const ShortBytes copy = bytes;
    bytes.clear();
    EXPECT_THAT(bytes, IsEmpty());
    EXPECT_EQ(copy, expected);
    bytes = copy;
    EXPECT_EQ(bytes, copy);
    const ShortBytes moved = std::move(bytes);
    EXPECT_EQ(moved, expected);
  }
}

TEST(ShortBytes, BecomeFewAndThenManyAgain) {
  ShortBytes bytes = {1, 2, 3};
  EXPECT_THAT(bytes, ElementsAre(1, 2, 3));
  for (size_t size : {40, 7, 16, 15, 0, 100}) {
    const auto expected = ascending(size);
    bytes.assign(expected.begin(), expected.end());
    EXPECT_EQ(bytes, expected);
  }
}

}  // namespace
}  // namespace pinprick
