// Where a session's memory is to lie, on lists of mappings that no process has.
#include "engine/memory/address_choice.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

constexpr Address kLowest = 0x10000;
constexpr Range kObject = {0x5555'0000'0000, 0x5555'0010'0000};

image::Mapping mapping(Range range) {
  image::Mapping mapping;
  mapping.range = range;
  return mapping;
}

MemoryNeeds needs() {
  MemoryNeeds needs;
  needs.scratch = 100;
  needs.tables = needs.areas = 5 * kPageSize;
  needs.arenas = {{kObject, 2 * kPageSize}};
  return needs;
}

ChosenAddresses choose(const std::vector<image::Mapping>& maps, const MemoryNeeds& needs) {
  return choose_addresses(target::AddressSpace(maps, kLowest), needs);
}

TEST(AddressChoice, HasWholePagesOfWhichNoneIsTakenTwice) {
  MemoryNeeds all = needs();
  all.runtime = {3 * kPageSize, 2 * kPageSize};
  const auto maps = std::vector{mapping(kObject)};
  const ChosenAddresses chosen = choose(maps, all);
  ASSERT_TRUE(chosen.is_complete);
  std::vector<Range> taken = {kObject};
  for (const MappingEntry& entry : chosen.mappings) {
    EXPECT_NE(entry.address, 0u);
    EXPECT_EQ(entry.address % kPageSize, 0u);
    EXPECT_EQ(entry.size % kPageSize, 0u);
    const Range range = {entry.address, entry.address + entry.size};
    for (const Range other : taken) EXPECT_FALSE(range.overlaps(other));
    taken.push_back(range);
  }
  EXPECT_EQ(taken.size(), 7u);
  EXPECT_FALSE(is_any_taken(chosen.mappings, maps));
}

// A jump with a breakpoint as its last byte leads there, and nowhere else: libpinprick needs that.
TEST(AddressChoice, LeavesRoomForJumpsThatEndInABreakpoint) {
  MemoryNeeds all = needs();
  all.runtime = {uint64_t{40} << 20, uint64_t{20} << 20};
  const Range leads_to = {kObject.begin + 5 - 0x3400'0000, kObject.end + 5 - 0x3300'0000};
  for (uint64_t variation = 0; variation < 1000; ++variation) {
    const target::AddressSpace space({mapping(kObject)}, kLowest,
                                     variation * 0x9e37'79b9'7f4a'7c15);
    for (const MappingEntry& entry : choose_addresses(space, all).mappings) {
      const Range range = {entry.address, entry.address + entry.size};
      EXPECT_FALSE(range.overlaps({leads_to.begin, leads_to.end - kPageSize})) << variation;
    }
  }
}

TEST(AddressChoice, PutsTheRuntimesCodeRightAfterItsData) {
  MemoryNeeds all = needs();
  all.runtime = {3 * kPageSize, 2 * kPageSize};
  const ChosenAddresses chosen = choose({mapping(kObject)}, all);
  ASSERT_EQ(chosen.mappings.size(), 6u);
  EXPECT_EQ(chosen.mappings[3].kind, MappingEntry::Kind::runtime_data);
  EXPECT_EQ(chosen.mappings[4].kind, MappingEntry::Kind::runtime_code);
  EXPECT_EQ(chosen.runtime, chosen.mappings[3].address);
  EXPECT_EQ(chosen.mappings[4].address, chosen.runtime + 3 * kPageSize);
}

TEST(AddressChoice, IsIncompleteWhereNothingIsFreeWithinReachOfAnObject) {
  const Range around = {kObject.begin - (uint64_t{4} << 30), kObject.end + (uint64_t{4} << 30)};
  const ChosenAddresses chosen = choose({mapping(around)}, needs());
  EXPECT_FALSE(chosen.is_complete);
  EXPECT_EQ(chosen.arenas.at(0), 0u);
  EXPECT_NE(chosen.mappings.at(0).address, 0u) << "the scratch page may be anywhere";
}

TEST(AddressChoice, LeavesOutIslandsWhosePagesAreTaken) {
  MemoryNeeds all = needs();
  const Range free = {0x7000'0000, 0x7000'1000}, taken = {0x7100'0000, 0x7100'1000};
  all.islands = {free, taken};
  const ChosenAddresses chosen = choose({mapping(taken), mapping(kObject)}, all);
  EXPECT_TRUE(chosen.is_complete);
  ASSERT_EQ(chosen.mappings.size(), 6u);
  EXPECT_EQ(chosen.mappings[4].address, free.begin);
  EXPECT_EQ(chosen.mappings[5].address, 0u);
}

TEST(AddressChoice, SeesThatTheProgramHasMappedSomethingThere) {
  const ChosenAddresses chosen = choose({mapping(kObject)}, needs());
  const MappingEntry& areas = chosen.mappings.at(2);
  const Address last = areas.address + areas.size - kPageSize;
  EXPECT_TRUE(is_any_taken(chosen.mappings, {mapping({last, last + kPageSize})}));
  EXPECT_FALSE(is_any_taken(chosen.mappings, {mapping({last + kPageSize, last + 2 * kPageSize})}));
}

// Ranges of the chosen mappings but for the scratch page, adjacent ones as one.
std::vector<Range> blocks(const ChosenAddresses& chosen) {
  std::vector<Range> ranges;
  for (const MappingEntry& entry : chosen.mappings)
    if (entry.kind != MappingEntry::Kind::scratch)
      ranges.push_back({entry.address, entry.address + entry.size});
  std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range range : ranges) {
    if (!joined.empty() && joined.back().end == range.begin)
      joined.back().end = range.end;
    else
      joined.push_back(range);
  }
  return joined;
}

TEST(AddressChoice, PutsTheMemoryOfObjectsThatLieCloseTogetherSideBySide) {
  MemoryNeeds all = needs();
  all.runtime = {3 * kPageSize, 2 * kPageSize};
  const Range close = {kObject.end + kPageSize, kObject.end + 9 * kPageSize};
  all.arenas.push_back({close, 5 * kPageSize});
  const ChosenAddresses chosen = choose({mapping(kObject), mapping(close)}, all);
  EXPECT_TRUE(chosen.is_complete);
  ASSERT_EQ(blocks(chosen).size(), 1u);
  EXPECT_EQ(blocks(chosen)[0].size(), (5 + 5 + 3 + 2 + 2 + 5) * kPageSize);
}

TEST(AddressChoice, LeavesTheSpaceNearAProgramToItIfMuchIsNeeded) {
  MemoryNeeds all = needs();
  all.areas = uint64_t{1} << 30;
  const ChosenAddresses chosen = choose({mapping(kObject)}, all);
  EXPECT_TRUE(chosen.is_complete);
  EXPECT_EQ(blocks(chosen).size(), 2u) << "the arena, and the tables with the areas";
}

TEST(AddressChoice, PutsEachArenaNearItsOwnObject) {
  constexpr uint64_t kReach = uint64_t{1} << 31;
  MemoryNeeds all = needs();
  const Range far = {0x7fff'0000'0000, 0x7fff'0010'0000};
  const Range less_far = {far.begin - (uint64_t{1} << 30), far.begin - (uint64_t{1} << 30) + 4096};
  all.arenas = {{far, kPageSize}, {kObject, 2 * kPageSize}, {less_far, 3 * kPageSize}};
  const ChosenAddresses chosen = choose({mapping(kObject), mapping(far), mapping(less_far)}, all);
  EXPECT_TRUE(chosen.is_complete);
  ASSERT_EQ(chosen.arenas.size(), 3u);
  for (size_t i = 0; i < all.arenas.size(); ++i) {
    const Address lowest = std::min(chosen.arenas[i], all.arenas[i].object.begin);
    const Address highest =
        std::max(chosen.arenas[i] + all.arenas[i].size, all.arenas[i].object.end);
    EXPECT_LT(highest - lowest, kReach) << i;
  }
}

// As of an object with a pun that leads to a kept stub, nearly as far away as a jump reaches.
TEST(AddressChoice, PutsAnArenaWithinReachOfMoreThanTheObjectIfItCan) {
  constexpr uint64_t kReach = uint64_t{1} << 31;
  const Range stub = {kObject.begin - kReach + 60'000, kObject.begin - kReach + 60'001};
  MemoryNeeds all = needs();
  all.arenas = {{kObject, 2 * kPageSize, {stub.begin, kObject.end}}};
  const Range page = {align_down(stub.begin, kPageSize), align_up(stub.end, kPageSize)};
  const ChosenAddresses chosen = choose({mapping(kObject), mapping(page)}, all);
  ASSERT_TRUE(chosen.is_complete);
  EXPECT_LT(chosen.arenas[0] + 2 * kPageSize - stub.begin, kReach);
  EXPECT_LT(kObject.end - chosen.arenas[0], kReach);

  // Nothing is free between the two: near the object alone.
  const Range full = {page.begin, kObject.end};
  const ChosenAddresses above = choose({mapping(full)}, all);
  ASSERT_TRUE(above.is_complete);
  EXPECT_LT(above.arenas[0] + 2 * kPageSize - kObject.begin, kReach);
}

TEST(AddressChoice, TakesSmallRangesWhereNoneHasRoomForAll) {
  // Two ranges are free, each for two pages and one of each side that stays free.
  const Address first = kObject.end + (uint64_t{1} << 20), second = first + (uint64_t{1} << 20);
  const Range around = {kObject.begin - (uint64_t{4} << 30), first};
  const Range between = {first + 4 * kPageSize, second};
  const Range after = {second + 4 * kPageSize, second + (uint64_t{4} << 30)};
  MemoryNeeds all = needs();
  all.arenas = {{kObject, 2 * kPageSize}, {kObject, 2 * kPageSize}};
  const ChosenAddresses chosen = choose({mapping(around), mapping(between), mapping(after)}, all);
  EXPECT_TRUE(chosen.is_complete);
  std::vector<Address> arenas = chosen.arenas;
  std::sort(arenas.begin(), arenas.end());
  EXPECT_EQ(arenas, (std::vector<Address>{first + kPageSize, second + kPageSize}));
}

}  // namespace
}  // namespace pinprick::engine
