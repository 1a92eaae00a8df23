#include "arch/known_code.h"

#include <gtest/gtest.h>

#include <vector>

#include "bytes.h"

namespace pinprick::arch {
namespace {

// Where the code is found when it follows that many bytes of other code.
std::vector<size_t> found_in(Bytes code, size_t after = 5) {
  code.insert(code.begin(), after, 0x90);
  std::vector<size_t> offsets;
  for (const KnownCode& one : find_known_code(code)) offsets.push_back(one.offset - after);
  return offsets;
}

// musl 1.2.3, __syscall_cp_asm: from __cp_begin to __cp_end.
const Bytes kOfMusl = {0x8b, 0x07, 0x85, 0xc0, 0x75, 0x24, 0x49, 0x89, 0xfb, 0x48, 0x89,
                       0xf0, 0x48, 0x89, 0xd7, 0x48, 0x89, 0xce, 0x4c, 0x89, 0xc2, 0x4d,
                       0x89, 0xca, 0x4c, 0x8b, 0x44, 0x24, 0x08, 0x4c, 0x8b, 0x4c, 0x24,
                       0x10, 0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05};

TEST(KnownCode, IsWhereACallThatCanBeCancelledWaits) {
  EXPECT_EQ(found_in(kOfMusl), std::vector<size_t>{6});
  EXPECT_EQ(find_known_code(kOfMusl).front().size, kOfMusl.size() - 6) << "up to the call's end";
}

// HotSpot 17, SafeFetch32_impl to _SafeFetchN_continuation.
TEST(KnownCode, IsWhereAFaultIsNoError) {
  EXPECT_EQ(found_in({0x8b, 0x07, 0xc3, 0x89, 0xf0, 0xc3, 0x48, 0x8b, 0x07, 0xc3, 0x48, 0x89, 0xf0,
                      0xc3}),
            std::vector<size_t>{0});
  EXPECT_EQ(found_in({0x8b, 0x07, 0xc3, 0x48, 0x8b, 0x07, 0xc3}), std::vector<size_t>())
      << "any function that loads a value";
}

TEST(KnownCode, IsATemplateIntoWhichNumbersAreWritten) {
  const Bytes number(8, 0xf0);
  for (const Bytes& move : {Bytes{0x48, 0xb8}, Bytes{0x49, 0xba}}) {
    Bytes code = {0x48, 0x89, 0x37, 0x66, 0x90};  // mov %rsi,(%rdi); nop
    code.insert(code.end(), move.begin(), move.end());
    code.insert(code.end(), number.begin(), number.end());
    EXPECT_EQ(found_in(code), std::vector<size_t>{5});
  }
  EXPECT_EQ(found_in(number, 0), std::vector<size_t>()) << "data";
}

TEST(KnownCode, IsNoFunctionThatHasTheNumberAsAMask) {
  EXPECT_TRUE(is_template(Bytes{0x48, 0x89, 0x37, 0x66, 0x90}));   // mov %rsi,(%rdi)
  EXPECT_FALSE(is_template(Bytes{0x48, 0x89, 0xf8, 0x48, 0xba}));  // mov %rdi,%rax; movabs
  EXPECT_FALSE(is_template(Bytes{0x48, 0x89}));
}

Bytes jump_through(int32_t distance) {
  return joined({{0xff, 0x25}, little_endian(distance)});  // jmp *distance(%rip)
}
Bytes load_r10(int32_t distance) {
  return joined({{0x4c, 0x8b, 0x15}, little_endian(distance)});  // mov distance(%rip),%r10
}

// CoreCLR, thunktemplates.S: the data of a copy lies a page after it, whatever size pages have.
class TemplateOf : public testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(PageSizes, TemplateOf, testing::Values(4096, 8192, 16384, 32768, 65536));

TEST_P(TemplateOf, IsCodeWhoseJumpsReadTheirTargetFromCode) {
  const int32_t page = GetParam();
  struct Template {
    Bytes code;
    std::vector<size_t> jumps;
  };
  const Template all[] = {
      {joined({load_r10(page - 7), jump_through(page - 5)}), {7}},  // StubPrecode
      {joined({jump_through(page - 6), load_r10(page - 5), jump_through(page - 3)}), {0, 13}},
      {joined({{0x48, 0x8b, 0x05},
               little_endian(page - 7),
               {0x66, 0xff, 0x08, 0x74, 0x06},
               jump_through(page - 10),
               jump_through(page - 8)}),
       {12, 18}},  // CallCounting
  };
  for (const Template& one : all) {
    Bytes code = one.code;
    code.resize(static_cast<size_t>(page) + 24, 0xcc);
    EXPECT_EQ(found_in(code), one.jumps);
    for (const KnownCode& known : find_known_code(code))
      EXPECT_EQ(known.proof, KnownCode::Proof::is_instruction);
    code.resize(static_cast<size_t>(page));
    EXPECT_EQ(found_in(code, 0), std::vector<size_t>()) << "the pointer is no code";
  }
}

TEST(KnownCode, IsATemplateWhoseDataLieBeforeIt) {
  for (const int32_t distance : {-14, -64, -70}) {
    Bytes code(64, 0xcc);
    const Bytes jump = jump_through(distance);
    code.insert(code.end(), jump.begin(), jump.end());
    EXPECT_EQ(found_in(code, 0), std::vector<size_t>{64}) << distance;
  }
  EXPECT_EQ(found_in(jump_through(-7), 0), std::vector<size_t>()) << "it lies before all code";
  EXPECT_EQ(found_in(jump_through(0), 0), std::vector<size_t>()) << "it lies after all code";
}

// QEMU 7.2, safe_syscall_start to safe_syscall_end.
TEST(KnownCode, IsWhereAnEmulatedCallLooksForSignals) {
  const Bytes check = {0x83, 0x7d, 0x00, 0x00, 0x75, 0x0e, 0x0f, 0x05};
  EXPECT_EQ(found_in(check), std::vector<size_t>{0});
  EXPECT_EQ(find_known_code(check).front().size, check.size());
  EXPECT_EQ(found_in({0x83, 0x7d, 0x00, 0x00, 0x75, 0x0e, 0x0f, 0x0b}), std::vector<size_t>());
  for (size_t size = 0; size < check.size(); ++size)
    EXPECT_TRUE(find_known_code(std::span(check).first(size)).empty()) << size;
}

TEST(KnownCode, IsNoneInTextThatEndsTooSoon) {
  for (size_t size = 0; size < kOfMusl.size(); ++size)
    EXPECT_TRUE(find_known_code(std::span(kOfMusl).first(size)).empty()) << size;
}

}  // namespace
}  // namespace pinprick::arch
