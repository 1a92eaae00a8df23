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

TEST(XrayMap, HasSledsAndTheirFunctionsByDistances) {
  using Kind = XraySled::Kind;
  constexpr Address kMap = 0x9000;
  Bytes map;
  append_sled(map, kMap, 0x1000, 0x1000, 0);
  append_sled(map, kMap + 32, 0x1020, 0x1000, 1);
  append_sled(map, kMap + 64, 0x1040, 0x1000, 2);
  append_sled(map, kMap + 96, 0xa000, 0x9ffc, 3);  // an entry whose arguments are logged
  append_sled(map, kMap + 128, 0x1080, 0x1000, 0, 0);
  append_sled(map, kMap + 160, 0x1090, 0x1000, 4);  // an event of the program
  append_sled(map, kMap + 192, 0x10a0, 0x1000, 0);
  map.resize(map.size() - 1);
  EXPECT_EQ(parse_xray_map(map, kMap), (std::vector<XraySled>{{0x1000, 0x1000, Kind::entry},
                                                              {0x1020, 0x1000, Kind::ret},
                                                              {0x1040, 0x1000, Kind::tail_call},
                                                              {0xa000, 0x9ffc, Kind::entry},
                                                              {0x1090, 0x1000, Kind::other}}));
}

// --- Returns

constexpr Address kFunction = 0x2000;
const Bytes kReturn = {0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00};

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<Address> returns(const Bytes& code, const std::vector<Address>& listed) {
  return returns_at_sleds(code, kFunction, listed);
}

TEST(ReturnsAtSleds, AreAllReturnsOfTheFunction) {
  const Bytes branch = {0x74, 0x0b};  // je, over the first return
  EXPECT_EQ(returns(joined({branch, kReturn, kReturn}), {0x2002, 0x200d}),
            (std::vector<Address>{0x2002, 0x200d}));
}

TEST(ReturnsAtSleds, AreNoneIfOneIsNotListedOrIsMoreThanThereAre) {
  const Bytes two = joined({{0x74, 0x0b}, kReturn, kReturn});
  EXPECT_TRUE(returns(two, {0x2002}).empty());
  EXPECT_TRUE(returns(two, {0x2002, 0x200d, 0x2018}).empty());
  EXPECT_TRUE(returns(two, {0x2002, 0x200e}).empty());
  EXPECT_TRUE(returns(two, {}).empty());
}

TEST(ReturnsAtSleds, AreNoneIfAReturnHasOtherBytes) {
  Bytes sled = kReturn;
  sled[8] = 1;
  EXPECT_TRUE(returns(sled, {0x2000}).empty());
  EXPECT_TRUE(returns({0xc3}, {0x2000}).empty());                     // cut off
  EXPECT_TRUE(returns(joined({{0xf3}, kReturn}), {0x2000}).empty());  // rep ret
  const Bytes pops = {0xc2, 0x08, 0x00, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00};
  EXPECT_TRUE(returns(pops, {0x2000}).empty());  // ret 8
  const Bytes on = {0x41, 0xba, 0x01, 0x00, 0x00, 0x00, 0xe9, 0x00, 0x10, 0x00, 0x00};
  EXPECT_TRUE(returns(on, {0x2000}).empty());  // XRay is on
}

TEST(ReturnsAtSleds, AreNoneIfThereIsAnotherWayOut) {
  const auto with = [](const Bytes& code) {
    const Bytes all = joined({code, kReturn});
    return returns(all, {kFunction + code.size()});
  };
  EXPECT_EQ(with({0x90}).size(), 1u);
  EXPECT_TRUE(with({0x74, 0x40}).empty());                                  // je, out of it
  EXPECT_TRUE(with({0x75, 0xf0}).empty());                                  // jne, before it
  EXPECT_TRUE(with({0xeb, 0x40}).empty());                                  // jmp, out of it
  EXPECT_TRUE(with({0xff, 0x25, 0x00, 0x10, 0x00, 0x00}).empty());          // jmp *0x1000(%rip)
  EXPECT_TRUE(with({0xff, 0x63, 0x10}).empty());                            // jmp *0x10(%rbx)
  EXPECT_TRUE(with({0x06}).empty());                                        // no instruction
  EXPECT_TRUE(returns(joined({kReturn, {0x31, 0xc0}}), {0x2000}).empty());  // falls out of its end
}

TEST(ReturnsAtSleds, JumpsThatStayInsideCallsAndTrapsAreNoWaysOut) {
  const auto with = [](const Bytes& code) {
    const Bytes all = joined({kReturn, code});
    return returns(all, {kFunction}).size();
  };
  EXPECT_EQ(with({0xe8, 0x00, 0x10, 0x00, 0x00}), 1u);  // call abort
  EXPECT_EQ(with({0xff, 0xd0, 0x66, 0x90}), 1u);        // call *%rax, padding
  EXPECT_EQ(with({0x0f, 0x0b}), 1u);                    // ud2
  EXPECT_EQ(with({0xeb, 0xf3}), 1u);                    // jmp to the start
  EXPECT_EQ(with({0xff, 0xe1}), 1u);                    // jmp *%rcx: a table's
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
