#include "target/trampoline_space.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

#include "arch/jump.h"

namespace pinprick::target {
namespace {

constexpr Address kSite = 0x5555'5555'5000;
constexpr Address kPointer = kSite - (1 << 20);

std::vector<uint8_t> jump_bytes(Address site, Address to) {
  return *arch::encode_jump(site, to);
}

TEST(TrampolineSpace, MakesEachBoundaryABreakpoint) {
  TrampolineSpace space([](Range) { return true; });
  for (unsigned mask = 1; mask < 16; ++mask) {
    std::vector<uint8_t> boundaries;
    for (uint8_t offset = 1; offset <= 4; ++offset)
      if ((mask >> (offset - 1) & 1) != 0) boundaries.push_back(offset);
    const auto at = space.take(kSite, boundaries, kPointer);
    ASSERT_TRUE(at.has_value()) << mask;
    const auto jump = jump_bytes(kSite, *at);
    EXPECT_EQ(jump[0], 0xe9);
    for (uint8_t offset : boundaries) EXPECT_EQ(jump[offset], 0xcc) << mask;
  }
}

TEST(TrampolineSpace, NeverUsesAByteTwice) {
  TrampolineSpace space([](Range) { return true; });
  std::set<Address> taken;
  constexpr std::array<uint8_t, 2> kBoundaries = {1, 4};
  for (Address site = kSite; site < kSite + 3000; site += 3) {
    const auto at = space.take(site, kBoundaries, kPointer);
    ASSERT_TRUE(at.has_value());
    for (Address byte = *at; byte < *at + arch::kIndirectJumpLength; ++byte)
      EXPECT_TRUE(taken.insert(byte).second);
  }
}

TEST(TrampolineSpace, UsesTheOnlyAddressOnce) {
  TrampolineSpace space([](Range) { return true; });
  constexpr std::array<uint8_t, 4> kAll = {1, 2, 3, 4};
  EXPECT_TRUE(space.take(kSite, kAll, kPointer).has_value());
  EXPECT_FALSE(space.take(kSite, kAll, kPointer).has_value());
}

TEST(TrampolineSpace, TakesOnlyAddressesThatCanBeMapped) {
  std::vector<Range> asked;
  TrampolineSpace space([&](Range range) {
    asked.push_back(range);
    return asked.size() > 1;
  });
  constexpr std::array<uint8_t, 1> kBoundaries = {3};
  const auto at = space.take(kSite, kBoundaries, kPointer);
  ASSERT_TRUE(at.has_value());
  EXPECT_FALSE(asked[0].contains(*at));
}

TEST(TrampolineSpace, HasNothingBelowTheAddressSpace) {
  TrampolineSpace space([](Range) { return true; });
  constexpr std::array<uint8_t, 1> kBoundaries = {4};  // 816 MiB below the site
  EXPECT_FALSE(space.take(0x401000, kBoundaries, 0x400000).has_value());
}

TEST(TrampolineSpace, KeepsThePointerInReach) {
  TrampolineSpace space([](Range) { return true; });
  constexpr std::array<uint8_t, 1> kBoundaries = {1};
  const Address far = kSite - (uint64_t{1} << 31) - 4096;
  const auto at = space.take(kSite, kBoundaries, far);
  ASSERT_TRUE(at.has_value());
  EXPECT_TRUE(arch::reaches(*at + arch::kIndirectJumpLength, far));
}

}  // namespace
}  // namespace pinprick::target
