// What a decoded instruction says, for annotated bytes.
#include "arch/code.h"

#include <gtest/gtest.h>

#include "bytes.h"

namespace pinprick::arch {
namespace {

constexpr Address kHere = 0x401000;

Instruction decoded(const Bytes& bytes) {
  const auto instruction = decode(bytes, kHere);
  EXPECT_TRUE(instruction) << testing::PrintToString(bytes);
  if (!instruction) return {};
  EXPECT_EQ(instruction->length, bytes.size()) << testing::PrintToString(bytes);
  EXPECT_EQ(instruction->address, kHere);
  return *instruction;
}

TEST(Decode, SaysWhereExecutionGoesAfterAnInstruction) {
  const struct {
    const char* assembly;
    Bytes bytes;
    Flow flow;
  } kCases[] = {
      {"push %rbp", {0x55}, Flow::next},
      {"mov %rdi,(%rsp)", {0x48, 0x89, 0x3c, 0x24}, Flow::next},
      {"syscall", {0x0f, 0x05}, Flow::next},
      {"int $0x80", {0xcd, 0x80}, Flow::next},
      {"jmp .+2+16", {0xeb, 0x10}, Flow::jump},
      {"jmp .+5+16", {0xe9, 0x10, 0, 0, 0}, Flow::jump},
      {"bnd jmp .+6+16", {0xf2, 0xe9, 0x10, 0, 0, 0}, Flow::jump},
      {"je .+2+16", {0x74, 0x10}, Flow::jump_if},
      {"je .+6+16", {0x0f, 0x84, 0x10, 0, 0, 0}, Flow::jump_if},
      {"loop .+2-4", {0xe2, 0xfc}, Flow::jump_if},
      {"loope .+2-4", {0xe1, 0xfc}, Flow::jump_if},
      {"loopne .+2-4", {0xe0, 0xfc}, Flow::jump_if},
      {"jrcxz .+2+16", {0xe3, 0x10}, Flow::jump_if},
      {"jecxz .+3+16", {0x67, 0xe3, 0x10}, Flow::jump_if},
      {"xbegin .+6+16", {0xc7, 0xf8, 0x10, 0, 0, 0}, Flow::jump_if},
      {"call .+5+16", {0xe8, 0x10, 0, 0, 0}, Flow::call},
      {"data16 data16 rex.W call", {0x66, 0x66, 0x48, 0xe8, 0x10, 0, 0, 0}, Flow::call},
      {"jmp *%rax", {0xff, 0xe0}, Flow::jump_indirect},
      {"notrack jmp *%rax", {0x3e, 0xff, 0xe0}, Flow::jump_indirect},
      {"jmp *0x10(%rip)", {0xff, 0x25, 0x10, 0, 0, 0}, Flow::jump_indirect},
      {"ljmp *(%rax)", {0xff, 0x28}, Flow::jump_indirect},
      {"call *%rax", {0xff, 0xd0}, Flow::call_indirect},
      {"call *8(%rsp)", {0xff, 0x54, 0x24, 0x08}, Flow::call_indirect},
      {"lcall *(%rax)", {0xff, 0x18}, Flow::call_indirect},
      {"ret", {0xc3}, Flow::ret},
      {"ret $16", {0xc2, 0x10, 0x00}, Flow::ret},
      {"repz ret", {0xf3, 0xc3}, Flow::ret},
      {"lret", {0xcb}, Flow::ret},
      {"iretq", {0x48, 0xcf}, Flow::ret},
      {"ud2", {0x0f, 0x0b}, Flow::trap},
      {"ud1 %eax,%eax", {0x0f, 0xb9, 0xc0}, Flow::trap},
      {"int3", {0xcc}, Flow::trap},
      {"hlt", {0xf4}, Flow::trap},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.assembly);
    EXPECT_EQ(decoded(c.bytes).flow, c.flow);
  }
}

TEST(Decode, InstructionsThatContinueOrReturnHereFallThrough) {
  EXPECT_TRUE(decoded({0x55}).falls_through());              // push %rbp
  EXPECT_TRUE(decoded({0x74, 0x10}).falls_through());        // je
  EXPECT_TRUE(decoded({0xe8, 0, 0, 0, 0}).falls_through());  // call
  EXPECT_TRUE(decoded({0xff, 0xd0}).falls_through());        // call *%rax
  EXPECT_FALSE(decoded({0xeb, 0x10}).falls_through());       // jmp
  EXPECT_FALSE(decoded({0xff, 0xe0}).falls_through());       // jmp *%rax
  EXPECT_FALSE(decoded({0xc3}).falls_through());             // ret
  EXPECT_FALSE(decoded({0x0f, 0x0b}).falls_through());       // ud2
  EXPECT_TRUE(decoded({0xe8, 0, 0, 0, 0}).is_call());        // call
  EXPECT_TRUE(decoded({0xff, 0xd0}).is_call());              // call *%rax
  EXPECT_FALSE(decoded({0xe9, 0, 0, 0, 0}).is_call());       // jmp
  EXPECT_FALSE(decoded({0x68, 0, 0, 0, 0}).is_call());       // push $0
}

TEST(Decode, ATargetCountsFromTheEndOfTheInstruction) {
  EXPECT_EQ(decoded({0xeb, 0x10}).target, kHere + 2 + 0x10);         // jmp
  EXPECT_EQ(decoded({0xeb, 0xfe}).target, kHere);                    // jmp to itself
  EXPECT_EQ(decoded({0xeb, 0x80}).target, kHere + 2 - 0x80);         // jmp
  EXPECT_EQ(decoded({0xe9, 0xfb, 0xff, 0xff, 0xff}).target, kHere);  // jmp to itself
  EXPECT_EQ(decoded({0xe8, 0x00, 0x00, 0x00, 0x80}).target, kHere + 5 - 0x80000000ull);     // call
  EXPECT_EQ(decoded({0x0f, 0x8f, 0x78, 0x56, 0x34, 0x12}).target, kHere + 6 + 0x12345678);  // jg
  EXPECT_EQ(decoded({0x7f, 0x70}).target, kHere + 2 + 0x70);                                // jg
  EXPECT_EQ(decoded({0xe3, 0xf0}).target, kHere + 2 - 0x10);                                // jrcxz
  EXPECT_EQ(decoded({0x67, 0xe3, 0xf0}).target, kHere + 3 - 0x10);                          // jecxz
  EXPECT_EQ(decoded({0xe2, 0xf0}).target, kHere + 2 - 0x10);                                // loop
  EXPECT_EQ(decoded({0xc7, 0xf8, 0x10, 0, 0, 0}).target, kHere + 6 + 0x10);  // xbegin
  // data16 data16 rex.W call, as calls of __tls_get_addr are written
  EXPECT_EQ(decoded({0x66, 0x66, 0x48, 0xe8, 0x10, 0, 0, 0}).target, kHere + 8 + 0x10);
}

TEST(Decode, OnlyDirectBranchesHaveATarget) {
  EXPECT_TRUE(decoded({0xeb, 0x10}).has_target());            // jmp
  EXPECT_TRUE(decoded({0x74, 0x10}).has_target());            // je
  EXPECT_TRUE(decoded({0xe8, 0x10, 0, 0, 0}).has_target());   // call
  EXPECT_FALSE(decoded({0xff, 0xe0}).has_target());           // jmp *%rax
  EXPECT_FALSE(decoded({0xff, 0xd0}).has_target());           // call *%rax
  EXPECT_FALSE(decoded({0xc3}).has_target());                 // ret
  EXPECT_FALSE(decoded({0x68, 0x10, 0, 0, 0}).has_target());  // push $0x10
}

TEST(Decode, KnowsNopsOfEveryLength) {
  // As the GNU assembler, the LLVM one and Intel's manual write them.
  const Bytes kNops[] = {
      {0x90},                                                              // nop
      {0x66, 0x90},                                                        // xchg %ax,%ax
      {0x0f, 0x1f, 0x00},                                                  // nopl (%rax)
      {0x0f, 0x1f, 0x40, 0x00},                                            // nopl 0(%rax)
      {0x0f, 0x1f, 0x44, 0x00, 0x00},                                      // nopl 0(%rax,%rax)
      {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},                                // nopw 0(%rax,%rax)
      {0x0f, 0x1f, 0x80, 0, 0, 0, 0},                                      // nopl 0L(%rax)
      {0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},                                // nopl 0L(%rax,%rax)
      {0x66, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},                          // nopw 0L(%rax,%rax)
      {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},                    // cs nopw
      {0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},              // data16 cs nopw
      {0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},        // ...
      {0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},  // ...
      {0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},
      {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},
  };
  for (size_t length = 1; length <= kMaxInstructionLength; ++length) {
    const Instruction nop = decoded(kNops[length - 1]);
    EXPECT_EQ(nop.length, length);
    EXPECT_EQ(nop.special, Special::nop) << length;
    EXPECT_EQ(nop.flow, Flow::next) << length;
  }
}

TEST(Decode, WhatOnlyLooksLikeANopIsNotOne) {
  EXPECT_EQ(decoded({0xf3, 0x90}).special, Special::none);        // pause
  EXPECT_EQ(decoded({0x41, 0x90}).special, Special::none);        // xchg %r8d,%eax
  EXPECT_EQ(decoded({0x49, 0x90}).special, Special::none);        // xchg %r8,%rax
  EXPECT_EQ(decoded({0x66, 0x41, 0x90}).special, Special::none);  // xchg %r8w,%ax
  EXPECT_EQ(decoded({0x87, 0xc0}).special, Special::none);  // xchg %eax,%eax: clears the upper half
  EXPECT_EQ(decoded({0x66, 0x87, 0xc9}).special,
            Special::none);  // xchg %cx,%cx, which is not used as a nop
  EXPECT_EQ(decoded({0x66, 0x91}).special, Special::none);                    // xchg %ax,%cx
  EXPECT_EQ(decoded({0x0f, 0x0d, 0x08}).special, Special::none);              // prefetchw (%rax)
  EXPECT_EQ(decoded({0xf3, 0x48, 0x0f, 0x1e, 0xc8}).special, Special::none);  // rdsspq %rax
}

TEST(Decode, RecognisesWhatThePlannerTreatsSpecially) {
  EXPECT_EQ(decoded({0xf3, 0x0f, 0x1e, 0xfa}).special, Special::landing_pad);
  EXPECT_EQ(decoded({0xf3, 0x0f, 0x1e, 0xfb}).special, Special::none);  // endbr32: a nop here
  EXPECT_EQ(decoded({0xcc}).special, Special::int3);
  EXPECT_EQ(decoded({0xcd, 0x03}).special, Special::none);  // int $3, in two bytes
  EXPECT_EQ(decoded({0x0f, 0x05}).special, Special::syscall);
  EXPECT_EQ(decoded({0x0f, 0x34}).special, Special::none);  // sysenter
}

TEST(Decode, FindsTheLastStepOfAJumpTablesAddress) {
  EXPECT_EQ(decoded({0x48, 0x01, 0xd0}).special, Special::add_register);      // add %rdx,%rax
  EXPECT_EQ(decoded({0x4c, 0x03, 0xc1}).special, Special::add_register);      // add %rcx,%r8
  EXPECT_EQ(decoded({0x48, 0x83, 0xc0, 0x08}).special, Special::none);        // add $8,%rax
  EXPECT_EQ(decoded({0x48, 0x05, 0, 0, 0, 1}).special, Special::none);        // add $1<<24,%rax
  EXPECT_EQ(decoded({0x48, 0x03, 0x04, 0x24}).special, Special::add_memory);  // add (%rsp),%rax
}

TEST(Decode, ResolvesRipRelativeOperands) {
  // lea 0x10(%rip),%rax
  const Instruction lea = decoded({0x48, 0x8d, 0x05, 0x10, 0, 0, 0});
  EXPECT_EQ(lea.special, Special::lea);
  EXPECT_TRUE(lea.has_rip_operand);
  EXPECT_TRUE(lea.has_memory_operand);
  EXPECT_EQ(lea.memory, kHere + 7 + 0x10);
  EXPECT_EQ(lea.displacement, 0x10);
  EXPECT_EQ(lea.displacement_size, 4);
  // cmpl $0x1234,-0x10(%rip): the operand counts from after the immediate
  const Instruction compare = decoded({0x81, 0x3d, 0xf0, 0xff, 0xff, 0xff, 0x34, 0x12, 0, 0});
  EXPECT_TRUE(compare.has_rip_operand);
  EXPECT_EQ(compare.memory, kHere + 10 - 0x10);
  EXPECT_EQ(compare.displacement, -0x10);
  EXPECT_EQ(compare.immediate, 0x1234u);
  EXPECT_EQ(compare.immediate_size, 4);
  // jmp *0x2000(%rip)
  const Instruction jump = decoded({0xff, 0x25, 0x00, 0x20, 0, 0});
  EXPECT_TRUE(jump.has_rip_operand);
  EXPECT_EQ(jump.memory, kHere + 6 + 0x2000);
  EXPECT_FALSE(jump.has_target());
  // vmovdqu 0x10(%rip),%ymm0
  EXPECT_EQ(decoded({0xc5, 0xfe, 0x6f, 0x05, 0x10, 0, 0, 0}).memory, kHere + 8 + 0x10);
  // vmovdqu64 0x10(%rip),%zmm0: the displacement is not compressed
  EXPECT_EQ(decoded({0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x05, 0x10, 0, 0, 0}).memory, kHere + 10 + 0x10);
}

TEST(Decode, DoesNotTakeOtherOperandsForRipRelative) {
  EXPECT_FALSE(decoded({0x8b, 0x04, 0x25, 0, 0, 1, 0}).has_rip_operand);  // mov 0x10000,%eax
  EXPECT_FALSE(decoded({0x8b, 0x45, 0x00}).has_rip_operand);              // mov 0(%rbp),%eax
  EXPECT_FALSE(decoded({0x41, 0x8b, 0x45, 0x00}).has_rip_operand);        // mov 0(%r13),%eax
  EXPECT_FALSE(decoded({0x89, 0xc5}).has_rip_operand);                    // mov %eax,%ebp
  EXPECT_FALSE(
      decoded({0x8b, 0x04, 0xc5, 0, 0, 1, 0}).has_rip_operand);  // mov 0x10000(,%rax,8),%eax
  // mov 0x10(%rip),%eax, with a REX.B, which does not make the base r13
  EXPECT_TRUE(decoded({0x41, 0x8b, 0x05, 0x10, 0, 0, 0}).has_rip_operand);
}

TEST(Decode, ReadsImmediatesOfEveryWidth) {
  const Instruction byte = decoded({0x6a, 0xff});  // push $-1
  EXPECT_EQ(byte.immediate_size, 1);
  EXPECT_EQ(static_cast<int64_t>(byte.immediate), -1);
  const Instruction word = decoded({0x66, 0xb8, 0x34, 0x12});  // mov $0x1234,%ax
  EXPECT_EQ(word.immediate_size, 2);
  EXPECT_EQ(word.immediate, 0x1234u);
  const Instruction dword = decoded({0xb8, 0x78, 0x56, 0x34, 0x12});  // mov $0x12345678,%eax
  EXPECT_EQ(dword.immediate_size, 4);
  EXPECT_EQ(dword.immediate, 0x12345678u);
  // movabs $0x1122334455667788,%rax
  const Instruction qword = decoded({0x48, 0xb8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11});
  EXPECT_EQ(qword.immediate_size, 8);
  EXPECT_EQ(qword.immediate, 0x1122334455667788u);
  EXPECT_EQ(decoded({0x55}).immediate_size, 0);  // push %rbp
}

TEST(Decode, ABranchDisplacementIsNotAnImmediate) {
  EXPECT_EQ(decoded({0xeb, 0x10}).immediate_size, 0);                 // jmp
  EXPECT_EQ(decoded({0xe8, 0x10, 0, 0, 0}).immediate_size, 0);        // call
  EXPECT_EQ(decoded({0x0f, 0x84, 0x10, 0, 0, 0}).immediate_size, 0);  // je
  EXPECT_EQ(decoded({0xc7, 0xf8, 0x10, 0, 0, 0}).immediate_size, 0);  // xbegin
}

TEST(Decode, DisplacementsKeepTheirSignAndWidth) {
  const Instruction short_one = decoded({0x8b, 0x45, 0xf8});  // mov -8(%rbp),%eax
  EXPECT_EQ(short_one.displacement_size, 1);
  EXPECT_EQ(short_one.displacement, -8);
  EXPECT_FALSE(short_one.has_rip_operand);
  // jmp *0x404000(,%rax,8): a jump table at a fixed address
  const Instruction table = decoded({0xff, 0x24, 0xc5, 0x00, 0x40, 0x40, 0x00});
  EXPECT_EQ(table.displacement_size, 4);
  EXPECT_EQ(table.displacement, 0x404000);
  EXPECT_TRUE(table.has_memory_operand);
  EXPECT_EQ(decoded({0x8b, 0x04, 0x24}).displacement_size, 0);  // mov (%rsp),%eax
  EXPECT_FALSE(decoded({0xff, 0xe0}).has_memory_operand);       // jmp *%rax
}

TEST(Decode, ReturnsNothingForBytesThatAreCutOff) {
  const Bytes kWhole[] = {
      {0xe9, 0x10, 0, 0, 0},                                   // jmp
      {0x48, 0x8d, 0x05, 0x10, 0, 0, 0},                       // lea 0x10(%rip),%rax
      {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8},                    // movabs
      {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},        // cs nopw
      {0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x05, 0x10, 0, 0, 0},     // vmovdqu64 0x10(%rip),%zmm0
      {0x81, 0x3d, 0xf0, 0xff, 0xff, 0xff, 0x34, 0x12, 0, 0},  // cmpl
  };
  for (const Bytes& whole : kWhole)
    for (size_t length = 0; length < whole.size(); ++length)
      EXPECT_FALSE(decode(std::span(whole).first(length), kHere))
          << length << " of " << whole.size();
}

TEST(Decode, ReadsNothingAfterTheInstruction) {
  Bytes bytes = {0x55};  // push %rbp
  const auto alone = decode(bytes, kHere);
  bytes.insert(bytes.end(), {0x06, 0xff, 0xff});  // no instruction
  const auto followed = decode(bytes, kHere);
  ASSERT_TRUE(alone && followed);
  EXPECT_EQ(alone->length, 1);
  EXPECT_EQ(followed->length, 1);
}

TEST(Decode, ReturnsNothingForBytesThatAreNotAnInstruction) {
  const Bytes kNone[] = {
      {0x06},                    // push %es, gone in 64-bit mode
      {0x0e},                    // push %cs
      {0x27},                    // daa
      {0x60},                    // pusha
      {0x9a, 0, 0, 0, 0, 0, 0},  // lcall $0,$0
      {0xea, 0, 0, 0, 0, 0, 0},  // ljmp $0,$0
      {0xce},                    // into
      {0xd6},                    // salc
      {0xff, 0xff},              // group 5, /7
      {0xfe, 0xd0},              // group 4, /2
      {0x0f, 0x04},              // no opcode
      {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
       0x90},  // 16 bytes: one more than an instruction may have
  };
  for (const Bytes& none : kNone) EXPECT_FALSE(decode(none, kHere)) << testing::PrintToString(none);
}

TEST(Decode, KnowsTheSignalRestorerByItsBytes) {
  // mov $15,%rax; syscall: glibc's __restore_rt, as debuggers and unwinders expect it
  const Bytes glibc = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  // mov $15,%eax; syscall: what others write
  const Bytes narrow = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
  EXPECT_TRUE(is_signal_restorer(glibc));
  EXPECT_TRUE(is_signal_restorer(narrow));
  EXPECT_TRUE(is_signal_restorer(joined({glibc, {0x0f, 0x1f, 0x80, 0, 0, 0, 0}})));
  // mov $14,%eax; syscall: rt_sigprocmask
  EXPECT_FALSE(is_signal_restorer(Bytes{0xb8, 0x0e, 0, 0, 0, 0x0f, 0x05}));
  EXPECT_FALSE(is_signal_restorer(std::span(glibc).first(8)));
  EXPECT_FALSE(is_signal_restorer({}));
}

}  // namespace
}  // namespace pinprick::arch
