// Where Go functions can be counted. The bytes are from Go 1.19's compiler.
#include "arch/stack_check.h"

#include <gtest/gtest.h>

#include "bytes.h"

namespace pinprick::arch {
namespace {

const Bytes kSmall = {0x49, 0x3b, 0x66, 0x10};  // cmp 16(%r14),%rsp
const Bytes kLarge = {0x4d, 0x3b, 0x66, 0x10};  // cmp 16(%r14),%r12
const Bytes kLea = {0x4c, 0x8d, 0x64, 0x24, 0xe8};
const Bytes kLongLea = {0x4c, 0x8d, 0xa4, 0x24, 0x18, 0xff, 0xff, 0xff};
const Bytes kJbe = {0x76, 0x28};
const Bytes kLongJbe = {0x0f, 0x86, 0x90, 1, 0, 0};

TEST(StackCheck, OfASmallFrameIsDisplacedAsAWhole) {
  EXPECT_EQ(displaced_of_stack_check(joined({kSmall, kJbe, {0x55}})), 6);
  EXPECT_EQ(displaced_of_stack_check(joined({kSmall, kLongJbe, {0x55}})), 10);
}

TEST(StackCheck, OfALargeFrameStartsWithAnInstructionThatHoldsAJump) {
  EXPECT_EQ(displaced_of_stack_check(joined({kLea, kLarge, kJbe})), 5);
  EXPECT_EQ(displaced_of_stack_check(joined({kLea, kLarge, kLongJbe})), 5);
  EXPECT_EQ(displaced_of_stack_check(joined({kLongLea, kLarge, kLongJbe})), 8);
}

// What looks like part of it may be something else, such as C code in a program that Go has linked.
TEST(StackCheck, IsOnlyAWholeOne) {
  const Bytes kPush = {0x55};
  const Bytes kJa = {0x77, 0x28};
  for (const Bytes& code :
       {Bytes{}, kSmall, kLea, kLongLea, joined({kLea, kLarge}), kJbe, joined({kSmall, kJa}),
        joined({kLarge, kJbe}), joined({kLea, kJbe}), joined({kLea, kSmall, kJbe}),
        joined({kPush, kSmall, kJbe}), joined({kSmall, kPush, kJbe})}) {
    EXPECT_EQ(displaced_of_stack_check(code), 0) << code.size();
    for (size_t size = 0; size < code.size(); ++size)
      EXPECT_EQ(displaced_of_stack_check(std::span(code).first(size)), 0);
  }
}

}  // namespace
}  // namespace pinprick::arch
