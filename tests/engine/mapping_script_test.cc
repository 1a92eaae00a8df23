// The calls that map and unmap a session's memory.
#include "engine/memory/mapping_script.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/address.h"
#include "engine/owners/ownership.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using Kind = MappingEntry::Kind;

layout::Session journal() {
  layout::Session journal;
  journal.header.areas_offset = 7 * kPageSize;
  Address next = 0x1000'0000;
  for (const Kind kind : {Kind::scratch, Kind::tables, Kind::areas, Kind::runtime_data,
                          Kind::runtime_code, Kind::stubs, Kind::islands}) {
    journal.mappings.push_back({next, 16 * kPageSize, kind, {}});
    next += 64 * kPageSize;
  }
  journal.mappings.push_back({0, kPageSize, Kind::islands, {}});
  return journal;
}

const std::vector<arch::ScriptedCall> kReceiving = {{SYS_close, {3}}, {SYS_recvmsg, {4}}};
const std::vector<arch::ScriptedCall> kWaiting = {{SYS_recvfrom, {4}}};

TEST(MappingScript, NeverMapsMemoryThatIsWritableAndExecutable) {
  for (const MappingEntry& entry : journal().mappings) {
    const uint64_t protection = mapping_call(entry, 0).arguments[2];
    EXPECT_NE(protection & (PROT_WRITE | PROT_EXEC), uint64_t{PROT_WRITE | PROT_EXEC});
    EXPECT_EQ((protection & PROT_EXEC) != 0, layout::is_code(entry.kind));
  }
}

TEST(MappingScript, NeverTakesMemoryOfTheProgram) {
  for (const MappingEntry& entry : journal().mappings)
    EXPECT_EQ(mapping_call(entry, 0).arguments[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE),
              uint64_t{MAP_FIXED_NOREPLACE});
}

TEST(MappingScript, SharesTheFilesTablesFromItsStartAndItsAreasFromTheirOffset) {
  const auto all = journal();
  const auto script = mapping_script(all, Children::count, kReceiving, kWaiting);
  EXPECT_EQ(script.calls.at(2).sixth, 0u);
  EXPECT_EQ(script.calls.at(3).sixth, all.header.areas_offset);
  for (size_t i = 0; i < script.calls.size(); ++i) {
    if (!script.mapping[i]) continue;
    EXPECT_EQ((script.calls[i].arguments[3] & MAP_SHARED) != 0, *script.mapping[i] < 3) << i;
  }
}

TEST(MappingScript, ReceivesTheFileFirstAndWaitsAtTheEnd) {
  const auto script = mapping_script(journal(), Children::count, kReceiving, kWaiting);
  ASSERT_GT(script.calls.size(), 3u);
  EXPECT_EQ(script.calls[0].number, uint64_t{SYS_close});
  EXPECT_EQ(script.calls[1].number, uint64_t{SYS_recvmsg});
  EXPECT_EQ(script.calls.back().number, uint64_t{SYS_recvfrom});
}

TEST(MappingScript, MapsNeitherTheScratchPageNorWhatHasNoAddress) {
  const auto script = mapping_script(journal(), Children::count, kReceiving, kWaiting);
  std::vector<size_t> mapped;
  for (const auto& index : script.mapping)
    if (index) mapped.push_back(*index);
  EXPECT_EQ(mapped, (std::vector<size_t>{1, 2, 3, 4, 5, 6}));
}

TEST(MappingScript, EmptiesTheTablesOfAreasInChildrenThatAreNotToCount) {
  const auto all = journal();
  const auto counts = mapping_script(all, Children::count, kReceiving, kWaiting);
  const auto forgets = mapping_script(all, Children::forget, kReceiving, kWaiting);
  EXPECT_EQ(forgets.calls.size(), counts.calls.size() + 2);
  for (size_t i = 0; i < forgets.calls.size(); ++i) {
    if (forgets.calls[i].number != SYS_madvise) continue;
    EXPECT_EQ(forgets.calls[i].arguments[2], uint64_t{MADV_WIPEONFORK});
    const MappingEntry& entry = all.mappings[forgets.mapping.at(i - 1).value()];
    EXPECT_TRUE(entry.kind == Kind::stubs || entry.kind == Kind::runtime_data);
    EXPECT_LT(forgets.calls[i].arguments[0] - entry.address, entry.size);
  }
}

TEST(MappingScript, IsChainedUpToTheCallThatWaits) {
  auto script = mapping_script(journal(), Children::count, kReceiving, kWaiting);
  constexpr Address kTable = 0x5000;
  chain(script, kTable);
  for (size_t i = 0; i + 1 < script.calls.size(); ++i)
    EXPECT_EQ(script.calls[i].next, kTable + (i + 1) * sizeof(arch::ScriptedCall));
  EXPECT_EQ(script.calls.back().next, 0u);
}

TEST(MappingScript, FitsIntoTheScratchMemory) {
  for (const size_t arenas : {size_t{1}, size_t{30}, size_t{500}}) {
    layout::Session all = journal();
    all.mappings.resize(5);  // no island
    for (size_t i = 0; i < arenas; ++i)
      all.mappings.push_back({(i + 1) << 32, 16 * kPageSize, Kind::stubs, {}});
    const auto script = mapping_script(all, Children::forget, kReceiving, kWaiting);
    EXPECT_LE(kScript + sizeof(uint64_t) + script.calls.size() * sizeof(arch::ScriptedCall),
              scratch_size(arenas + 4));
  }
}

TEST(MappingScript, UnmapsWhatIsAdjacentByOneCall) {
  const std::vector<MappingEntry> mapped = {{0x7000, 0x1000, Kind::tables, {}},
                                            {0x4000, 0x2000, Kind::runtime_data, {}},
                                            {0x6000, 0x1000, Kind::runtime_code, {}},
                                            {0x9000, 0x1000, Kind::stubs, {}}};
  const std::vector<Range> expected = {{0x9000, 0xa000}, {0x4000, 0x8000}};
  EXPECT_EQ(ranges_to_unmap(mapped, {}), expected);
}

TEST(MappingScript, UnmapsTheFileLast) {
  const std::vector<MappingEntry> mapped = {{0x1000, 0x1000, Kind::tables, {}},
                                            {0x3000, 0x1000, Kind::stubs, {}},
                                            {0x5000, 0x1000, Kind::areas, {}},
                                            {0x6000, 0x1000, Kind::stubs, {}},
                                            {0x8000, 0x1000, Kind::islands, {}}};
  const std::vector<Range> expected = {
      {0x3000, 0x4000}, {0x8000, 0x9000}, {0x1000, 0x2000}, {0x5000, 0x7000}};
  EXPECT_EQ(ranges_to_unmap(mapped, {}), expected);
}

TEST(MappingScript, LeavesOutWhatIsKept) {
  const std::vector<MappingEntry> mapped = {{0x1000, 0x4000, Kind::stubs, {}},
                                            {0x5000, 0x1000, Kind::tables, {}}};
  KeptMemory kept;
  kept.ranges = {{0x2000, 0x3000}};
  const std::vector<Range> expected = {{0x1000, 0x2000}, {0x3000, 0x6000}};
  EXPECT_EQ(ranges_to_unmap(mapped, kept), expected);
}

}  // namespace
}  // namespace pinprick::engine
