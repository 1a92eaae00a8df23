#include "target/address_space.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "base/fd.h"

namespace pinprick::target {
namespace {

constexpr Address kLowest = 0x10000;
constexpr Address kTop = 0x7fff'ffff'f000;  // the end of user space
constexpr uint64_t kGigabyte = uint64_t{1} << 30;

std::vector<image::Mapping> mapped(std::initializer_list<Range> ranges) {
  std::vector<image::Mapping> maps;
  for (Range range : ranges) {
    image::Mapping mapping;
    mapping.range = range;
    maps.push_back(mapping);
  }
  return maps;
}

// Does a 32-bit displacement lead from every byte of one range to every byte of the other?
bool in_reach(Range a, Range b) {
  const auto distance = [](Address from, Address to) { return static_cast<int64_t>(to - from); };
  for (Address from : {a.begin, a.end - 1})
    for (Address to : {b.begin, b.end - 1})
      for (int64_t d : {distance(from, to), distance(to, from)})
        if (d < INT32_MIN || d > INT32_MAX) return false;
  return true;
}

class TakeNear : public testing::Test {
 protected:
  // An object in an otherwise empty address space, and other mappings.
  static constexpr Range kObject = {0x5555'5555'4000, 0x5555'5565'4000};

  static void expect_usable(const std::vector<image::Mapping>& maps, std::optional<Address> at,
                            uint64_t size, Range object = kObject) {
    ASSERT_TRUE(at);
    const Range range = {*at, *at + size};
    EXPECT_EQ(*at % kPageSize, 0u);
    EXPECT_TRUE(in_reach(object, range)) << std::hex << *at;
    EXPECT_GE(range.begin, kLowest);
    EXPECT_LE(range.end, kTop);
    for (const auto& mapping : maps) EXPECT_FALSE(mapping.range.overlaps(range)) << std::hex << *at;
  }
};

TEST_F(TakeNear, PrefersRangesBelowTheObjectAndFarFromTheKernelsNextMapping) {
  const auto maps = mapped({kObject});
  AddressSpace space(maps, kLowest);
  const auto at = space.take_near(kObject, 3 * kPageSize);
  expect_usable(maps, at, 3 * kPageSize);
  EXPECT_LT(*at, kObject.begin - kGigabyte / 2);
}

TEST_F(TakeNear, LeavesAGapToNeighbours) {
  const Range below = {kLowest, kObject.begin - 5 * kPageSize};
  const auto maps = mapped({below, kObject});
  AddressSpace space(maps, kLowest);
  const auto inside = space.take_near(kObject, 3 * kPageSize);
  ASSERT_TRUE(inside);
  EXPECT_EQ(*inside, below.end + kPageSize) << "five pages are free: three, and one on each side";
  AddressSpace other(maps, kLowest);
  const auto elsewhere = other.take_near(kObject, 4 * kPageSize);
  expect_usable(maps, elsewhere, 4 * kPageSize);
  EXPECT_GT(*elsewhere, kObject.end);
}

TEST_F(TakeNear, NeverReturnsARangeTwice) {
  const auto maps = mapped({kObject});
  AddressSpace space(maps, kLowest);
  std::vector<Range> taken;
  for (int i = 0; i < 100; ++i) {
    const auto at = space.take_near(kObject, kPageSize + static_cast<uint64_t>(i));
    ASSERT_TRUE(at);
    const Range range = {*at, *at + align_up(kPageSize + static_cast<uint64_t>(i), kPageSize)};
    for (Range other : taken) EXPECT_FALSE(range.overlaps(other));
    taken.push_back(range);
  }
}

TEST_F(TakeNear, GoesFarAboveTheObjectIfNothingBelowIsFree) {
  const Range wall = {kLowest, kObject.begin};
  const auto maps = mapped({wall, kObject});
  AddressSpace space(maps, kLowest);
  const auto at = space.take_near(kObject, kPageSize);
  expect_usable(maps, at, kPageSize);
  EXPECT_GT(*at, kObject.end + kGigabyte) << "the heap grows from the end of the object";
}

TEST_F(TakeNear, FindsNothingIfEverythingInReachIsTaken) {
  const auto maps = mapped({{kObject.begin - 3 * kGigabyte, kObject.begin},
                            kObject,
                            {kObject.end + kPageSize, kObject.end + 3 * kGigabyte}});
  AddressSpace space(maps, kLowest);
  EXPECT_EQ(space.take_near(kObject, kPageSize), std::nullopt);
  EXPECT_NE(space.take_anywhere(kPageSize), std::nullopt);
}

TEST_F(TakeNear, MeasuresReachFromTheFarEndOfTheObject) {
  const Range large = {0x5555'0000'0000, 0x5555'0000'0000 + kGigabyte + kGigabyte / 2};
  // Below, only addresses more than 2 GB from the object's end are free.
  const auto maps = mapped({{large.begin - kGigabyte, large.begin}, large});
  AddressSpace space(maps, kLowest);
  expect_usable(maps, space.take_near(large, kPageSize), kPageSize, large);
}

// A single free page, at each address around the limit of the reach, on either side.
TEST_F(TakeNear, StaysWithinReachAndUsesNearlyAllOfIt) {
  for (const Address limit : {kObject.end - 2 * kGigabyte, kObject.begin + 2 * kGigabyte}) {
    int answered = 0;
    for (int page = -8; page <= 8; ++page) {
      const Address hole = limit + static_cast<uint64_t>(page) * kPageSize;
      const auto maps = mapped({{kLowest, hole - kPageSize}, {hole + 2 * kPageSize, kTop}});
      AddressSpace space(maps, kLowest);
      const auto at = space.take_near(kObject, kPageSize);
      if (!at) continue;
      ++answered;
      EXPECT_EQ(*at, hole);
      EXPECT_TRUE(in_reach(kObject, {*at, *at + kPageSize})) << page;
    }
    EXPECT_GE(answered, 5);
  }
}

TEST_F(TakeNear, LeavesBothSidesOfATakenRangeFree) {
  const Range hole = {kObject.begin - 64 * kPageSize, kObject.begin};
  const auto maps = mapped({{kLowest, hole.begin}, {kObject.begin, kTop}});
  AddressSpace space(maps, kLowest);
  const auto middle = space.take_anywhere(kPageSize);
  ASSERT_TRUE(middle && hole.contains(*middle));
  const auto one = space.take_near(kObject, 20 * kPageSize);
  const auto other = space.take_near(kObject, 20 * kPageSize);
  ASSERT_TRUE(one && other);
  EXPECT_LT(std::min(*one, *other), *middle);
  EXPECT_GT(std::max(*one, *other), *middle);
}

TEST_F(TakeNear, DoesNotReturnARangeThatWasTakenByAddress) {
  AddressSpace space(mapped({kObject}), kLowest);
  const Range page = {kObject.begin - kGigabyte, kObject.begin - kGigabyte + kPageSize};
  EXPECT_FALSE(space.take_at({kObject.begin, kObject.begin + kPageSize}));
  EXPECT_FALSE(space.take_at({kObject.begin - kPageSize, kObject.begin + kPageSize}));
  EXPECT_TRUE(space.take_at(page));
  EXPECT_FALSE(space.take_at(page));
  for (int i = 0; i < 100; ++i) {
    const auto at = space.take_near(kObject, 10 << 20);
    ASSERT_TRUE(at);
    EXPECT_FALSE(page.overlaps({*at, *at + (10 << 20)}));
  }
}

TEST_F(TakeNear, AvoidsAWishedRange) {
  const Range hole = {kObject.begin - 64 * kPageSize, kObject.begin};
  const Range wish = {hole.begin + 30 * kPageSize, hole.begin + 31 * kPageSize};
  AddressSpace space(mapped({{kLowest, hole.begin}, {kObject.begin, kTop}}), kLowest);
  space.wish(wish);
  for (int i = 0; i < 2; ++i) {
    const auto near = space.take_near(kObject, 8 * kPageSize);
    const auto anywhere = space.take_anywhere(8 * kPageSize);
    ASSERT_TRUE(near && anywhere);
    for (Address at : {*near, *anywhere}) EXPECT_FALSE(wish.overlaps({at, at + 8 * kPageSize}));
  }
  EXPECT_TRUE(space.take_at(wish));
}

TEST_F(TakeNear, UsesAWishedRangeAsALastResort) {
  const Range hole = {kObject.begin - 64 * kPageSize, kObject.begin};
  const Range wish = {hole.begin + 31 * kPageSize, hole.begin + 32 * kPageSize};
  const auto maps = mapped({{kLowest, hole.begin}, {kObject.begin, kTop}});
  for (const bool is_near : {true, false}) {
    AddressSpace space(maps, kLowest);
    space.wish(wish);
    const uint64_t size = 40 * kPageSize;
    const auto at = is_near ? space.take_near(kObject, size) : space.take_anywhere(size);
    expect_usable(maps, at, size);
    EXPECT_FALSE(space.take_at(wish)) << "it cannot be elsewhere";
  }
}

TEST_F(TakeNear, FindsNothingForAnObjectLargerThanTheReach) {
  const Range huge = {0x5555'0000'0000, 0x5555'0000'0000 + 3 * kGigabyte};
  AddressSpace space(mapped({huge}), kLowest);
  EXPECT_EQ(space.take_near(huge, kPageSize), std::nullopt);
}

TEST_F(TakeNear, WorksForProgramsAtTheBottomOfMemory) {
  const Range program = {0x40'0000, 0x50'0000};  // not position independent
  const auto maps = mapped({program});
  AddressSpace space(maps, kLowest);
  const auto at = space.take_near(program, 0x10'0000);
  expect_usable(maps, at, 0x10'0000, program);
  const auto large = space.take_near(program, 0x40'0000);
  expect_usable(maps, large, 0x40'0000, program);
  EXPECT_GT(*large, program.end) << "there is not so much below";
}

TEST_F(TakeNear, WorksForLibrariesAtTheTopOfMemory) {
  const Range library = {kTop - 0x10'0000, kTop};
  const auto maps = mapped({library});
  AddressSpace space(maps, kLowest);
  expect_usable(maps, space.take_near(library, kPageSize), kPageSize, library);
}

TEST_F(TakeNear, RefusesAbsurdSizes) {
  AddressSpace space(mapped({kObject}), kLowest);
  for (uint64_t size : {2 * kGigabyte + 1, uint64_t{1} << 47, UINT64_MAX}) {
    EXPECT_EQ(space.take_near(kObject, size), std::nullopt) << size;
    if (size > kTop) {
      EXPECT_EQ(space.take_anywhere(size), std::nullopt) << size;
    }
  }
}

TEST(TakeAnywhere, StaysAwayFromBothEndsOfTheLargestGap) {
  const Range low = {0x40'0000, 0x50'0000};
  const Range high = {0x7f00'0000'0000, 0x7f00'1000'0000};
  AddressSpace space(mapped({low, high}), kLowest);
  const auto at = space.take_anywhere(100);
  ASSERT_TRUE(at);
  EXPECT_EQ(*at % kPageSize, 0u);
  EXPECT_GT(*at, low.end + kGigabyte);
  EXPECT_LT(*at, high.begin - kGigabyte);
  EXPECT_NE(space.take_anywhere(100), at) << "this one is taken";
}

TEST_F(TakeNear, ReturnsAnotherRangeForAnotherVariation) {
  const auto maps = mapped({kObject});
  std::set<Address> near, anywhere;
  for (uint64_t variation = 1; variation <= 1000; ++variation) {
    AddressSpace space(maps, kLowest, variation);
    const auto one = space.take_near(kObject, 3 * kPageSize);
    expect_usable(maps, one, 3 * kPageSize);
    EXPECT_LT(*one, kObject.begin - kGigabyte / 4);
    near.insert(*one);
    const auto other = space.take_anywhere(0x100'0000);
    ASSERT_TRUE(other && *other % kPageSize == 0);
    EXPECT_GT(*other, kLowest + kGigabyte);
    EXPECT_LT(*other, kObject.begin - kGigabyte);
    anywhere.insert(*other);
  }
  EXPECT_GT(near.size(), 990u);
  EXPECT_EQ(anywhere.size(), 1000u);
}

TEST(TakeAnywhere, FindsNothingInAFullAddressSpace) {
  AddressSpace full(mapped({{0, kTop}}), kLowest);
  EXPECT_EQ(full.take_anywhere(kPageSize), std::nullopt);
  AddressSpace tight(mapped({{0, kTop - 2 * kPageSize}}), kLowest);
  EXPECT_EQ(tight.take_anywhere(kPageSize), std::nullopt) << "no room for a gap on each side";
}

TEST(LowestMappableAddress, IsThatOfTheKernelInWholePagesAndNeverTheFirstPage) {
  const Address lowest = lowest_mappable_address();
  EXPECT_GE(lowest, kPageSize);
  EXPECT_EQ(lowest % kPageSize, 0u);
  const auto text = read_file("/proc/sys/vm/mmap_min_addr");
  if (!text) GTEST_SKIP() << "vm.mmap_min_addr cannot be read";
  EXPECT_GE(lowest, std::stoull(*text));
  EXPECT_LT(lowest, std::max<Address>(std::stoull(*text), 1) + kPageSize);
}

}  // namespace
}  // namespace pinprick::target
