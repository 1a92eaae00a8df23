// What of a Go function may run in a stub. The bytes are those of Go 1.19's compiler.
#include "arch/x86_64/goroutine.h"

#include <gtest/gtest.h>

#include "bytes.h"

namespace pinprick::arch {
namespace {

struct Case {
  const char* assembly;
  Bytes bytes;
};

TEST(Goroutine, MayRunElsewhereInTheCheckOfItsStack) {
  const Case kCases[] = {
      {"cmp 16(%r14),%rsp; jbe .+40", {0x49, 0x3b, 0x66, 0x10, 0x76, 0x28}},
      {"cmp 16(%r14),%rsp; jbe .+400", {0x49, 0x3b, 0x66, 0x10, 0x0f, 0x86, 0x90, 1, 0, 0}},
      {"lea -24(%rsp),%r12", {0x4c, 0x8d, 0x64, 0x24, 0xe8}},
      {"mov %fs:-8,%rcx", {0x64, 0x48, 0x8b, 0x0c, 0x25, 0xf8, 0xff, 0xff, 0xff}},
  };
  for (const Case& c : kCases) EXPECT_TRUE(goroutine_may_run_elsewhere(c.bytes)) << c.assembly;
}

TEST(Goroutine, MayRunElsewhereInOneInstructionThatCannotFault) {
  const Case kCases[] = {
      {"mov $42,%eax", {0xb8, 0x2a, 0, 0, 0}},
      {"sub $400,%rsp", {0x48, 0x81, 0xec, 0x90, 1, 0, 0}},
      {"mov %rax,8(%rsp)", {0x48, 0x89, 0x44, 0x24, 0x08}},
      {"mov 0x100(%rip),%rcx", {0x48, 0x8b, 0x0d, 0, 1, 0, 0}},
      {"call .+0x100", {0xe8, 0, 1, 0, 0}},
      {"push %rbp", {0x55}},
      {"lea 8(%rax),%rcx", {0x48, 0x8d, 0x48, 0x08}},
  };
  for (const Case& c : kCases) EXPECT_TRUE(goroutine_may_run_elsewhere(c.bytes)) << c.assembly;
}

// Somebody may be suspended at the second.
TEST(Goroutine, MayNotRunElsewhereInSeveralInstructions) {
  const Case kCases[] = {
      {"lea (%rax,%rax,2),%rax; inc %rax", {0x48, 0x8d, 0x04, 0x40, 0x48, 0xff, 0xc0}},
      {"cmp 16(%r14),%rsp; ja .+40", {0x49, 0x3b, 0x66, 0x10, 0x77, 0x28}},
      {"cmp 16(%r14),%rsp; jbe .+40; push %rbp", {0x49, 0x3b, 0x66, 0x10, 0x76, 0x28, 0x55}},
      {"nop; nop; nop; nop; nop", {0x90, 0x90, 0x90, 0x90, 0x90}},
      {"nothing", {}},
  };
  for (const Case& c : kCases) EXPECT_FALSE(goroutine_may_run_elsewhere(c.bytes)) << c.assembly;
}

// A nil pointer is a panic, which the program may recover from.
TEST(Goroutine, MayNotRunElsewhereInWhatMayFault) {
  const Case kCases[] = {
      {"mov (%rax),%rax", {0x48, 0x8b, 0x00}},
      {"movq $1,8(%rax)", {0x48, 0xc7, 0x40, 0x08, 1, 0, 0, 0}},
      {"test %al,(%rax)", {0x84, 0x00}},
      {"mov 8(%rsp,%rcx,8),%rax", {0x48, 0x8b, 0x44, 0xcc, 0x08}},
      {"call *(%rdx)", {0xff, 0x12}},
      {"rep movsq", {0xf3, 0x48, 0xa5}},
  };
  for (const Case& c : kCases) EXPECT_FALSE(goroutine_may_run_elsewhere(c.bytes)) << c.assembly;
}

}  // namespace
}  // namespace pinprick::arch
