// Specification of entry_sites.h for sections, whatever is in them. tests/cli/entry_sites.bats has
// programs of compilers.
#include "image/notes/entry_sites.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace pinprick::image {
namespace {

using Bytes = std::vector<uint8_t>;

template <class T>
void append(Bytes& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

Bytes addresses(std::initializer_list<uint64_t> all) {
  Bytes bytes;
  for (const uint64_t one : all) append(bytes, one);
  return bytes;
}

TEST(EntryAddresses, AreThoseOfTheFile) {
  const auto found =
      parse_entry_addresses(addresses({0x1000, 0x1040}), 0x4000, EntryKind::patchable, {});
  EXPECT_EQ(found, (std::vector<EntryRecord>{{0x1000, EntryKind::patchable},
                                             {0x1040, EntryKind::patchable}}));
}

TEST(EntryAddresses, OfPositionIndependentObjectsComeFromRelocations) {
  using Kind = Relocation::Kind;
  const Relocation relocations[] = {
      {0x4008, Kind::relative, 0x2000, {}},
      {0x4004, Kind::relative, 0x3000, {}},  // between two addresses
      {0x4010, Kind::relative, 0x3000, {}},  // after the section
      {0x3ff8, Kind::relative, 0x3000, {}},  // before it
      {0x4000, Kind::symbol, 0x3000, "f"},
  };
  const auto found =
      parse_entry_addresses(addresses({0x1000, 0}), 0x4000, EntryKind::fentry, relocations);
  EXPECT_EQ(found,
            (std::vector<EntryRecord>{{0x1000, EntryKind::fentry}, {0x2000, EntryKind::fentry}}));
}

TEST(EntryAddresses, AHalfOneAtTheEndIsLeftOut) {
  Bytes bytes = addresses({0x1000, 0x1040});
  bytes.resize(12);
  EXPECT_EQ(parse_entry_addresses(bytes, 0, EntryKind::patchable, {}).size(), 1u);
  EXPECT_TRUE(parse_entry_addresses({}, 0, EntryKind::patchable, {}).empty());
}

// An entry of xray_instr_map that lies at `at`.
void append_sled(Bytes& bytes, Address at, Address sled, Address function, uint8_t kind,
                 uint8_t version = 2) {
  append(bytes, sled - at);
  append(bytes, function - (at + sizeof(uint64_t)));
  append(bytes, kind);
  append(bytes, uint8_t{0});
  append(bytes, version);
  bytes.resize(bytes.size() + 13);
}

TEST(XrayMap, HasEntriesByDistances) {
  constexpr Address kMap = 0x9000;
  Bytes map;
  append_sled(map, kMap, 0x1000, 0x1000, 0);
  append_sled(map, kMap + 32, 0x1020, 0x1000, 1);  // a return
  append_sled(map, kMap + 64, 0x1040, 0x1000, 2);  // a jump to another function
  append_sled(map, kMap + 96, 0xa000, 0x9ffc, 3);  // an entry whose arguments are logged
  append_sled(map, kMap + 128, 0x1080, 0x1000, 0, 0);
  append_sled(map, kMap + 160, 0x1090, 0x1000, 4);  // an event of the program
  append_sled(map, kMap + 192, 0x10a0, 0x1000, 0);
  map.resize(map.size() - 1);
  EXPECT_EQ(parse_xray_map(map, kMap),
            (std::vector<EntryRecord>{{0x1000, EntryKind::xray}, {0xa000, EntryKind::xray}}));
}

TEST(StaticInitializers, AreKnownByTheNamesThatCompilersGiveThem) {
  for (const char* const name :
       {"_GLOBAL__sub_I_main", "_GLOBAL__sub_D_main", "_GLOBAL__sub_I_main.cold",
        "__cxx_global_var_init", "__cxx_global_var_init.1",
        "_Z41__static_initialization_and_destruction_0ii"})
    EXPECT_TRUE(is_static_initializer(name)) << name;
  for (const char* const name : {"", "main", "_GLOBAL__sub", "_ZN1AC1Ev", "init_I_main"})
    EXPECT_FALSE(is_static_initializer(name)) << name;
}

}  // namespace
}  // namespace pinprick::image
