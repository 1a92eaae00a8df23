#include "image/elf/unwind_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "image/maps.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

using Bytes = std::vector<uint8_t>;

// Pointer encodings: the format, and what it is relative to (LSB, "DWARF Extensions").
constexpr uint8_t kAbsolute = 0x00, kUleb = 0x01, kUdata2 = 0x02, kUdata4 = 0x03, kUdata8 = 0x04;
constexpr uint8_t kSleb = 0x09, kSdata2 = 0x0a, kSdata4 = 0x0b, kSdata8 = 0x0c;
constexpr uint8_t kPcRelative = 0x10, kDataRelative = 0x30, kOmit = 0xff;

void append(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

void append_number(Bytes& bytes, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

void append_leb(Bytes& bytes, uint64_t value, bool is_signed) {
  for (;;) {
    const auto low = static_cast<uint8_t>(value & 0x7f);
    value = is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) >> 7) : value >> 7;
    const bool last = is_signed
                          ? (value == 0 && !(low & 0x40)) || (value == UINT64_MAX && low & 0x40)
                          : value == 0;
    bytes.push_back(last ? low : low | 0x80);
    if (last) return;
  }
}

void append_pointer(Bytes& bytes, uint64_t value, uint8_t encoding) {
  switch (encoding & 0x0f) {
    case kUleb:
      return append_leb(bytes, value, false);
    case kSleb:
      return append_leb(bytes, value, true);
    case kUdata2:
    case kSdata2:
      return append_number(bytes, value, 2);
    case kUdata4:
    case kSdata4:
      return append_number(bytes, value, 4);
    default:
      return append_number(bytes, value, 8);
  }
}

// What compilers emit before the first instruction: the CFA is rsp + 8, and the return address is
// there.
const Bytes kUsual = {0x0c, 7, 8, 0x90, 1};  // def_cfa rsp, 8; offset rip, 1 (times -8)

// A handwritten .eh_frame section.
class EhFrame {
 public:
  explicit EhFrame(Address address) : address_(address) {}

  // Appends a CIE. Returns its offset, for fde().
  size_t cie(const std::string& augmentation, const Bytes& augmentation_data,
             const Bytes& instructions = kUsual, uint8_t version = 1,
             const Bytes& return_register = {16}) {
    Bytes record;
    append_number(record, 0, 4);
    record.push_back(version);
    for (char c : augmentation) record.push_back(static_cast<uint8_t>(c));
    record.push_back(0);
    append_leb(record, 1, false);            // code alignment
    append_leb(record, uint64_t(-8), true);  // data alignment
    append(record, return_register);
    if (!augmentation.empty() && augmentation[0] == 'z') {
      append_leb(record, augmentation_data.size(), false);
      append(record, augmentation_data);
    }
    append(record, instructions);
    return put(record);
  }

  // `augmented`: has augmentation data, for a CIE whose augmentation starts with z.
  void fde(size_t cie, Range code, uint8_t encoding, const Bytes& instructions = {},
           const Bytes& augmentation_data = {}, bool augmented = true) {
    Bytes record;
    const size_t content = bytes_.size() + 4;
    append_number(record, content - cie, 4);
    const Address here = address_ + content + 4;
    const uint64_t base = (encoding & 0x70) == kPcRelative ? here : 0;
    append_pointer(record, code.begin - base, encoding);
    append_pointer(record, code.size(), encoding & 0x0f);
    if (augmented) {
      append_leb(record, augmentation_data.size(), false);
      append(record, augmentation_data);
    }
    append(record, instructions);
    put(record);
  }

  // Returns where the augmentation data of an FDE with a 4-byte encoding starts, if that is the
  // next one.
  Address next_lsda_pointer() const { return address_ + bytes_.size() + 4 + 4 + 8 + 1; }

  void end() { append_number(bytes_, 0, 4); }
  Bytes& bytes() { return bytes_; }
  std::vector<FrameEntry> parse() const { return parse_eh_frame(bytes_, address_); }

 private:
  size_t put(Bytes record) {
    while (record.size() % 4 != 0) record.push_back(0);  // nop
    const size_t at = bytes_.size();
    append_number(bytes_, record.size(), 4);
    append(bytes_, record);
    return at;
  }

  Address address_;
  Bytes bytes_;
};

constexpr Address kSection = 0x4'0000;
constexpr Range kCode = {0x1'2340, 0x1'2399};

struct Encoding {
  const char* name;
  uint8_t value;
  Range code;
};

class Encodings : public testing::TestWithParam<Encoding> {};

INSTANTIATE_TEST_SUITE_P(
    All, Encodings,
    testing::Values(Encoding{"absolute", kAbsolute, kCode}, Encoding{"uleb", kUleb, kCode},
                    Encoding{"udata2", kUdata2, {0x1234, 0x1299}},
                    Encoding{"udata4", kUdata4, kCode}, Encoding{"udata8", kUdata8, kCode},
                    Encoding{"sleb", kSleb, kCode}, Encoding{"sdata2", kSdata2, {0x1234, 0x1299}},
                    Encoding{"sdata4", kSdata4, kCode}, Encoding{"sdata8", kSdata8, kCode},
                    Encoding{"relative_absolute", kPcRelative | kAbsolute, kCode},
                    Encoding{"relative_udata8", kPcRelative | kUdata8, kCode},
                    Encoding{"relative_sdata2", kPcRelative | kSdata2, {0x3'f000, 0x3'f010}},
                    Encoding{"relative_sdata4", kPcRelative | kSdata4, kCode},
                    Encoding{
                        "relative_sdata4_upwards", kPcRelative | kSdata4, {0x5'0000, 0x5'0010}},
                    Encoding{"relative_sleb", kPcRelative | kSleb, kCode},
                    Encoding{"relative_sdata8", kPcRelative | kSdata8, kCode}),
    [](const auto& encoding) { return encoding.param.name; });

TEST_P(Encodings, OfARangeAreSupported) {
  EhFrame frames(kSection);
  const size_t cie = frames.cie("zR", {GetParam().value});
  frames.fde(cie, GetParam().code, GetParam().value);
  frames.end();
  const auto entries = frames.parse();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].code, GetParam().code);
  EXPECT_EQ(entries[0].lsda, 0u);
  EXPECT_TRUE(entries[0].entered_by_call);
}

TEST(EhFrame, WithoutAugmentationAddressesAreAbsolute) {
  EhFrame frames(kSection);
  const size_t cie = frames.cie("", {});
  frames.fde(cie, kCode, kAbsolute, {}, {}, false);
  const auto entries = frames.parse();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].code, kCode);
}

TEST(EhFrame, NamesTheExceptionTable) {
  EhFrame frames(kSection);
  // A personality routine comes first: its pointer must be skipped.
  const size_t cie = frames.cie(
      "zPLR", {kPcRelative | kSdata4, 1, 2, 3, 4, kPcRelative | kSdata4, kPcRelative | kSdata4});
  Bytes pointer;
  append_number(pointer, 0x5'1234 - frames.next_lsda_pointer(), 4);
  frames.fde(cie, kCode, kPcRelative | kSdata4, {}, pointer);
  frames.fde(cie, {0x2'0000, 0x2'0010}, kPcRelative | kSdata4, {}, {0, 0, 0, 0});
  const auto entries = frames.parse();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].lsda, 0x5'1234u);
  EXPECT_EQ(entries[1].lsda, 0u) << "a null pointer is one, relative or not";
}

TEST(EhFrame, EntriesComeSortedAndFromSeveralCommonEntries) {
  EhFrame frames(kSection);
  const size_t first = frames.cie("zR", {kPcRelative | kSdata4});
  frames.fde(first, {0x3000, 0x3010}, kPcRelative | kSdata4);
  const size_t second = frames.cie("zR", {kUdata8});
  frames.fde(second, {0x1000, 0x1010}, kUdata8);
  frames.fde(first, {0x2000, 0x2010}, kPcRelative | kSdata4);
  const auto entries = frames.parse();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].code.begin, 0x1000u);
  EXPECT_EQ(entries[1].code.begin, 0x2000u);
  EXPECT_EQ(entries[2].code.begin, 0x3000u);
}

TEST(EhFrame, EndsAtAZeroLength) {
  EhFrame frames(kSection);
  const size_t cie = frames.cie("zR", {kUdata8});
  frames.fde(cie, {0x1000, 0x1010}, kUdata8);
  frames.end();
  frames.fde(cie, {0x2000, 0x2010}, kUdata8);
  EXPECT_EQ(frames.parse().size(), 1u);
}

TEST(EhFrame, EmptyRangesAndNullAddressesDescribeNothing) {
  EhFrame frames(kSection);
  const size_t cie = frames.cie("zR", {kUdata8});
  frames.fde(cie, {0x1000, 0x1000}, kUdata8);
  frames.fde(cie, {0, 0x1000}, kUdata8);
  frames.fde(cie, {UINT64_MAX - 15, 16}, kUdata8);  // wraps around the end of memory
  EXPECT_TRUE(frames.parse().empty());
}

TEST(EhFrame, Version3HasAReturnRegisterOfVariableLength) {
  EhFrame frames(kSection);
  const size_t cie = frames.cie("zR", {kUdata8}, kUsual, 3, {0x90, 0x00});
  frames.fde(cie, kCode, kUdata8);
  const auto entries = frames.parse();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(entries[0].entered_by_call);
}

// The rules in force at the first instruction.
struct Rules {
  const char* name;
  Bytes common;
  Bytes own;
  bool entered_by_call;
};

void PrintTo(const Rules& rules, std::ostream* out) {
  *out << rules.name;
}

class EnteredByCall : public testing::TestWithParam<Rules> {};

TEST_P(EnteredByCall, FollowsFromTheRulesAtTheFirstInstruction) {
  EhFrame frames(kSection);
  const size_t cie = frames.cie("zR", {kUdata8}, GetParam().common);
  frames.fde(cie, kCode, kUdata8, GetParam().own);
  const auto entries = frames.parse();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].entered_by_call, GetParam().entered_by_call);
}

const Bytes kNone;

INSTANTIATE_TEST_SUITE_P(
    Rules, EnteredByCall,
    testing::Values(
        Rules{"an ordinary function", kUsual, {0x41, 0x0e, 16}, true},
        Rules{"a leaf function", kUsual, kNone, true},
        Rules{"rules of the function's own", kNone, kUsual, true},
        Rules{"other registers saved", kUsual, {0x86, 2, 0x8c, 3}, true},
        Rules{"what follows the first instruction", kUsual, {0x44, 0x0e, 80, 0x07, 16}, true},
        Rules{"after advance_loc1", kUsual, {0x02, 9, 0x0e, 80}, true},
        Rules{"after advance_loc2", kUsual, {0x03, 9, 1, 0x0e, 80}, true},
        Rules{"after advance_loc4", kUsual, {0x04, 9, 1, 0, 0, 0x0e, 80}, true},
        Rules{"nops and remembered states", kUsual, {0x00, 0x0a, 0x00, 0x0b}, true},
        Rules{"arguments on the stack", kUsual, {0x2e, 16}, true},
        Rules{"the return address by its extended form", {0x0c, 7, 8, 0x05, 16, 1}, kNone, true},
        Rules{"an offset that is the right one modulo 2^64",
              kUsual,
              {0x90, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20},
              false},
        Rules{"a cold part, whose frame is built", kUsual, {0x0e, 48}, false},
        Rules{"a cold part with a frame pointer", kUsual, {0x0c, 6, 16, 0x86, 2}, false},
        Rules{"a CFA by another register", kUsual, {0x0d, 6}, false},
        Rules{"a PLT header", kUsual, {0x0e, 16, 0x46, 0x0e, 24}, false},
        Rules{"a CFA by an expression", kUsual, {0x0f, 3, 0x77, 8, 0x06}, false},
        Rules{"_start", kUsual, {0x07, 16}, false},
        Rules{"a return address in a register", kUsual, {0x09, 16, 2}, false},
        Rules{"a return address elsewhere", kUsual, {0x90, 2}, false},
        Rules{"a return address that never moved", kUsual, {0x08, 16}, false},
        Rules{"a return address by an expression", kUsual, {0x10, 16, 2, 0x77, 40}, false},
        Rules{"a return address that is an expression", kUsual, {0x16, 16, 2, 0x77, 40}, false},
        Rules{"no rules at all", kNone, kNone, false},
        Rules{"an unknown instruction", kUsual, {0x3f}, false},
        Rules{"a number that does not end", kUsual, {0x0e, 0x88, 0x80}, false},
        Rules{"a size of arguments that does not end", kUsual, {0x2e, 0x88, 0x80}, false},
        Rules{"an expression that does not end", kUsual, {0x0f, 0x7f, 0x77}, false}));

TEST(EhFrame, SignalFramesAreNotCalled) {
  EhFrame frames(kSection);
  const size_t cie = frames.cie("zRS", {kUdata8});
  frames.fde(cie, kCode, kUdata8);
  const auto entries = frames.parse();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_FALSE(entries[0].entered_by_call);
}

// A wrong range would misplace a probe; a missing one is only missing.
TEST(EhFrame, UnsupportedEntriesAreLeftOut) {
  const auto entries_with = [](const std::string& augmentation, const Bytes& data,
                               uint8_t version = 1) {
    EhFrame frames(kSection);
    const size_t odd = frames.cie(augmentation, data, kUsual, version);
    frames.fde(odd, kCode, kUdata8);
    const size_t good = frames.cie("zR", {kUdata8});
    frames.fde(good, {0x1000, 0x1010}, kUdata8);
    const auto entries = frames.parse();
    EXPECT_EQ(entries.at(0).code.begin, 0x1000u) << "the rest is as good as ever";
    return entries.size();
  };
  EXPECT_EQ(entries_with("zR", {kUdata8}), 2u);
  EXPECT_EQ(entries_with("zR", {kDataRelative | kUdata8}), 1u) << "relative to what?";
  EXPECT_EQ(entries_with("zR", {0x40 | kUdata8}), 1u) << "relative to the function";
  EXPECT_EQ(entries_with("zR", {0x50}), 1u) << "aligned";
  EXPECT_EQ(entries_with("zR", {0x07}), 1u) << "no such format";
  EXPECT_EQ(entries_with("zR", {}), 1u) << "no data for R";
  EXPECT_EQ(entries_with("zX", {kUdata8}), 1u) << "no such letter";
  EXPECT_EQ(entries_with("eh", {}), 1u) << "of a compiler from before 2000";
  EXPECT_EQ(entries_with("zR", {kUdata8}, 2), 1u) << "no such version";
  EXPECT_EQ(entries_with("zR", {kUdata8}, 4), 1u) << "only in .debug_frame";
}

class HostileEhFrame : public testing::Test {
 protected:
  HostileEhFrame() : frames_(kSection) {
    const size_t cie = frames_.cie("zR", {kUdata8});
    first_ = frames_.bytes().size();
    frames_.fde(cie, {0x1000, 0x1010}, kUdata8);
    second_ = frames_.bytes().size();
    frames_.fde(cie, {0x2000, 0x2010}, kUdata8);
  }
  size_t entries_with(size_t at, uint64_t value, size_t size) {
    Bytes bytes = frames_.bytes();
    for (size_t i = 0; i < size; ++i) bytes.at(at + i) = static_cast<uint8_t>(value >> (8 * i));
    return parse_eh_frame(bytes, kSection).size();
  }
  EhFrame frames_;
  size_t first_ = 0;
  size_t second_ = 0;
};

TEST_F(HostileEhFrame, ALengthBeyondTheEndEndsTheTable) {
  for (uint32_t length : {0x1000u, 0x7fff'ffffu, 0xffff'fff0u, 0xffff'fffeu})
    EXPECT_EQ(entries_with(second_, length, 4), 1u) << length;
  EXPECT_EQ(entries_with(first_, 0xffff'fff0, 4), 0u);
  EXPECT_EQ(entries_with(0, 0xffff'fff0, 4), 0u);
}

TEST_F(HostileEhFrame, ALengthTooShortForAnIdEndsTheTable) {
  for (uint32_t length : {1u, 2u, 3u}) EXPECT_EQ(entries_with(second_, length, 4), 1u);
}

TEST_F(HostileEhFrame, AnEntryTooShortForItsRangeIsLeftOut) {
  EXPECT_EQ(entries_with(second_, 4, 4), 1u);
  EXPECT_EQ(entries_with(second_, 12, 4), 1u);
}

TEST_F(HostileEhFrame, AnEntryWithoutAValidCommonEntryIsLeftOut) {
  const uint32_t good = static_cast<uint32_t>(second_ + 4);
  EXPECT_EQ(entries_with(second_ + 4, good, 4), 2u);
  EXPECT_EQ(entries_with(second_ + 4, good - 1, 4), 1u) << "into the middle of it";
  EXPECT_EQ(entries_with(second_ + 4, good - first_, 4), 1u) << "to another FDE";
  EXPECT_EQ(entries_with(second_ + 4, good + 1, 4), 1u) << "before the section";
  EXPECT_EQ(entries_with(second_ + 4, 0x7fff'ffff, 4), 1u);
  EXPECT_EQ(entries_with(second_ + 4, 4, 4), 1u) << "to itself";
  EXPECT_EQ(entries_with(4, 1, 4), 0u) << "to what would be one, but for its id";
}

TEST_F(HostileEhFrame, EntriesOfACommonEntryThatIsTooLongAreLeftOut) {
  // After length, id, version, "zR", two alignments and a register: the length of its data.
  constexpr size_t kAugmentationLength = 4 + 4 + 1 + 3 + 2 + 1;
  EXPECT_EQ(entries_with(kAugmentationLength, 1, 1), 2u);
  EXPECT_EQ(entries_with(kAugmentationLength, 0x7f, 1), 0u);
}

TEST_F(HostileEhFrame, EveryPrefixAndEveryFlippedByteIsHarmless) {
  Bytes bytes = frames_.bytes();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_LE(parse_eh_frame(std::span(bytes).first(size), kSection).size(), 2u);
  for (size_t at = 0; at < bytes.size(); ++at)
    for (uint8_t value : Bytes{0x00, 0x01, 0x7f, 0x80, 0xff}) {
      const uint8_t old = std::exchange(bytes[at], value);
      EXPECT_LE(parse_eh_frame(bytes, kSection).size(), 3u);
      bytes[at] = old;
    }
}

TEST_F(HostileEhFrame, ALongLengthIsReadAsOne) {
  // An extended length: 2^32-1, then 8 bytes.
  EhFrame frames(kSection);
  const size_t cie = frames.cie("zR", {kUdata8});
  Bytes record;
  append_number(record, 0xffff'ffff, 4);
  append_number(record, 4 + 16 + 1 + 3, 8);
  const size_t content = frames.bytes().size() + record.size();
  append_number(record, content - cie, 4);
  append_number(record, kCode.begin, 8);
  append_number(record, kCode.size(), 8);
  append_number(record, 0, 4);
  append(frames.bytes(), record);
  const auto entries = frames.parse();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].code, kCode);
  const size_t at = frames.bytes().size() - record.size() + 4;
  for (size_t i = 0; i < 8; ++i) frames.bytes()[at + i] = 0xff;
  EXPECT_TRUE(frames.parse().empty());
}

// An exception table with call sites of (start, length, pad, action).
Bytes exception_table(const std::vector<std::array<uint64_t, 4>>& sites, uint8_t site_encoding,
                      uint8_t start_encoding = kOmit, uint64_t start = 0) {
  Bytes table;
  for (const auto& site : sites) {
    for (int i = 0; i < 3; ++i) append_pointer(table, site[static_cast<size_t>(i)], site_encoding);
    append_leb(table, site[3], false);
  }
  Bytes bytes = {start_encoding};
  if (start_encoding != kOmit) append_pointer(bytes, start, start_encoding);
  bytes.push_back(kPcRelative | kSdata4);  // of the types, after the call sites
  append_leb(bytes, table.size() + 20, false);
  bytes.push_back(site_encoding);
  append_leb(bytes, table.size(), false);
  append(bytes, table);
  return bytes;
}

TEST(LandingPads, AreOffsetsFromTheFunction) {
  for (uint8_t encoding : {kUleb, kUdata4, kUdata2, kUdata8}) {
    const Bytes bytes =
        exception_table({{0, 5, 0, 0}, {5, 5, 0x40, 1}, {10, 200, 0x1234, 3}}, encoding);
    EXPECT_EQ(parse_landing_pads(bytes, kSection, kCode),
              (std::vector<Address>{kCode.begin + 0x40, kCode.begin + 0x1234}))
        << int{encoding};
  }
}

TEST(LandingPads, AreOffsetsFromTheirStartIfItIsGiven) {
  const Bytes absolute = exception_table({{0, 5, 0x10, 0}}, kUleb, kAbsolute, 0x7'0000);
  EXPECT_EQ(parse_landing_pads(absolute, kSection, kCode), (std::vector<Address>{0x7'0010}));
  const Bytes relative =
      exception_table({{0, 5, 0x10, 0}}, kUleb, kPcRelative | kSdata4, 0x7'0000 - (kSection + 1));
  EXPECT_EQ(parse_landing_pads(relative, kSection, kCode), (std::vector<Address>{0x7'0010}));
}

TEST(LandingPads, OfATableWithoutTypesAreReadToo) {
  const Bytes bytes = {kOmit, kOmit, kUleb, 4, 0, 5, 0x20, 0};
  EXPECT_EQ(parse_landing_pads(bytes, kSection, kCode), (std::vector<Address>{kCode.begin + 0x20}));
}

TEST(LandingPads, OfHostileTablesAreNone) {
  const Bytes good = exception_table({{0, 5, 0x40, 0}, {5, 5, 0x50, 0}}, kUdata4);
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_TRUE(parse_landing_pads(std::span(good).first(size), kSection, kCode).empty()) << size;
  EXPECT_TRUE(
      parse_landing_pads(Bytes{kOmit, kOmit, 0x07, 8, 1, 2, 3, 4, 5, 6, 7, 8}, kSection, kCode)
          .empty())
      << "no such format";
  EXPECT_TRUE(
      parse_landing_pads(Bytes{kOmit, kOmit, kUleb, 0x7f, 0, 5, 0x20, 0}, kSection, kCode).empty())
      << "call sites beyond the end";
}

// The code of a real C++ program: where it catches, and where its destructors run.
TEST(LandingPads, OfAProgramLieInItsFunctions) {
  const ElfFile file = open_program(program("throws_pie"));
  const auto section = file.eh_frame();
  ASSERT_TRUE(section);
  size_t pads = 0;
  for (const FrameEntry& frame : parse_eh_frame(section->data, section->address)) {
    if (frame.lsda == 0) continue;
    EXPECT_TRUE(sections(program("throws_pie")).at(".gcc_except_table").range.contains(frame.lsda));
    const auto bytes = file.read({frame.lsda, file.extent().end});
    for (Address pad : parse_landing_pads(bytes, frame.lsda, frame.code)) {
      ++pads;
      EXPECT_TRUE(file.in_executable_segment(pad));
    }
  }
  EXPECT_GE(pads, 3u) << "cleaner, catcher and thrower have one each";
}

// What readelf prints for the same bytes.
struct Row {
  Range code;
  bool entered_by_call = false;
  auto operator<=>(const Row&) const = default;
};

std::multiset<Row> rows_of_readelf(const std::string& path) {
  // 0000... 0000... 0000... FDE cie=0000... pc=0000...1000..0000...1020
  //    LOC   CFA      rbx   ra
  // 0000...1000 rsp+8    u     c-8
  // The first rows that an FDE does not print are those of its CIE.
  std::multiset<Row> rows;
  std::map<std::string, bool> cies;  // by offset: whether it is a signal frame's, and its first row
  std::map<std::string, std::string> first_rows;
  std::string entry, cie;
  Range code;
  bool signal = false, is_fde = false, waiting = false;
  const auto finish = [&](const std::string& row) {
    if (!waiting) return;
    waiting = false;
    if (!is_fde) {
      cies[entry] = signal;
      first_rows[entry] = row;
      return;
    }
    const auto words = words_of(row.empty() ? first_rows[cie] : row);
    const bool by_call = words.size() >= 3 && words[1] == "rsp+8" && words.back() == "c-8";
    if (!code.empty() && code.begin != 0) rows.insert({code, by_call && !cies[cie]});
  };
  for (const std::string& line : lines_of(
           run_shell("readelf --debug-dump=frames-interp '" + path + "' 2>/dev/null").output)) {
    const auto words = words_of(line);
    if (words.size() >= 4 && words[3] == "CIE") {
      finish("");
      entry = words[0];
      is_fde = false;
      signal = line.find('S', line.find('"')) != line.npos;
      waiting = true;
    } else if (words.size() >= 6 && words[3] == "FDE") {
      finish("");
      is_fde = true;
      cie = words[4].substr(4);
      const std::string pc = words[5].substr(3);
      const size_t dots = pc.find("..");
      code = {hex(pc.substr(0, dots)), hex(pc.substr(dots + 2))};
      waiting = true;
    } else if (waiting && words.size() >= 2 && words[0].size() == 16 && words[0] != "LOC") {
      finish(line);
    }
  }
  finish("");
  return rows;
}

class Libraries : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Mapped, Libraries,
                         testing::Values("/libc.so", "/libstdc++.so", "/ld-linux"));

TEST_P(Libraries, HaveTheFunctionsAndEntryRulesThatReadelfFinds) {
  const auto maps = read_maps(::getpid());
  ASSERT_TRUE(maps);
  const auto library = std::find_if(maps->begin(), maps->end(), [](const Mapping& mapping) {
    return mapping.path.find(GetParam()) != std::string::npos;
  });
  if (library == maps->end()) GTEST_SKIP() << "not linked with " << GetParam();
  const ElfFile file = open_program(library->path);
  const auto section = file.eh_frame();
  ASSERT_TRUE(section);
  std::multiset<Row> found;
  for (const FrameEntry& entry : parse_eh_frame(section->data, section->address))
    found.insert({entry.code, entry.entered_by_call});
  const auto expected = rows_of_readelf(library->path);
  EXPECT_GT(expected.size(), 100u);
  EXPECT_EQ(found.size(), expected.size());
  size_t shown = 0;
  for (const Row& row : expected) {
    if (found.contains(row) || ++shown > 10) continue;
    ADD_FAILURE() << std::hex << row.code.begin << ".." << row.code.end << " entered by call "
                  << row.entered_by_call;
  }
}

}  // namespace
}  // namespace pinprick::image
