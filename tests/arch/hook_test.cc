// Hooks on the functions with which unwinders look up their tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "arch/stub_cases.h"
#include "arch/unwind_tables.h"
#include "arch/unwinder_hook.h"
#include "call_with_registers.h"
#include "executable_memory.h"

namespace pinprick::arch {
namespace {

extern "C" void __register_frame(void*);
extern "C" void __deregister_frame(void*);
extern "C" const void* _Unwind_Find_FDE(void* pc, void* bases);

// long f(long x) { return x + 1; }
const Bytes kAddsOne = {0x48, 0x8d, 0x47, 0x01, 0xc3};  // lea 1(%rdi),%rax; ret

// A hook on a function, for made-up addresses of code.
class Hooked {
 public:
  static constexpr Range kSlotCode = {0x123400000000, 0x123400000000 + 16 * kSlotCodeSize};
  // Ranges with gaps, on both sides of the slots.
  static constexpr Range kOthers[] = {{0x100000000000, 0x100000000010},
                                      {0x123300000000, 0x123400000000},
                                      {0x123500000000, 0x123500000001},
                                      {0x7fffffff0000, 0x7fffffff1000}};

  explicit Hooked(UnwinderHook::At at, std::optional<layout::UnwinderTable> functions = {}) {
    UnwinderHook spec;
    spec.at = at;
    spec.functions = functions;
    emit(spec, kAddsOne);
  }
  Hooked(UnwinderHook spec, const Bytes& original) { emit(spec, original); }

  // What the function returns for an address, and what it stores.
  uint64_t look_up(Address pc) {
    std::fill(std::begin(result), std::end(result), kUntouched);
    return memory_.function<uint64_t(Address, uint64_t*)>(kStubAt)(pc, result);
  }
  static constexpr uint64_t kUntouched = 0x5555;
  uint64_t result[12];

  int list(int (*callback)(dl_phdr_info*, size_t, void*), void* argument) {
    return memory_.function<int(decltype(callback), void*)>(kStubAt)(callback, argument);
  }

 private:
  void emit(UnwinderHook spec, const Bytes& original) {
    UnwindSpec tables;
    tables.slots = {kSlotCode, 0x123500000000, PP_RECORD_SITE};
    for (Range range : kOthers)
      tables.code.push_back(
          {{range.begin, CodeRow::Caller::returned_to, 1}, {range.end, CodeRow::Caller::nowhere}});
    Assembler at(memory_.address() + kTablesAt);
    const auto header = emit_unwind_tables(at, tables);
    const auto bytes = at.finish();
    memory_.write(kTablesAt, *bytes);
    spec.ranges = header.ranges;
    spec.range_count = static_cast<uint32_t>(header.range_count);
    spec.slot_code = kSlotCode;
    spec.slots = tables.slots.slots;
    memory_.write(0, original);
    Assembler arena(memory_.address() + kArenaAt);
    spec.tells_of_tables = emit_arena_header(arena, {}).tells_of_tables;
    memory_.write(kArenaAt, *arena.finish());
    Assembler code(memory_.address() + kStubAt);
    emit_unwinder_hook(code, spec, {memory_.address(), original});
    const auto hook = code.finish();
    EXPECT_LE(kStubAt + hook->size(), kTablesAt);
    memory_.write(kStubAt, *hook);
    memory_.seal();
  }

  static constexpr uint64_t kStubAt = 64, kTablesAt = 2048, kArenaAt = kPageSize;
  ExecutableMemory memory_{2 * kPageSize};
};

template <class T>
T read(Address at) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
  return value;
}

void expect_untouched_outside(Hooked& hooked) {
  std::vector<Address> outside = {0, 41, Hooked::kSlotCode.end, ~Address{1}, ~Address{0}};
  for (Range range : Hooked::kOthers) {
    if (range.begin != Hooked::kSlotCode.end) outside.push_back(range.begin - 1);
    if (range.end != Hooked::kSlotCode.begin) outside.push_back(range.end);
  }
  for (Address pc : outside) {
    EXPECT_EQ(hooked.look_up(pc), pc + 1);
    for (uint64_t word : hooked.result) EXPECT_EQ(word, Hooked::kUntouched) << std::hex << pc;
  }
}

// libgcc reads the table as intended.
void expect_found_by_libgcc(Address table, Address fde, Range range) {
  const auto frames = reinterpret_cast<void*>(table);
  __register_frame(frames);
  for (Address pc : {range.begin, range.end - 1}) {
    uint64_t bases[3] = {};
    EXPECT_EQ(reinterpret_cast<Address>(_Unwind_Find_FDE(reinterpret_cast<void*>(pc), bases)), fde);
    EXPECT_EQ(bases[2], range.begin);
  }
  uint64_t bases[3];
  EXPECT_EQ(_Unwind_Find_FDE(reinterpret_cast<void*>(Hooked::kSlotCode.end), bases), nullptr);
  __deregister_frame(frames);
}

// An FDE contains the distance to its CIE.
Address table_of(Address fde) {
  return fde + 4 - read<uint32_t>(fde + 4);
}

// Expects a sorted table of one entry. Returns the entry.
Address expect_sorted_table(Address header, Range range) {
  EXPECT_EQ(read<uint32_t>(header), 0x3c030001u)
      << "version 1, absolute, 4 bytes, relative 8 bytes";
  const Address fde = read<Address>(header + 4);
  EXPECT_EQ(read<uint32_t>(header + 12), 1u);
  EXPECT_EQ(header + read<uint64_t>(header + 16), range.begin);
  EXPECT_EQ(header + read<uint64_t>(header + 24), fde);
  return fde;
}

// Augmentation letters of CIEs: slots have a personality, or else are marked as interrupted by a
// signal.
constexpr const char *kOfStubs = "zR", *kOfSlots = "zPR", *kOfSlotsWithoutPersonality = "zRS";

const char* letters_of(Address fde) {
  return reinterpret_cast<const char*>(table_of(fde) + 9);
}

void expect_results_of_unwinder(std::optional<layout::UnwinderTable> functions,
                                const char* of_slots) {
  Hooked hooked(UnwinderHook::At::unwinder, functions);
  expect_untouched_outside(hooked);
  std::vector<Range> ranges(std::begin(Hooked::kOthers), std::end(Hooked::kOthers));
  ranges.push_back(Hooked::kSlotCode);
  for (Range range : ranges)
    for (Address pc : {range.begin, range.end - 1}) {
      const Address fde = hooked.look_up(pc);
      EXPECT_THAT(std::vector<uint64_t>(hooked.result, hooked.result + 4),
                  testing::ElementsAre(0, 0, range.begin, Hooked::kUntouched));
      const bool is_slots = range.begin == Hooked::kSlotCode.begin;
      // The hook has its own table for slots; the others have the second CIE.
      EXPECT_STREQ(letters_of(fde), is_slots ? of_slots : kOfStubs);
      if (is_slots) expect_found_by_libgcc(table_of(fde), fde, range);
      EXPECT_EQ(read<Address>(fde + 8), range.begin);
      EXPECT_EQ(read<Address>(fde + 16), range.size());
    }
}

TEST(UnwinderHook, ReturnsATableForEmittedCodeAndLeavesTheRestToTheUnwinder) {
  expect_results_of_unwinder(layout::UnwinderTable{}, kOfSlots);
}

TEST(UnwinderHook, ReturnsTablesWithoutAPersonalityIfTheUnwindersFunctionsAreUnknown) {
  expect_results_of_unwinder(std::nullopt, kOfSlotsWithoutPersonality);
}

TEST(LoaderHook, ReturnsSlotsWithAPersonalityToAKnownUnwinder) {
  UnwinderHook spec;
  spec.at = UnwinderHook::At::object_table;
  spec.askers = {{{1, 2}, {}, true}, {{0, ~Address{0}}, layout::UnwinderTable{}, true}};
  Hooked hooked(spec, kAddsOne);
  expect_untouched_outside(hooked);
  EXPECT_EQ(hooked.look_up(Hooked::kSlotCode.begin), 0u);
  Address fde = expect_sorted_table(hooked.result[4], Hooked::kSlotCode);
  EXPECT_STREQ(letters_of(fde), kOfSlots);
  EXPECT_EQ(hooked.look_up(Hooked::kOthers[0].begin), 0u);
  fde = expect_sorted_table(hooked.result[4], Hooked::kOthers[0]);
  EXPECT_STREQ(letters_of(fde), kOfStubs);
}

TEST(LoaderHook, ReturnsWholeReturnAddressesToALibunwindOfUnknownFunctions) {
  UnwinderHook spec;
  spec.at = UnwinderHook::At::object_table;
  spec.askers = {{{0, ~Address{0}}, {}, true}};
  Hooked hooked(spec, kAddsOne);
  EXPECT_EQ(hooked.look_up(Hooked::kSlotCode.begin), 0u);
  const Address fde = expect_sorted_table(hooked.result[4], Hooked::kSlotCode);
  EXPECT_STREQ(letters_of(fde), kOfStubs) << "as if it were called, without a personality";
}

TEST(LoaderHook, ReturnsAnObjectWithATableForEmittedCode) {
  Hooked hooked(UnwinderHook::At::object_table);
  expect_untouched_outside(hooked);
  std::vector<Range> ranges(std::begin(Hooked::kOthers), std::end(Hooked::kOthers));
  ranges.push_back(Hooked::kSlotCode);
  for (Range range : ranges)
    for (Address pc : {range.begin, range.end - 1}) {
      EXPECT_EQ(hooked.look_up(pc), 0u);
      const Address header = hooked.result[4];
      EXPECT_THAT(std::vector<uint64_t>(hooked.result, hooked.result + 6),
                  testing::ElementsAre(0, range.begin, range.end, 0, header, Hooked::kUntouched));
      const Address fde = expect_sorted_table(header, range);
      EXPECT_STREQ(letters_of(fde),
                   range.begin == Hooked::kSlotCode.begin ? kOfSlotsWithoutPersonality : kOfStubs);
      EXPECT_EQ(read<Address>(fde + 8), range.begin);
      EXPECT_EQ(read<Address>(fde + 16), range.size());
    }
}

// A loader with two objects, and a lock.
int times_listed = 0;
bool is_locked = false;
using ListCallback = int (*)(dl_phdr_info*, size_t, void*);
int lists_objects(ListCallback callback, void* argument) {
  EXPECT_EQ(reinterpret_cast<Address>(__builtin_frame_address(0)) % 16, 0u);
  ++times_listed;
  int result = 0;
  is_locked = true;
  for (const char* name : {"", "libc.so.6"}) {
    dl_phdr_info info = {};
    info.dlpi_name = name;
    info.dlpi_adds = 2;
    result = callback(&info, sizeof info, argument);
    if (result != 0) break;
  }
  is_locked = false;
  return result;
}

// mov $lists_objects,%rax; jmp *%rax
Bytes goes_to_loader() {
  Bytes bytes = {0x48, 0xb8};
  const auto address = reinterpret_cast<Address>(&lists_objects);
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(address >> 8 * i));
  bytes.insert(bytes.end(), {0xff, 0xe0});
  return bytes;
}

struct Record {
  std::string name;
  size_t size = 0;
  uint64_t adds = 0;
  std::vector<Elf64_Phdr> segments;
  bool operator==(const std::string& other) const { return name == other; }
};
std::vector<Record> told;
int stops_at = -1;  // of the records
int tell(dl_phdr_info* info, size_t size, void*) {
  EXPECT_TRUE(is_locked);
  told.push_back({info->dlpi_name, size, info->dlpi_adds, {}});
  for (int i = 0; i < info->dlpi_phnum; ++i) told.back().segments.push_back(info->dlpi_phdr[i]);
  return static_cast<int>(told.size()) - 1 == stops_at ? 7 : 0;
}

UnwinderHook hook_on_list() {
  UnwinderHook spec;
  spec.at = UnwinderHook::At::object_list;
  spec.changes = 12345;
  return spec;
}

class ListHook : public testing::Test {
 protected:
  ListHook() {
    times_listed = 0;
    told.clear();
    stops_at = -1;
  }
  // The argument is on the stack, as it is for unwinders, within one page: for an unknown caller no
  // more is read.
  int list(Address one, Address two, Address three) {
    alignas(32) volatile Address argument[] = {one, two, three};
    return hooked.list(tell, const_cast<Address*>(argument));
  }
  Hooked hooked{hook_on_list(), goes_to_loader()};
};

TEST_F(ListHook, ShowsASearchForEmittedCodeAnObjectWithATableAfterTheOthers) {
  std::vector<Range> ranges(std::begin(Hooked::kOthers), std::end(Hooked::kOthers));
  ranges.push_back(Hooked::kSlotCode);
  for (Range range : ranges)
    for (Address pc : {range.begin, range.end - 1})
      for (int word = 0; word < 3; ++word) {
        told.clear();
        EXPECT_EQ(list(word == 0 ? pc : 5, word == 1 ? pc : 5, word == 2 ? pc : 5), 0);
        ASSERT_EQ(told.size(), 3u);
        EXPECT_THAT(std::span(told).first(2), testing::ElementsAre(std::string(), "libc.so.6"));
        const Record& ours = told[2];
        EXPECT_EQ(ours.name, "[pinprick]");
        EXPECT_EQ(ours.size, offsetof(dl_phdr_info, dlpi_adds)) << "not to be kept by libgcc";
        EXPECT_EQ(ours.adds, 12345u) << "nor by LLVM's libunwind";
        ASSERT_EQ(ours.segments.size(), 3u);
        EXPECT_EQ(ours.segments[0].p_type, PT_LOAD);
        EXPECT_EQ(ours.segments[0].p_flags, PF_R | PF_X);
        EXPECT_EQ(ours.segments[0].p_vaddr, range.begin);
        EXPECT_EQ(ours.segments[0].p_memsz, range.size());
        EXPECT_EQ(ours.segments[2].p_type, PT_GNU_EH_FRAME);
        const Address fde = expect_sorted_table(ours.segments[2].p_vaddr, range);
        EXPECT_STREQ(letters_of(fde), range.begin == Hooked::kSlotCode.begin
                                          ? kOfSlotsWithoutPersonality
                                          : kOfStubs);
        EXPECT_EQ(ours.segments[1].p_type, PT_LOAD);
        EXPECT_EQ(ours.segments[1].p_vaddr, ours.segments[2].p_vaddr);
        EXPECT_EQ(ours.segments[1].p_vaddr + ours.segments[1].p_filesz, fde + 1);
      }
}

TEST_F(ListHook, ReturnsWhatTheCallbackReturned) {
  for (int i = 0; i < 3; ++i) {
    told.clear();
    stops_at = i;
    EXPECT_EQ(list(Hooked::kSlotCode.begin, 0, 0), 7);
    EXPECT_EQ(told.size(), static_cast<size_t>(i) + 1)
        << "a callback that has found it is told of no more";
  }
}

TEST_F(ListHook, GivesOtherCallersTheListAndNoMore) {
  list(0, Hooked::kSlotCode.end, Hooked::kOthers[0].begin - 1);
  EXPECT_EQ(told.size(), 2u);
  EXPECT_EQ(times_listed, 1);
  static Address elsewhere[3] = {Hooked::kSlotCode.begin};
  for (void* argument : {static_cast<void*>(elsewhere), static_cast<void*>(nullptr),
                         reinterpret_cast<void*>(uintptr_t{24})}) {
    told.clear();
    EXPECT_EQ(hooked.list(tell, argument), 0);
    EXPECT_EQ(told.size(), 2u) << argument;
  }
}

// What it points to may be at the end of its page.
TEST_F(ListHook, ReadsNoFurtherThanThePageThatTheArgumentPointsTo) {
  alignas(kPageSize) volatile uint8_t pages[2 * kPageSize] = {};
  const auto at = [&](size_t offset) { return const_cast<uint8_t*>(pages) + offset; };
  const Address pc = Hooked::kSlotCode.begin;
  std::memcpy(at(kPageSize - 24), &pc, sizeof pc);
  EXPECT_EQ(hooked.list(tell, at(kPageSize - 24)), 0);
  EXPECT_EQ(told.size(), 3u);
  told.clear();
  std::memcpy(at(kPageSize - 16), &pc, sizeof pc);
  EXPECT_EQ(hooked.list(tell, at(kPageSize - 16)), 0);
  EXPECT_EQ(told.size(), 2u);
}

TEST_F(ListHook, ShowsAKnownUnwinderAPersonalityForSlots) {
  UnwinderHook spec = hook_on_list();
  spec.askers = {{{1, 2}, {}, true}, {{0, ~Address{0}}, layout::UnwinderTable{}, true}};
  Hooked known(spec, goes_to_loader());
  alignas(kPageSize) volatile uint8_t pages[2 * kPageSize] = {};
  for (const size_t at : {kPageSize - 24, kPageSize - 16, kPageSize - 8})
    for (Range range : {Hooked::kSlotCode, Hooked::kOthers[0]}) {
      told.clear();
      uint8_t* const argument = const_cast<uint8_t*>(pages) + at;
      const Address words[] = {0, 0, range.begin};
      std::memcpy(argument, words, sizeof words);
      EXPECT_EQ(known.list(tell, argument), 0);
      ASSERT_EQ(told.size(), 3u);
      const Address fde = expect_sorted_table(told[2].segments.at(2).p_vaddr, range);
      const bool is_slots = range.begin == Hooked::kSlotCode.begin;
      EXPECT_STREQ(reinterpret_cast<const char*>(table_of(fde) + 9), is_slots ? "zPR" : "zR");
      EXPECT_GT(told[2].segments[1].p_vaddr + told[2].segments[1].p_filesz, fde);
    }
  told.clear();
  EXPECT_EQ(known.list(tell, nullptr), 0) << "another library may lie there now";
  EXPECT_EQ(told.size(), 2u);
}

}  // namespace
}  // namespace pinprick::arch
