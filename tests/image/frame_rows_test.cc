#include "image/elf/frame_rows.h"

#include <gtest/gtest.h>

#include "base/task.h"
#include "image/elf/unwind_info.h"
#include "image/frame_row_text.h"

namespace pinprick::image {
namespace {

using layout::FrameRow;
using Bytes = std::vector<uint8_t>;
using Rows = std::vector<FrameRow>;

// --- Rules

constexpr uint32_t kByRbp = PP_FRAME_BY_RBP, kLost = PP_FRAME_RBP_LOST;
constexpr uint32_t kUnknown = PP_FRAME_UNKNOWN, kEnd = PP_FRAME_END, kSignal = PP_FRAME_SIGNAL;

constexpr uint32_t normal(uint32_t size, uint32_t saved = 0, uint32_t base = 0) {
  return PP_FRAME_NORMAL | base | saved << PP_FRAME_SAVED_SHIFT | size << PP_FRAME_SIZE_SHIFT;
}

constexpr uint32_t plt(uint32_t size, uint32_t push) {
  return PP_FRAME_PLT | push << PP_FRAME_PUSH_SHIFT | size << PP_FRAME_SIZE_SHIFT;
}

constexpr uint32_t loaded(int at, uint32_t plus, uint32_t flags) {
  return PP_FRAME_LOADED | flags |
         static_cast<uint32_t>(at + PP_FRAME_AT_BIAS) << PP_FRAME_AT_SHIFT |
         plus << PP_FRAME_PLUS_SHIFT;
}

// --- Handwritten sections

void append(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

void append_number(Bytes& bytes, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

// The CFA is rsp + 8, and the return address is there: def_cfa rsp, 8; offset rip, 1.
const Bytes kUsual = {0x0c, 7, 8, 0x90, 1};

constexpr Address kSection = 0x4'0000;
constexpr Range kCode = {0x1'2300, 0x1'2400};

struct CommonFields {
  std::string augmentation = "zR";
  Bytes instructions = kUsual;
  uint8_t version = 1;
  uint8_t code_alignment = 1;
  uint8_t data_alignment = 0x78;  // -8
  Bytes return_address_register = {16};
  uint8_t pointer_encoding = 0x04;  // absolute, 8 bytes
};

// A section whose addresses have 8 bytes each.
class EhFrameSection {
 public:
  // Appends a CIE, to which the FDEs that follow refer.
  EhFrameSection& common(const CommonFields& fields = {}) {
    Bytes record;
    append_number(record, 0, 4);
    record.push_back(fields.version);
    for (char c : fields.augmentation) record.push_back(static_cast<uint8_t>(c));
    record.push_back(0);
    record.push_back(fields.code_alignment);
    record.push_back(fields.data_alignment);
    append(record, fields.return_address_register);
    append(record, {1, fields.pointer_encoding});
    append(record, fields.instructions);
    common_ = bytes_.size();
    return put(record);
  }

  EhFrameSection& function(Range code, const Bytes& instructions = {}) {
    Bytes record;
    append_number(record, bytes_.size() + 4 - common_, 4);
    append_number(record, code.begin, 8);
    append_number(record, code.size(), 8);
    record.push_back(0);  // no augmentation data
    append(record, instructions);
    return put(record);
  }

  void refer_to(size_t common) { common_ = common; }
  Bytes& bytes() { return bytes_; }
  Rows rows(Range code = kCode) const { return frame_rows(bytes_, kSection, code); }

 private:
  EhFrameSection& put(const Bytes& record) {
    append_number(bytes_, record.size(), 4);
    append(bytes_, record);
    return *this;
  }

  size_t common_ = 0;
  Bytes bytes_;
};

Rows rows_of(const Bytes& instructions, const CommonFields& common = {}) {
  return EhFrameSection().common(common).function(kCode, instructions).rows();
}

// --- One rule

struct Case {
  const char* name;
  Bytes instructions;
  uint32_t rule;
  Bytes common = kUsual;
};

void PrintTo(const Case& rule, std::ostream* out) {
  *out << rule.name;
}

class FrameRule : public testing::TestWithParam<Case> {};

TEST_P(FrameRule, FollowsFromTheInstructions) {
  // A last row that differs from all others shows that the function was read to its end.
  Bytes instructions = GetParam().instructions;
  append(instructions, {0x02, 0xf0, 0x0c, 7, 0xb8, 0x01, 0x08, 6, 0x90, 1});
  const Rows rows = rows_of(instructions, {.instructions = GetParam().common});
  EXPECT_EQ(rows, (Rows{{0, GetParam().rule}, {0xf0, normal(23)}}));
}

INSTANTIATE_TEST_SUITE_P(
    Normal, FrameRule,
    testing::Values(
        Case{"at the first instruction", {}, normal(1)},
        Case{"rsp plus an offset", {0x0e, 64}, normal(8)},
        Case{"rbp", {0x0c, 6, 16, 0x86, 2}, normal(2, 2, kByRbp)},
        Case{"rbp by def_cfa_register", {0x0e, 16, 0x86, 2, 0x0d, 6}, normal(2, 2, kByRbp)},
        Case{"def_cfa_sf", {0x12, 7, 0x7c}, normal(4)},      // -4 * -8
        Case{"def_cfa_offset_sf", {0x13, 0x7c}, normal(4)},  //
        Case{"the largest frame", {0x0e, 0xf8, 0xff, 0xff, 0x07}, normal((1 << 21) - 1)},
        Case{"a frame that is too large", {0x0e, 0x80, 0x80, 0x80, 0x08}, kUnknown},
        Case{"a frame of no multiple of 8", {0x0e, 20}, kUnknown},
        Case{"a frame without a return address", {0x0e, 0}, kUnknown},
        Case{"a negative offset", {0x13, 4}, kUnknown},
        Case{"a CFA by another register", {0x0c, 10, 0}, kUnknown},
        Case{"a CFA by rax", {0x0c, 0, 16}, kUnknown},
        Case{"a CFA by a register beyond a byte", {0x0c, 0x87, 0x02, 16}, kUnknown},
        Case{"arguments on the stack", {0x2e, 0x90, 0x01, 0x0e, 32}, normal(4)},
        Case{"nops", {0, 0, 0x0e, 32, 0}, normal(4)},
        Case{"rules of other registers",
             {0x8c, 3, 0x07, 3, 0x08, 12, 0x09, 13, 14, 0x10, 0x0e, 2, 0x77, 8, 0x0e, 32},
             normal(4)}));

INSTANTIATE_TEST_SUITE_P(
    Saved, FrameRule,
    testing::Values(
        Case{"rbp of the caller", {0x0e, 80, 0x86, 2}, normal(10, 2)},
        Case{"rbp saved below other registers", {0x0e, 80, 0x86, 7}, normal(10, 7)},
        Case{"rbp at the stack pointer", {0x0e, 80, 0x86, 10}, normal(10, 10)},
        Case{"rbp below the stack pointer, as epilogues leave it", {0x0e, 8, 0x86, 2}, normal(1)},
        Case{"rbp below the stack pointer by a word", {0x0e, 16, 0x86, 3}, normal(2)},
        Case{"a frame of rbp has no such end", {0x0c, 6, 16, 0x86, 5}, normal(2, 5, kByRbp)},
        Case{"by offset_extended", {0x0e, 80, 0x05, 6, 3}, normal(10, 3)},
        Case{"by offset_extended_sf", {0x0e, 80, 0x11, 6, 4}, normal(10, 4)},
        Case{"by GNU_negative_offset_extended", {0x0e, 80, 0x2f, 6, 4}, normal(10, kLost)},
        Case{"the last slot", {0x0e, 0x80, 0x10, 0x86, 126}, normal(256, 126)},
        Case{"beyond the last slot", {0x0e, 0x80, 0x10, 0x86, 127}, normal(256, kLost)},
        Case{"where the return address is", {0x0e, 80, 0x86, 1}, normal(10, kLost)},
        Case{"above the frame", {0x0e, 80, 0x11, 6, 0x7f}, normal(10, kLost)},
        Case{"undefined", {0x0e, 80, 0x07, 6}, normal(10, kLost)},
        Case{"same", {0x86, 2, 0x08, 6, 0x0e, 80}, normal(10)},
        Case{"in a register", {0x0e, 80, 0x09, 6, 3}, normal(10, kLost)},
        Case{"a value at the CFA", {0x0e, 80, 0x14, 6, 2}, normal(10, kLost)},
        Case{"a value at the CFA, signed", {0x0e, 80, 0x15, 6, 2}, normal(10, kLost)},
        Case{"by an expression", {0x0e, 80, 0x10, 6, 2, 0x77, 16}, normal(10, kLost)},
        Case{"an expression's value", {0x0e, 80, 0x16, 6, 2, 0x77, 16}, normal(10, kLost)},
        Case{"restored", {0x0e, 80, 0x86, 2, 0xc6}, normal(10)},
        Case{"restored, extended", {0x0e, 80, 0x86, 2, 0x06, 6}, normal(10)},
        Case{"restored to the common rule",
             {0x0e, 80, 0x86, 5, 0xc6},
             normal(10, 3),
             {0x0c, 7, 8, 0x90, 1, 0x86, 3}}));

INSTANTIATE_TEST_SUITE_P(
    ReturnAddress, FrameRule,
    testing::Values(Case{"undefined, as of _start", {0x07, 16}, kEnd},
                    Case{"undefined with a CFA that no rule has", {0x07, 16, 0x0c, 10, 0}, kEnd},
                    Case{"restored", {0x07, 16, 0xd0}, normal(1)},
                    Case{"restored, extended", {0x07, 16, 0x06, 16}, normal(1)},
                    Case{"by offset_extended", {0x07, 16, 0x05, 16, 1}, normal(1)},
                    Case{"elsewhere in the frame", {0x90, 2}, kUnknown},
                    Case{"above the frame", {0x11, 16, 0x7f}, kUnknown},
                    Case{"above the frame by the negative form", {0x2f, 16, 1}, kUnknown},
                    Case{"by offset_extended_sf", {0x07, 16, 0x11, 16, 1}, normal(1)},
                    Case{"in a register", {0x09, 16, 2}, kUnknown},
                    Case{"where it was", {0x08, 16}, kUnknown},
                    Case{"by an expression", {0x10, 16, 2, 0x77, 0}, kUnknown},
                    Case{"an expression's value", {0x16, 16, 2, 0x77, 0}, kUnknown},
                    Case{"never said", {}, kUnknown, {0x0c, 7, 8}}));

// The linker's expression for .plt.
Bytes plt_expression(uint8_t push, const Bytes& head = {0x77, 8, 0x80, 0}, uint8_t mask = 0x3f,
                     uint8_t shift = 0x33) {
  Bytes expression = head;
  append(expression, {mask, 0x1a, static_cast<uint8_t>(0x30 + push), 0x2a, shift, 0x24, 0x22});
  return expression;
}

Bytes cfa_expression(const Bytes& expression, const Bytes& more = {}) {
  Bytes instructions = {0x0f, static_cast<uint8_t>(expression.size())};
  append(instructions, expression);
  append(instructions, more);
  return instructions;
}

INSTANTIATE_TEST_SUITE_P(
    Plt, FrameRule,
    testing::Values(
        Case{"entries that push after 11 bytes", cfa_expression(plt_expression(11)), plt(1, 11)},
        Case{"entries that push after 10 bytes", cfa_expression(plt_expression(10)), plt(1, 10)},
        Case{"entries that push after 5 bytes", cfa_expression(plt_expression(5)), plt(1, 5)},
        Case{"of a larger frame", cfa_expression(plt_expression(9, {0x77, 16, 0x80, 0})),
             plt(2, 9)},
        Case{"entries that never push", cfa_expression(plt_expression(16)), kUnknown},
        Case{"from rbp", cfa_expression(plt_expression(11, {0x76, 8, 0x80, 0})), kUnknown},
        Case{"of no frame", cfa_expression(plt_expression(11, {0x77, 0, 0x80, 0})), kUnknown},
        Case{"by another register", cfa_expression(plt_expression(11, {0x77, 8, 0x70, 0})),
             kUnknown},
        Case{"by a later address", cfa_expression(plt_expression(11, {0x77, 8, 0x80, 1})),
             kUnknown},
        Case{"entries of 8 bytes", cfa_expression(plt_expression(5, {0x77, 8, 0x80, 0}, 0x37)),
             kUnknown},
        Case{"a push of 4 bytes",
             cfa_expression(plt_expression(11, {0x77, 8, 0x80, 0}, 0x3f, 0x32)), kUnknown},
        Case{"with rbp saved", cfa_expression(plt_expression(11), {0x86, 2}), kUnknown}));

INSTANTIATE_TEST_SUITE_P(
    Loaded, FrameRule,
    testing::Values(
        Case{"a realigned frame", cfa_expression({0x76, 0x78, 0x06}, {0x10, 6, 2, 0x76, 0}),
             loaded(-1, 0, kByRbp | PP_FRAME_RBP_AT_RBP)},
        Case{"rbp of the caller", cfa_expression({0x76, 0x78, 0x06}), loaded(-1, 0, kByRbp)},
        Case{"from rsp", cfa_expression({0x77, 0x98, 0x01, 0x06}), loaded(19, 0, 0)},
        Case{"plus_uconst", cfa_expression({0x77, 40, 0x06, 0x23, 8}), loaded(5, 1, 0)},
        Case{"plus a literal", cfa_expression({0x77, 40, 0x06, 0x38, 0x22}), loaded(5, 1, 0)},
        Case{"plus a byte", cfa_expression({0x77, 40, 0x06, 0x08, 0xf8, 0x22}), loaded(5, 31, 0)},
        Case{"plus a word", cfa_expression({0x77, 0, 0x06, 0x0b, 16, 1, 0x22}), loaded(0, 34, 0)},
        Case{"plus a ULEB", cfa_expression({0x77, 0, 0x06, 0x10, 0x88, 1, 0x22}), loaded(0, 17, 0)},
        Case{"the largest addend", cfa_expression({0x77, 0, 0x06, 0x23, 0xf8, 0x0f}),
             loaded(0, 255, 0)},
        Case{"an addend that is too large", cfa_expression({0x77, 0, 0x06, 0x23, 0x80, 0x10}),
             kUnknown},
        Case{"a negative addend", cfa_expression({0x77, 0, 0x06, 0x09, 0xf8, 0x22}), kUnknown},
        Case{"an addend of no multiple of 8", cfa_expression({0x77, 0, 0x06, 0x23, 4}), kUnknown},
        Case{"the lowest word", cfa_expression({0x76, 0x80, 0x60, 0x06}), loaded(-512, 0, kByRbp)},
        Case{"below the lowest word", cfa_expression({0x76, 0xf8, 0x5f, 0x06}), kUnknown},
        Case{"the highest word", cfa_expression({0x76, 0xf8, 0x1f, 0x06}), loaded(511, 0, kByRbp)},
        Case{"above the highest word", cfa_expression({0x76, 0x80, 0x20, 0x06}), kUnknown},
        Case{"no multiple of 8", cfa_expression({0x76, 0x7c, 0x06}), kUnknown},
        Case{"from another register", cfa_expression({0x7a, 0, 0x06}), kUnknown},
        Case{"rbp saved below the CFA", cfa_expression({0x77, 8, 0x06}, {0x86, 2}),
             loaded(1, 0, 2u << PP_FRAME_LOADED_SAVED_SHIFT)},
        Case{"rbp saved in the lowest word", cfa_expression({0x77, 8, 0x06}, {0x86, 126}),
             loaded(1, 0, 126u << PP_FRAME_LOADED_SAVED_SHIFT)},
        Case{"rbp saved too low", cfa_expression({0x77, 8, 0x06}, {0x86, 127}), kUnknown},
        Case{"rbp where the return address is", cfa_expression({0x77, 8, 0x06}, {0x86, 1}),
             kUnknown},
        Case{"rbp near where rbp points", cfa_expression({0x76, 0x78, 0x06}, {0x10, 6, 2, 0x76, 8}),
             kUnknown},
        Case{"rbp where rsp points", cfa_expression({0x76, 0x78, 0x06}, {0x10, 6, 2, 0x77, 0}),
             kUnknown},
        Case{"a value of rbp", cfa_expression({0x76, 0x78, 0x06}, {0x16, 6, 2, 0x76, 0}), kUnknown},
        Case{"a register's own value", cfa_expression({0x77, 8}), kUnknown},
        Case{"loaded twice", cfa_expression({0x76, 0x78, 0x06, 0x06}), kUnknown},
        Case{"more after it", cfa_expression({0x76, 0x78, 0x06, 0x23, 8, 0x06}), kUnknown},
        Case{"an index", cfa_expression({0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 8}),
             kUnknown},
        Case{"no expression", cfa_expression({}), kUnknown},
        Case{"an expression that does not end", cfa_expression({0x76, 0x80}), kUnknown},
        Case{"a signal's frame without being one", cfa_expression({0x77, 0xa0, 0x01, 0x06}),
             loaded(20, 0, 0)},
        Case{"what is not an expression any more",
             cfa_expression({0x76, 0x78, 0x06}, {0x0c, 7, 16}), normal(2)}));

// --- Signal frames

// As of __restore_rt in the C library: the CFA, and the rules of rbp and rip.
const Bytes kSignalCfa = {0x0f, 4, 0x77, 0xa0, 0x01, 0x06};
const Bytes kSignalRbp = {0x10, 6, 3, 0x77, 0xf8, 0x00};
const Bytes kSignalRip = {0x10, 16, 3, 0x77, 0xa8, 0x01};

Rows rows_of_signal_frame(const Bytes& cfa, const Bytes& rbp, const Bytes& rip) {
  Bytes instructions = cfa;
  append(instructions, rbp);
  append(instructions, rip);
  return rows_of(instructions, {.augmentation = "zRS", .instructions = {}});
}

TEST(FrameRows, ASignalsFrameIsOne) {
  EXPECT_EQ(rows_of_signal_frame(kSignalCfa, kSignalRbp, kSignalRip), (Rows{{0, kSignal}}));
}

TEST(FrameRows, ASignalsFrameOfAnotherFormIsUnknown) {
  const Bytes other_cfa = {0x0f, 4, 0x77, 0x98, 0x01, 0x06};
  const Bytes other_rbp = {0x10, 6, 3, 0x77, 0xf0, 0x00};
  const Bytes other_rip = {0x10, 16, 3, 0x77, 0xa0, 0x01};
  EXPECT_EQ(rows_of_signal_frame(other_cfa, kSignalRbp, kSignalRip), Rows());
  EXPECT_EQ(rows_of_signal_frame(kSignalCfa, other_rbp, kSignalRip), Rows());
  EXPECT_EQ(rows_of_signal_frame(kSignalCfa, kSignalRbp, other_rip), Rows());
  EXPECT_EQ(rows_of_signal_frame(kSignalCfa, {}, kSignalRip), Rows());
  EXPECT_EQ(rows_of_signal_frame(kUsual, {}, {}), Rows());
}

TEST(FrameRows, AFrameWithTheRulesOfASignalsThatIsNotMarkedIsUnknown) {
  Bytes instructions = kSignalCfa;
  append(instructions, kSignalRbp);
  append(instructions, kSignalRip);
  EXPECT_EQ(rows_of(instructions), Rows());
}

// --- Where the rows begin

TEST(FrameRows, FollowAFunctionThroughItsPrologueAndEpilogue) {
  EXPECT_EQ(rows_of({
                0x41, 0x0e, 16, 0x86, 2,  // push %rbp
                0x43, 0x0d, 6,            // mov %rsp, %rbp
                0x60, 0x0c, 7, 8,         // leave
                0x41, 0x0c, 6, 16,        // what follows the return
            }),
            (Rows{{0, normal(1)},
                  {1, normal(2, 2)},
                  {4, normal(2, 2, kByRbp)},
                  {36, normal(1)},
                  {37, normal(2, 2, kByRbp)}}));
}

TEST(FrameRows, FollowARealignedFunction) {
  EXPECT_EQ(rows_of({
                0x45, 0x0c, 10, 0,                                // lea 8(%rsp), %r10
                0x4b, 0x10, 6,  2,    0x76, 0,                    // mov %rsp, %rbp
                0x42, 0x0f, 3,  0x76, 0x78, 0x06,                 // push %r10
                0x60, 0x0c, 10, 0,    0x45, 0x0c, 7, 8, 0x08, 6,  // pop %r10; lea -8(%r10), %rsp
            }),
            (Rows{{0, normal(1)},
                  {5, kUnknown},
                  {18, loaded(-1, 0, kByRbp | PP_FRAME_RBP_AT_RBP)},
                  {50, kUnknown},
                  {55, normal(1)}}));
}

TEST(FrameRows, RbpWasPoppedWhereARealignedFunctionReturns) {
  EXPECT_EQ(
      rows_of({
          0x45, 0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0,  //
          0x45, 0x0c, 7, 8,                                      // leave; lea -8(%r10), %rsp
      }),
      (Rows{{0, normal(1)}, {5, loaded(-1, 0, kByRbp | PP_FRAME_RBP_AT_RBP)}, {10, normal(1)}}));
}

TEST(FrameRows, EveryFormOfAdvanceIsFollowed) {
  EXPECT_EQ(rows_of({0x43, 0x0e, 16, 0x02, 5,    0x0e, 24,   0x03, 7, 0, 0x0e, 32, 0x04, 9, 0, 0,
                     0,    0x0e, 40, 0x01, 0x80, 0x23, 0x01, 0,    0, 0, 0,    0,  0x0e, 48}),
            (Rows{{0, normal(1)},
                  {3, normal(2)},
                  {8, normal(3)},
                  {15, normal(4)},
                  {24, normal(5)},
                  {0x80, normal(6)}}));
}

TEST(FrameRows, ALocationMayBeRelativeToItself) {
  EhFrameSection section;
  section.common({.pointer_encoding = 0x1c});  // PC-relative, 8 bytes
  const Address entry = kSection + section.bytes().size();
  // After the length and the CIE's distance: the code, the size, no augmentation data, set_loc.
  const Address begin_at = entry + 8, location_at = begin_at + 8 + 8 + 1 + 1;
  Bytes instructions = {0x01};
  append_number(instructions, kCode.begin + 0x40 - location_at, 8);
  append(instructions, {0x0e, 16});
  section.function({kCode.begin - begin_at, kCode.end - begin_at}, instructions);
  EXPECT_EQ(section.rows(), (Rows{{0, normal(1)}, {0x40, normal(2)}}));
}

TEST(FrameRows, AlignmentFactorsAreThoseOfTheCommonEntry) {
  const CommonFields common = {
      .instructions = {0x0c, 7, 8, 0x90, 2}, .code_alignment = 4, .data_alignment = 0x7c};  // -4
  EXPECT_EQ(rows_of({0x43, 0x0e, 32, 0x86, 4, 0x02, 2, 0x12, 7, 0x76}, common),
            (Rows{{0, normal(1)}, {12, normal(4, 2)}, {20, normal(5, 2)}}));
}

TEST(FrameRows, NeighboursThatAreEqualAreOneRow) {
  EXPECT_EQ(rows_of({0x41, 0x8c, 3, 0x42, 0x0e, 16, 0x43, 0x2e, 8, 0x44, 0x0e, 8, 0x40, 0x0e, 24}),
            (Rows{{0, normal(1)}, {3, normal(2)}, {10, normal(3)}}));
  EhFrameSection section;
  section.common().function({0x1'2300, 0x1'2380}).function({0x1'2380, 0x1'2400});
  EXPECT_EQ(section.rows(), (Rows{{0, normal(1)}})) << "of two functions, too";
}

TEST(FrameRows, EndWithTheirFunction) {
  EhFrameSection section;
  section.common().function({0x1'2300, 0x1'2310}, {0x50, 0x0e, 16, 0x41, 0x0e, 24});
  section.function({0x1'2320, 0x1'2330}, {0x5f, 0x0e, 32, 0x7f, 0x0e, 24});
  section.function({0x1'2330, 0x1'2400}, {0x0e, 40});
  EXPECT_EQ(section.rows(),
            (Rows{{0, normal(1)}, {0x10, kUnknown}, {0x20, normal(1)}, {0x30, normal(5)}}));
}

// --- Several functions

TEST(FrameRows, CodeWithoutAnEntryIsUnknown) {
  EhFrameSection section;
  section.common().function({0x1'2380, 0x1'2390}, {0x0e, 16}).function({0x1'2310, 0x1'2320});
  EXPECT_EQ(section.rows(), (Rows{{0, kUnknown},
                                  {0x10, normal(1)},
                                  {0x20, kUnknown},
                                  {0x80, normal(2)},
                                  {0x90, kUnknown}}));
}

TEST(FrameRows, FunctionsAreCutToTheCode) {
  EhFrameSection section;
  section.common().function({0x1'2000, 0x1'2200});
  section.function({0x1'22f0, 0x1'2310}, {0x44, 0x0e, 16, 0x4c, 0x0e, 24, 0x44, 0x0e, 32});
  section.function({0x1'23f0, 0x1'2410}, {0x48, 0x0e, 48, 0x50, 0x0e, 56});
  section.function({0x1'2400, 0x1'2500}, {0x0e, 64});
  EXPECT_EQ(
      section.rows(),
      (Rows{
          {0, normal(3)}, {4, normal(4)}, {0x10, kUnknown}, {0xf0, normal(1)}, {0xf8, normal(6)}}));
}

TEST(FrameRows, OfOverlappingFunctionsTheFirstByAddressKeepsItsCode) {
  EhFrameSection section;
  section.common().function({0x1'2310, 0x1'2340}, {0x0e, 32, 0x60, 0x0e, 40});
  section.function({0x1'2300, 0x1'2320}, {0x50, 0x0e, 16});
  section.function({0x1'2318, 0x1'2320}, {0x0e, 48});
  section.function({0x1'2300, 0x1'2304}, {0x0e, 56});
  EXPECT_EQ(section.rows(), (Rows{{0, normal(1)},
                                  {0x10, normal(2)},
                                  {0x20, normal(4)},
                                  {0x30, normal(5)},
                                  {0x40, kUnknown}}));
}

TEST(FrameRows, FunctionsOfNoSizeHaveNone) {
  EhFrameSection section;
  section.common().function({0x1'2340, 0x1'2340}).function(kCode, {0x0e, 16});
  EXPECT_EQ(section.rows(), (Rows{{0, normal(2)}}));
}

TEST(FrameRows, OfCodeOfWhichNothingIsKnownAreNone) {
  EXPECT_EQ(EhFrameSection().rows(), Rows());
  EhFrameSection section;
  section.common().function(kCode, {0x0e, 20});
  EXPECT_EQ(section.rows(), Rows()) << "an entry that says nothing";
  section.function({0x2'0000, 0x2'0100});
  EXPECT_EQ(section.rows(), Rows()) << "an entry for other code";
  EXPECT_EQ(section.rows({0x2'0000, 0x2'0000}), Rows()) << "no code";
  EXPECT_EQ(section.rows({0x2'0001, 0x2'0000}), Rows()) << "no code";
}

TEST(FrameRows, OfCodeOf4GBAreNone) {
  EhFrameSection section;
  section.common().function(kCode);
  const uint64_t most = UINT32_MAX;
  EXPECT_EQ(section.rows({kCode.begin, kCode.begin + most}),
            (Rows{{0, normal(1)}, {0x100, kUnknown}}));
  EXPECT_EQ(section.rows({kCode.begin, kCode.begin + most + 1}), Rows());
  EXPECT_EQ(section.rows({0, UINT64_MAX}), Rows());
}

TEST(FrameRows, RememberedStatesNest) {
  EXPECT_EQ(rows_of({0x0e, 16, 0x0a, 0x41, 0x0e, 24, 0x0a, 0x41, 0x0c, 6, 32, 0x86, 2, 0x41, 0x0b,
                     0x41, 0x0b}),
            (Rows{{0, normal(2)},
                  {1, normal(3)},
                  {2, normal(4, 2, kByRbp)},
                  {3, normal(3)},
                  {4, normal(2)}}));
}

TEST(FrameRows, RememberedStatesDoNotPassToTheNextFunction) {
  EhFrameSection section;
  section.common().function({0x1'2300, 0x1'2380}, {0x0a, 0x41, 0x0e, 16});
  section.function({0x1'2380, 0x1'2400}, {0x41, 0x0b, 0x41, 0x0e, 24});
  EXPECT_EQ(section.rows(),
            (Rows{{0, normal(1)}, {1, normal(2)}, {0x80, normal(1)}, {0x81, kUnknown}}));
}

// --- Common entries

TEST(FrameRows, Version3HasAReturnRegisterOfVariableLength) {
  EXPECT_EQ(rows_of({}, {.version = 3, .return_address_register = {0x90, 0x00}}),
            (Rows{{0, normal(1)}}));
}

TEST(FrameRows, AnotherReturnAddressRegisterIsUnknown) {
  EXPECT_EQ(rows_of({}, {.return_address_register = {15}}), Rows());
}

TEST(FrameRows, CommonInstructionsThatDoNotParseAreUnknown) {
  for (const Bytes& bad : {Bytes{0x3f}, Bytes{0xc6}, Bytes{0x06, 6}, Bytes{0x41}, Bytes{0x0b},
                           Bytes{0x0e, 0x88}, Bytes{0x01, 0, 0, 0, 0, 0, 0, 0, 0}}) {
    Bytes instructions = kUsual;
    append(instructions, bad);
    EhFrameSection section;
    section.common({.instructions = instructions}).function({0x1'2300, 0x1'2380}, {0x0c, 7, 8});
    section.common().function({0x1'2380, 0x1'2400});
    EXPECT_EQ(section.rows(), (Rows{{0, kUnknown}, {0x80, normal(1)}})) << int{bad[0]};
  }
}

// --- Hostile bytes

struct Malformed {
  const char* name;
  Bytes instructions;
};

TEST(HostileFrameRows, WhatDoesNotParseEndsItsFunctionAlone) {
  const Bytes huge = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
  const auto with_huge = [&](Bytes instructions) {
    append(instructions, huge);
    return instructions;
  };
  Bytes deep(65, 0x0a);
  for (const Malformed& bad : std::vector<Malformed>{
           {"an unknown instruction", {0x3f}},
           {"an instruction of another architecture", {0x2d}},
           {"no operand", {0x0e}},
           {"a number that does not end", {0x0e, 0x88, 0x80}},
           {"an expression that does not end", {0x0f, 0x7f, 0x77}},
           {"an expression longer than the section", with_huge({0x0f})},
           {"a rule's expression longer than the section", with_huge({0x10, 6})},
           {"a value's expression longer than the section", with_huge({0x16, 6})},
           {"an offset beyond 63 bits", with_huge({0x0e})},
           {"a CFA beyond 63 bits", with_huge({0x0c, 7})},
           {"an offset that overflows when it is factored", with_huge({0x86})},
           {"a signed offset that overflows",
            {0x11, 6, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f}},
           {"no state to restore", {0x0b}},
           {"too many remembered states", deep},
           {"an advance that does not end", {0x04, 1, 0, 0}},
           {"a location before", {0x01, 0x08, 0x23, 0x01, 0, 0, 0, 0, 0}},
           {"an offset without a register", {0x0f, 3, 0x77, 0x98, 0x06, 0x0e, 16}},
           {"a register without an offset", {0x0f, 3, 0x77, 0x98, 0x06, 0x0d, 7}},
       }) {
    Bytes instructions = {0x50};
    append(instructions, {0x0e, 16, 0x50});
    append(instructions, bad.instructions);
    EhFrameSection section;
    section.common().function({0x1'2300, 0x1'2380}, instructions);
    section.function({0x1'2380, 0x1'2400});
    EXPECT_EQ(section.rows(),
              (Rows{{0, normal(1)}, {0x10, normal(2)}, {0x20, kUnknown}, {0x80, normal(1)}}))
        << bad.name;
  }
}

TEST(HostileFrameRows, AsManyStatesAsAreAllowedAreRemembered) {
  Bytes instructions(64, 0x0a);
  append(instructions, {0x41, 0x0e, 16});
  EXPECT_EQ(rows_of(instructions), (Rows{{0, normal(1)}, {1, normal(2)}}));
}

TEST(HostileFrameRows, AnAdvanceBeyondTheEndOfMemoryIsUnknown) {
  const Range last = {UINT64_MAX - 0xff, UINT64_MAX};
  EhFrameSection section;
  section.common({.code_alignment = 0x7f}).function(last, {0x41, 0x0e, 16, 0x42, 0x0e, 24});
  EXPECT_EQ(section.rows(last), (Rows{{0, normal(1)}, {0x7f, kUnknown}}));
}

TEST(HostileFrameRows, CommonEntriesThatOverlapAreLeftOut) {
  // The instructions of the first are the second, to which the second function refers.
  Bytes inner = kUsual;
  const size_t inner_at = inner.size();
  append(inner, {0, 0, 0, 0});  // its length
  append(inner, {0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x04, 0x0c, 7, 8, 0x90, 1});
  EhFrameSection section;
  section.common({.instructions = inner});
  const size_t second = section.bytes().size() - inner.size() + inner_at;
  section.function({0x1'2300, 0x1'2380});
  section.refer_to(second);
  section.function({0x1'2380, 0x1'2400});
  const auto entries_with_length = [&](size_t length) {
    section.bytes().at(second) = static_cast<uint8_t>(length);
    return parse_eh_frame(section.bytes(), kSection).size();
  };
  EXPECT_EQ(entries_with_length(18), 2u);
  EXPECT_EQ(entries_with_length(section.bytes().size() - second - 4), 1u);
}

TEST(HostileFrameRows, EveryPrefixAndEveryFlippedByteIsHarmless) {
  EhFrameSection section;
  section.common().function({0x1'2300, 0x1'2340}, cfa_expression(plt_expression(11)));
  section.function({0x1'2340, 0x1'2380},
                   {0x41, 0x0e, 16, 0x86, 2, 0x0a, 0x43, 0x0d, 6, 0x42, 0x0b});
  section.function({0x1'2380, 0x1'2400}, cfa_expression({0x76, 0x78, 0x06}, {0x10, 6, 2, 0x76, 0}));
  const auto check = [&](std::span<const uint8_t> bytes) {
    const Rows rows = frame_rows(bytes, kSection, kCode);
    EXPECT_LE(rows.size(), bytes.size());
    uint64_t least = 0;
    for (const FrameRow& row : rows) {
      EXPECT_TRUE(least == 0 ? row.from == 0 : row.from >= least);
      EXPECT_LT(row.from, kCode.size());
      least = uint64_t{row.from} + 1;
    }
  };
  Bytes bytes = section.bytes();
  EXPECT_EQ(section.rows().size(), 6u);
  for (size_t size = 0; size < bytes.size(); ++size) check(std::span(bytes).first(size));
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int value = 0; value < 256; ++value) {
      const uint8_t old = std::exchange(bytes[at], static_cast<uint8_t>(value));
      check(bytes);
      bytes[at] = old;
    }
}

TEST(FrameRows, CanBeCancelled) {
  EhFrameSection section;
  section.common().function(kCode);
  Task task;
  Task::Scope scope(&task);
  task.cancel();
  EXPECT_THROW(section.rows(), Cancelled);
}

}  // namespace
}  // namespace pinprick::image
