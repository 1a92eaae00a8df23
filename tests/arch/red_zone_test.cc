// Which code addresses memory below the stack pointer, and which only moves it.
#include "arch/red_zone.h"

#include <gtest/gtest.h>

#include "bytes.h"

namespace pinprick::arch {
namespace {

struct Case {
  const char* assembly;
  Bytes bytes;
};

TEST(RedZone, IsAddressedByNegativeOffsetsFromTheStackPointer) {
  const Case kCases[] = {
      {"mov -8(%rsp),%rax", {0x48, 0x8b, 0x44, 0x24, 0xf8}},
      {"mov %rax,-128(%rsp)", {0x48, 0x89, 0x44, 0x24, 0x80}},
      {"mov -0x90(%rsp),%rax", {0x48, 0x8b, 0x84, 0x24, 0x70, 0xff, 0xff, 0xff}},
      {"mov -8(%rsp,%rcx,8),%rax", {0x48, 0x8b, 0x44, 0xcc, 0xf8}},
      {"lea -16(%rsp),%rdi", {0x48, 0x8d, 0x7c, 0x24, 0xf0}},
      {"movaps %xmm0,-24(%rsp)", {0x0f, 0x29, 0x44, 0x24, 0xe8}},
      {"nop; push -8(%rsp)", {0x90, 0xff, 0x74, 0x24, 0xf8}},
  };
  for (const Case& c : kCases) EXPECT_TRUE(addresses_below_stack(c.bytes)) << c.assembly;
}

TEST(RedZone, IsNotAddressedByMovingTheStackPointerOrByOtherRegisters) {
  const Case kCases[] = {
      {"nothing", {}},
      {"mov (%rsp),%rax; mov 8(%rsp),%rax", {0x48, 0x8b, 0x04, 0x24, 0x48, 0x8b, 0x44, 0x24, 0x08}},
      {"lea -24(%rsp),%rsp", {0x48, 0x8d, 0x64, 0x24, 0xe8}},
      {"sub $24,%rsp; push %rax", {0x48, 0x83, 0xec, 0x18, 0x50}},
      {"mov -8(%rbp),%rax; mov -8(%r12),%rax",
       {0x48, 0x8b, 0x45, 0xf8, 0x49, 0x8b, 0x44, 0x24, 0xf8}},
      {"mov -8(%rip),%rax", {0x48, 0x8b, 0x05, 0xf8, 0xff, 0xff, 0xff}},
  };
  for (const Case& c : kCases) EXPECT_FALSE(addresses_below_stack(c.bytes)) << c.assembly;
}

TEST(RedZone, MayBeAddressedByBytesThatAreNotCode) {
  EXPECT_TRUE(addresses_below_stack(Bytes{0x90, 0x06}));
  EXPECT_TRUE(addresses_below_stack(Bytes{0x48, 0x8b, 0x44}));
}

}  // namespace
}  // namespace pinprick::arch
