#include "arch/known_code.h"

#include <gtest/gtest.h>

#include <vector>

namespace pinprick::arch {
namespace {

using Bytes = std::vector<uint8_t>;

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

TEST(KnownCode, IsNoneInTextThatEndsTooSoon) {
  for (size_t size = 0; size < kOfMusl.size(); ++size)
    EXPECT_TRUE(find_known_code(std::span(kOfMusl).first(size)).empty()) << size;
}

}  // namespace
}  // namespace pinprick::arch
