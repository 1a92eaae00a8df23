#include "arch/faults.h"

#include <gtest/gtest.h>

#include "bytes.h"

namespace pinprick::arch {
namespace {

struct Case {
  const char* code;
  Bytes bytes;
};

TEST(Instruction, CanFaultWhereTheProgramChoosesTheAddress) {
  const Case cases[] = {
      {"mov (%rdi),%eax", {0x8b, 0x07}},
      {"mov %rsi,(%rdi)", {0x48, 0x89, 0x37}},
      {"mov -8(%rbp),%eax", {0x8b, 0x45, 0xf8}},
      {"mov (%rsp,%rax,8),%eax", {0x8b, 0x04, 0xc4}},
      {"cmpb $0,(%rdi)", {0x80, 0x3f, 0x00}},
      {"mov 0x1000,%eax", {0x8b, 0x04, 0x25, 0x00, 0x10, 0x00, 0x00}},
      {"mov %fs:(%rax),%rax", {0x64, 0x48, 0x8b, 0x00}},
      {"rep stosb", {0xf3, 0xaa}},
      {"push (%rdi)", {0xff, 0x37}},
      {"idiv %esi", {0xf7, 0xfe}},
      {"div %rsi", {0x48, 0xf7, 0xf6}},
      {"call *(%rdi)", {0xff, 0x17}},
      {"nothing", {}},
      {"half of one", {0x48, 0x8b}},
  };
  for (const Case& one : cases) EXPECT_TRUE(can_fault(one.bytes)) << one.code;
}

TEST(Instruction, CannotFaultInRegistersItsOwnObjectThreadLocalsAndTheStack) {
  const Case cases[] = {
      {"push %rbp", {0x55}},
      {"sub $16,%rsp", {0x48, 0x83, 0xec, 0x10}},
      {"mov %rdi,8(%rsp)", {0x48, 0x89, 0x7c, 0x24, 0x08}},
      {"lea (%rdi,%rsi),%rax", {0x48, 0x8d, 0x04, 0x37}},
      {"mov 0x1234(%rip),%rax", {0x48, 0x8b, 0x05, 0x34, 0x12, 0x00, 0x00}},
      {"mov %fs:0x28,%rax", {0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00}},
      {"nopw 0(%rax,%rax)", {0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00}},
      {"test %rdx,%rdx", {0x48, 0x85, 0xd2}},
      {"je", {0x74, 0x08}},
      {"ret", {0xc3}},
  };
  for (const Case& one : cases) EXPECT_FALSE(can_fault(one.bytes)) << one.code;
}

TEST(Function, HasNoFrameIfOnlyItsReturnsMoveTheStackPointer) {
  const Bytes load = {0x48, 0x8b, 0x07}, ret = {0xc3};
  EXPECT_TRUE(has_no_frame(joined({load, ret})));
  EXPECT_TRUE(has_no_frame(joined({load, {0xe9, 0, 0, 0, 0}}))) << "a tail call";
  EXPECT_TRUE(has_no_frame(joined({load, {0x06}}))) << "no instruction";
  for (const Bytes& moves : {Bytes{0x55}, Bytes{0x48, 0x83, 0xec, 0x10}, Bytes{0xe8, 0, 0, 0, 0},
                             Bytes{0x48, 0x8d, 0x64, 0x24, 0xf8}, Bytes{0x5d}})
    EXPECT_FALSE(has_no_frame(joined({load, moves, ret})));
}

}  // namespace
}  // namespace pinprick::arch
