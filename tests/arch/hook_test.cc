// Hooks where unwinders look up their tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "arch/stub_cases.h"
#include "arch/x86_64/unwind_tables.h"
#include "call_with_registers.h"
#include "executable_memory.h"

namespace pinprick::arch {
namespace {

extern "C" void __register_frame(void*);
extern "C" void __deregister_frame(void*);
extern "C" const void* _Unwind_Find_FDE(void* pc, void* bases);

// A hook in front of `long f(long x) { return x + 1; }`, for code at addresses of nobody's.
class Hooked {
 public:
  static constexpr Range kSlotCode = {0x123400000000, 0x123400000000 + 16 * kSlotCodeSize};
  // Ranges apart from each other, to all sides of the slots.
  static constexpr Range kOthers[] = {{0x100000000000, 0x100000000010},
                                      {0x123300000000, 0x123400000000},
                                      {0x123500000000, 0x123500000001},
                                      {0x7fffffff0000, 0x7fffffff1000}};

  explicit Hooked(std::optional<layout::UnwinderTable> functions) {
    UnwindSpec tables;
    tables.slots = {kSlotCode, 0x123500000000, PP_RECORD_SITE};
    for (Range range : kOthers)
      tables.code.push_back(
          {{range.begin, CodeRow::Caller::returned_to, 1}, {range.end, CodeRow::Caller::nowhere}});
    Assembler at(memory_.address() + kTablesAt);
    const auto header = emit_unwind_tables(at, tables);
    const auto bytes = at.finish();
    memory_.write(kTablesAt, *bytes);
    UnwinderHook spec;
    spec.functions = functions;
    spec.ranges = header.ranges;
    spec.range_count = static_cast<uint32_t>(header.range_count);
    spec.slot_code = kSlotCode;
    spec.slots = tables.slots.slots;
    const Bytes original = {0x48, 0x8d, 0x47, 0x01, 0xc3};  // lea 1(%rdi),%rax; ret
    memory_.write(0, original);
    Assembler code(memory_.address() + kStubAt);
    emit_unwinder_hook(code, spec, {memory_.address(), original});
    const auto hook = code.finish();
    EXPECT_LE(kStubAt + hook->size(), kTablesAt);
    memory_.write(kStubAt, *hook);
    memory_.seal();
  }

  // What the function answers for an address, and what it stores.
  uint64_t look_up(Address pc) {
    std::fill(std::begin(result), std::end(result), kUntouched);
    return memory_.function<uint64_t(Address, uint64_t*)>(kStubAt)(pc, result);
  }
  static constexpr uint64_t kUntouched = 0x5555;
  uint64_t result[12];

 private:
  static constexpr uint64_t kStubAt = 64, kTablesAt = 1024;
  ExecutableMemory memory_{kPageSize};
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

// libgcc reads the table as we mean it.
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

// An FDE says how far in front of it its CIE lies.
Address table_of(Address fde) {
  return fde + 4 - read<uint32_t>(fde + 4);
}

TEST(UnwinderHook, AnswersWithATableForEmittedCodeAndLeavesEverythingElseToTheUnwinder) {
  Hooked hooked(layout::UnwinderTable{});
  expect_untouched_outside(hooked);
  std::vector<Range> ranges(std::begin(Hooked::kOthers), std::end(Hooked::kOthers));
  ranges.push_back(Hooked::kSlotCode);
  for (Range range : ranges)
    for (Address pc : {range.begin, range.end - 1}) {
      const Address fde = hooked.look_up(pc);
      EXPECT_THAT(std::vector<uint64_t>(hooked.result, hooked.result + 4),
                  testing::ElementsAre(0, 0, range.begin, Hooked::kUntouched));
      const bool is_slots = range.begin == Hooked::kSlotCode.begin;
      // Of slots the hook has a table of its own; the others are what the CIE is the second of.
      EXPECT_STREQ(reinterpret_cast<const char*>(table_of(fde) + 9), is_slots ? "zPR" : "zR");
      if (is_slots) expect_found_by_libgcc(table_of(fde), fde, range);
      EXPECT_EQ(read<Address>(fde + 8), range.begin);
      EXPECT_EQ(read<Address>(fde + 16), range.size());
    }
}

TEST(LoaderHook, AnswersWithAnObjectThatHasATableForEmittedCode) {
  Hooked hooked(std::nullopt);
  expect_untouched_outside(hooked);
  std::vector<Range> ranges(std::begin(Hooked::kOthers), std::end(Hooked::kOthers));
  ranges.push_back(Hooked::kSlotCode);
  for (Range range : ranges)
    for (Address pc : {range.begin, range.end - 1}) {
      EXPECT_EQ(hooked.look_up(pc), 0u);
      const Address header = hooked.result[4];
      EXPECT_THAT(std::vector<uint64_t>(hooked.result, hooked.result + 6),
                  testing::ElementsAre(0, range.begin, range.end, 0, header, Hooked::kUntouched));
      EXPECT_EQ(read<uint32_t>(header), 0xffff0001u) << "version 1, absolute, no count, not sorted";
      const Address fde = read<Address>(header + 4);
      EXPECT_STREQ(reinterpret_cast<const char*>(table_of(fde) + 9), "zR") << "no personality";
      EXPECT_EQ(read<Address>(fde + 8), range.begin);
      EXPECT_EQ(read<Address>(fde + 16), range.size());
    }
}

}  // namespace
}  // namespace pinprick::arch
