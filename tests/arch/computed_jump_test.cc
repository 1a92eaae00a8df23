// Where the computed jump at the end of straight-line code leads.
#include "arch/computed_jump.h"

#include <gtest/gtest.h>

#include "bytes.h"

namespace pinprick::arch {
namespace {

constexpr Address kAddress = 0x1000;

struct Case {
  const char* assembly;
  Bytes bytes;
  Address base = 0;
  uint64_t stride = 0;
  bool only_up = false;
};

// lea 0x100(%rip),%rdx; the label is at 0x1107
const Bytes kLabel = {0x48, 0x8d, 0x15, 0x00, 0x01, 0x00, 0x00};
constexpr Address kLabelAddress = 0x1107;

Bytes after_label(Bytes bytes) {
  bytes.insert(bytes.begin(), kLabel.begin(), kLabel.end());
  return bytes;
}

TEST(ComputedJump, LeadsToMultiplesOfAPowerOfTwoFromItsShift) {
  const Case kCases[] = {
      {"shl $6,%ecx; add %rdx,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0x48, 0x01, 0xd1, 0xff, 0xe1},
       kLabelAddress,
       64,
       true},
      {"shl $5,%ecx; lea (%rcx,%rcx,2),%r8d; add %r8,%rdx; jmp *%rdx",
       {0xc1, 0xe1, 0x05, 0x44, 0x8d, 0x04, 0x49, 0x4c, 0x01, 0xc2, 0xff, 0xe2},
       kLabelAddress,
       32,
       true},
      {"lea (%rdx,%rdi,4),%rax; jmp *%rax", {0x48, 0x8d, 0x04, 0xba, 0xff, 0xe0}, kLabelAddress, 4},
      {"mov %edi,%edi; lea (%rdx,%rdi,4),%rax; jmp *%rax",
       {0x89, 0xff, 0x48, 0x8d, 0x04, 0xba, 0xff, 0xe0},
       kLabelAddress,
       4,
       true},
      {"mov %edi,%edi; neg %rdi; lea (%rdx,%rdi,4),%rax; jmp *%rax",
       {0x89, 0xff, 0x48, 0xf7, 0xdf, 0x48, 0x8d, 0x04, 0xba, 0xff, 0xe0},
       kLabelAddress,
       4},
      {"mov %edi,%edi; shl $60,%rdi; add %rdx,%rdi; jmp *%rdi",
       {0x89, 0xff, 0x48, 0xc1, 0xe7, 0x3c, 0x48, 0x01, 0xd7, 0xff, 0xe7},
       kLabelAddress,
       uint64_t{1} << 60},
      {"lea 8(%rdx,%rdi,8),%rax; notrack jmp *%rax",
       {0x48, 0x8d, 0x44, 0xfa, 0x08, 0x3e, 0xff, 0xe0},
       kLabelAddress + 8,
       8},
      {"shl $4,%rdi; mov %rdi,%rax; add %rdx,%rax; jmp *%rax",
       {0x48, 0xc1, 0xe7, 0x04, 0x48, 0x89, 0xf8, 0x48, 0x01, 0xd0, 0xff, 0xe0},
       kLabelAddress,
       16},
  };
  for (const Case& c : kCases) {
    const auto jump = computed_jump(after_label(c.bytes), kAddress);
    ASSERT_TRUE(jump) << c.assembly;
    EXPECT_EQ(jump->base, c.base) << c.assembly;
    EXPECT_EQ(jump->stride, c.stride) << c.assembly;
    EXPECT_EQ(jump->only_up, c.only_up) << c.assembly;
  }
}

TEST(ComputedJump, IsUnknownIfTheCodeDoesNotShowHowItIsComputed) {
  const Case kCases[] = {
      {"add %rdi,%rdx; jmp *%rdx", {0x48, 0x01, 0xfa, 0xff, 0xe2}},
      {"movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax",
       {0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0}},
      {"shl $6,%ecx; or $1,%ecx; add %rdx,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0x83, 0xc9, 0x01, 0x48, 0x01, 0xd1, 0xff, 0xe1}},
      {"shl %cl,%rdi; add %rdx,%rdi; jmp *%rdi", {0x48, 0xd3, 0xe7, 0x48, 0x01, 0xd7, 0xff, 0xe7}},
      {"shl $6,%ecx; inc %rdx; add %rdx,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0x48, 0xff, 0xc2, 0x48, 0x01, 0xd1, 0xff, 0xe1}},
      {"shl $6,%ecx; mul %rsi; add %rdx,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0x48, 0xf7, 0xe6, 0x48, 0x01, 0xd1, 0xff, 0xe1}},
      {"shl $6,%ecx; xchg %rcx,%rdx; add %rsi,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0x48, 0x87, 0xd1, 0x48, 0x01, 0xf1, 0xff, 0xe1}},
      {"shl $6,%ecx; mov $1,%cl; add %rdx,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0xb1, 0x01, 0x48, 0x01, 0xd1, 0xff, 0xe1}},
      // Only half of the sum.
      {"shl $6,%ecx; add %edx,%ecx; jmp *%rcx", {0xc1, 0xe1, 0x06, 0x01, 0xd1, 0xff, 0xe1}},
      {"lea (%edx,%edi,4),%rax; jmp *%rax", {0x67, 0x48, 0x8d, 0x04, 0xba, 0xff, 0xe0}},
      // Four times an address is not an address.
      {"lea (%rsi,%rdx,4),%rax; jmp *%rax", {0x48, 0x8d, 0x04, 0x96, 0xff, 0xe0}},
      // The register of the jump holds something else.
      {"shl $6,%ecx; add %rdx,%rcx; jmp *%rax", {0xc1, 0xe1, 0x06, 0x48, 0x01, 0xd1, 0xff, 0xe0}},
      {"shl $6,%ecx; add %rdx,%rcx; jmp *(%rcx)", {0xc1, 0xe1, 0x06, 0x48, 0x01, 0xd1, 0xff, 0x21}},
  };
  for (const Case& c : kCases)
    EXPECT_FALSE(computed_jump(after_label(c.bytes), kAddress)) << c.assembly;
}

TEST(ComputedJump, IsUnknownAfterACallABranchOrInvalidBytes) {
  const Case kCases[] = {
      {"shl $6,%ecx; call; add %rdx,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0xe8, 0, 0, 0, 0, 0x48, 0x01, 0xd1, 0xff, 0xe1}},
      {"shl $6,%ecx; je .; add %rdx,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0x74, 0xfe, 0x48, 0x01, 0xd1, 0xff, 0xe1}},
      {"shl $6,%ecx; (bad); add %rdx,%rcx; jmp *%rcx",
       {0xc1, 0xe1, 0x06, 0x06, 0x48, 0x01, 0xd1, 0xff, 0xe1}},
      {"shl $6,%ecx; add %rdx,%rcx; (cut off)", {0xc1, 0xe1, 0x06, 0x48, 0x01, 0xd1, 0xff}},
  };
  for (const Case& c : kCases)
    EXPECT_FALSE(computed_jump(after_label(c.bytes), kAddress)) << c.assembly;
}

TEST(ComputedJump, NeedsAnAddress) {
  const Bytes no_label = {0xc1, 0xe1, 0x06, 0x48, 0x01, 0xd1, 0xff, 0xe1};
  EXPECT_FALSE(computed_jump(no_label, kAddress));
  EXPECT_FALSE(computed_jump({}, kAddress));
}

}  // namespace
}  // namespace pinprick::arch
