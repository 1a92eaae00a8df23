// Where a session's memory is to lie, on lists of mappings that no process has.
#include "engine/address_choice.h"

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

}  // namespace
}  // namespace pinprick::engine
