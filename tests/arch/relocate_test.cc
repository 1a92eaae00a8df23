// Every kind of moved instruction, run in place and moved; see differential.h.
#include "arch/relocate.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <set>

#include "arch/differential.h"
#include "arch/disassembler.h"
#include "bytes.h"

namespace pinprick::arch {
namespace {

constexpr int kTrials = 24;
constexpr Reg kBasesAndIndexes[] = {Reg::rax, Reg::rcx, Reg::rdx, Reg::rbx, Reg::rbp,
                                    Reg::rsi, Reg::rdi, Reg::r8,  Reg::r9,  Reg::r10,
                                    Reg::r11, Reg::r12, Reg::r13, Reg::r14, Reg::r15};

class Relocate : public testing::Test {
 protected:
  using Prepare = std::function<void(MachineState&)>;

  // Compares over random states; `prepare` then sets what matters to the instruction. The
  // instruction must have run: a fault at home proves nothing.
  void expect_same(const char* assembly, const Bytes& instruction, const Prepare& prepare = {},
                   Sandbox* where = nullptr) {
    SCOPED_TRACE(assembly);
    Sandbox& box = where != nullptr ? *where : sandbox;
    arrivals.clear();
    for (int trial = 0; trial < kTrials && !HasFailure(); ++trial) {
      MachineState start = random_state(random, box);
      fill_randomly(box.memory(), random);
      if (prepare) prepare(start);
      last = compare_moved(box, instruction, start);
      last_start = start;
      ASSERT_EQ(last.difference, "") << Disassembler().text(last.copy, box.away());
      ASSERT_EQ(last.in_place.signal, 0) << "faulted at home";
      arrivals.insert(last.in_place.state.rip);
    }
  }

  // `opcode`, a displacement that makes `target` the operand, `immediate`.
  Bytes to_address(const Bytes& opcode, Address target, const Bytes& immediate = {}) {
    const Address end = sandbox.home() + opcode.size() + 4 + immediate.size();
    return joined({opcode, little_endian(static_cast<int32_t>(target - end)), immediate});
  }
  Bytes to_data(const Bytes& opcode, const Bytes& immediate = {}) {
    return to_address(opcode, sandbox.data_middle(), immediate);
  }
  // What a call pushed, just below the old rsp.
  uint64_t pushed() { return sandbox.word(last_start[Reg::rsp] - 8); }

  Sandbox sandbox;
  std::mt19937_64 random{20240229};
  Comparison last;
  MachineState last_start;
  std::set<Address> arrivals;  // where execution was at the end of each run
};

// --- The harness itself

using Differential = Relocate;

TEST_F(Differential, SeesEveryRegisterFlagAndByteThatAnInstructionChanges) {
  MachineState start = random_state(random, sandbox);
  fill_randomly(sandbox.memory(), random);
  start.flags = kCarry;
  start.rip = sandbox.home();
  const auto run = [&](const Bytes& code) {
    sandbox.place_home(code);
    return sandbox.run(start);
  };
  const Outcome nothing = run({});
  EXPECT_EQ(nothing.signal, 0);
  EXPECT_EQ(nothing.state.rip, sandbox.home());
  EXPECT_EQ(nothing.state.general, start.general);
  EXPECT_EQ(nothing.state.flags & kVisibleFlags, kCarry);
  EXPECT_EQ(run({0x49, 0xff, 0xc7}).state[Reg::r15], start[Reg::r15] + 1);  // inc %r15
  EXPECT_EQ(run({0xf9}).state.flags & kVisibleFlags, kCarry);               // stc
  EXPECT_EQ(run({0xf8}).state.flags & kVisibleFlags, 0u);                   // clc
  EXPECT_EQ(run({0xfd}).state.flags & kVisibleFlags, kCarry | kDirection);  // std
  EXPECT_NE(run({0x66, 0x45, 0x0f, 0xef, 0xff}).state.extended, nothing.state.extended);  // pxor
  EXPECT_NE(run({0xd9, 0xee}).state.extended, nothing.state.extended);                    // fldz
  EXPECT_EQ(run({0x50}).state[Reg::rsp], start[Reg::rsp] - 8);  // push %rax
  EXPECT_EQ(sandbox.word(start[Reg::rsp] - 8), start[Reg::rax]);
}

TEST_F(Differential, ReportsFaultsWithTheirAddress) {
  MachineState start = random_state(random, sandbox);
  start.rip = sandbox.home();
  start[Reg::rax] = sandbox.data() - 8;
  sandbox.place_home(Bytes{0x48, 0x89, 0x00});  // mov %rax,(%rax)
  const Outcome write = sandbox.run(start);
  EXPECT_EQ(write.signal, SIGSEGV);
  EXPECT_EQ(write.fault_address, sandbox.data() - 8);
  EXPECT_EQ(write.state.rip, sandbox.home());
  sandbox.place_home(Bytes{0xff, 0xe0});  // jmp *%rax
  EXPECT_EQ(sandbox.run(start).state.rip, sandbox.data() - 8);
  sandbox.place_home(Bytes{0x0f, 0x0b});  // ud2
  EXPECT_EQ(sandbox.run(start).signal, SIGILL);
}

TEST_F(Differential, FindsACopyThatDiffersInOneRespect) {
  // The same bytes mean something else elsewhere: lea 0(%rip),%rax, copied unchanged.
  const Bytes lea = {0x48, 0x8d, 0x05, 0, 0, 0, 0};
  MachineState start = random_state(random, sandbox);
  start.rip = sandbox.home();
  sandbox.place_home(lea);
  const Outcome in_place = sandbox.run(start);
  start.rip = sandbox.away();
  sandbox.place_away(lea);
  EXPECT_NE(in_place.state[Reg::rax], sandbox.run(start).state[Reg::rax]);
}

// --- Instructions that do not depend on their address

TEST_F(Relocate, OrdinaryInstructionsAreCopiedAsTheyAre) {
  const auto rsi_rdi = [&](MachineState& state) {
    state[Reg::rsi] = sandbox.data() + 4096;
    state[Reg::rdi] = sandbox.data() + 8192;
    state[Reg::rcx] = 40;
  };
  const struct {
    const char* assembly;
    Bytes bytes;
  } kCases[] = {
      {"nop", {0x90}},
      {"mov %rsp,%rbp", {0x48, 0x89, 0xe5}},
      {"push %rsp", {0x54}},
      {"push $-2", {0x6a, 0xfe}},
      {"pop 8(%rsp)", {0x8f, 0x44, 0x24, 0x08}},
      {"pushfq", {0x9c}},
      {"enter $32,$0", {0xc8, 0x20, 0x00, 0x00}},
      {"sub $128,%rsp", {0x48, 0x81, 0xec, 0x80, 0, 0, 0}},
      {"adc %r8,%r9", {0x4d, 0x11, 0xc1}},
      {"cmpxchg16b (%rsp)", {0x48, 0x0f, 0xc7, 0x0c, 0x24}},
      {"lock xadd %rax,(%rsp)", {0xf0, 0x48, 0x0f, 0xc1, 0x04, 0x24}},
      {"rep movsb", {0xf3, 0xa4}},
      {"repne scasb", {0xf2, 0xae}},
      {"movabs $0x1122334455667788,%r10",
       {0x49, 0xba, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}},
      {"movups (%rsp),%xmm9", {0x44, 0x0f, 0x10, 0x0c, 0x24}},
      {"paddq %xmm1,%xmm2", {0x66, 0x0f, 0xd4, 0xd1}},
      {"fldpi", {0xd9, 0xeb}},
      {"cpuid", {0x0f, 0xa2}},
      {"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}},
  };
  for (const auto& c : kCases) {
    expect_same(c.assembly, c.bytes, rsi_rdi);
    EXPECT_EQ(Bytes(last.copy.begin(), last.copy.begin() + static_cast<long>(c.bytes.size())),
              c.bytes);
  }
}

TEST_F(Relocate, VectorInstructionsKeepAllOfTheirWidth) {
  if (__builtin_cpu_supports("avx2")) {
    expect_same("vpaddd %ymm1,%ymm2,%ymm3", {0xc5, 0xed, 0xfe, 0xd9});
    expect_same("vmovdqu 4(%rip),%ymm4", to_data({0xc5, 0xfe, 0x6f, 0x25}));
    expect_same("vpermq $0x4e,4(%rip),%ymm7", to_data({0xc4, 0xe3, 0xfd, 0x00, 0x3d}, {0x4e}));
  }
  if (__builtin_cpu_supports("avx512f")) {
    expect_same("vmovdqu64 4(%rip),%zmm17", to_data({0x62, 0xe1, 0xfe, 0x48, 0x6f, 0x0d}));
    expect_same("vpaddd 4(%rip){1to16},%zmm2,%zmm3{%k1}",
                to_data({0x62, 0xf1, 0x6d, 0x59, 0xfe, 0x1d}));
  }
}

TEST_F(Relocate, AReturnGoesToTheCallerFromTheCopyAsWell) {
  const auto prepare = [&](MachineState& state) {
    sandbox.set_word(state[Reg::rsp], sandbox.home() + 0x100);
  };
  expect_same("ret", {0xc3}, prepare);
  EXPECT_EQ(arrivals, std::set<Address>{sandbox.home() + 0x100});
  expect_same("ret $16", {0xc2, 0x10, 0x00}, prepare);
  expect_same("repz ret", {0xf3, 0xc3}, prepare);
}

TEST_F(Relocate, WhatFaultsInPlaceFaultsInTheCopyWithTheSameStateAndAddress) {
  const struct {
    const char* assembly;
    Bytes bytes;
    int signal;
  } kCases[] = {
      {"mov (%rax),%rbx", {0x48, 0x8b, 0x18}, SIGSEGV},
      {"mov 4(%rip),%rax", to_address({0x48, 0x8b, 0x05}, sandbox.data() - 64), SIGSEGV},
      {"div %rcx", {0x48, 0xf7, 0xf1}, SIGFPE},
      {"jmp *%rax", {0xff, 0xe0}, SIGSEGV},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.assembly);
    MachineState start = random_state(random, sandbox);
    start[Reg::rax] = sandbox.data() - 0x1000;
    start[Reg::rcx] = 0;
    const auto compared = compare_moved(sandbox, c.bytes, start);
    EXPECT_EQ(compared.difference, "");
    EXPECT_EQ(compared.in_place.signal, c.signal);
  }
}

// --- RIP-relative operands

TEST_F(Relocate, RipRelativeOperandsMeanTheSameMemory) {
  expect_same("mov 4(%rip),%rax", to_data({0x48, 0x8b, 0x05}));
  EXPECT_EQ(last.away.state[Reg::rax], sandbox.word(sandbox.data_middle()));
  expect_same("mov %r9,4(%rip)", to_data({0x4c, 0x89, 0x0d}));
  EXPECT_EQ(sandbox.word(sandbox.data_middle()), last_start[Reg::r9]);
  expect_same("lea 4(%rip),%r15", to_data({0x4c, 0x8d, 0x3d}));
  EXPECT_EQ(last.away.state[Reg::r15], sandbox.data_middle());
  expect_same("push 4(%rip)", to_data({0xff, 0x35}));
  expect_same("pop 4(%rip)", to_data({0x8f, 0x05}));
  expect_same("lock incl 4(%rip)", to_data({0xf0, 0xff, 0x05}));
  expect_same("movdqu 4(%rip),%xmm8", to_data({0xf3, 0x44, 0x0f, 0x6f, 0x05}));
  expect_same("nopw 4(%rip)", to_data({0x66, 0x0f, 0x1f, 0x05}));
}

TEST_F(Relocate, ImmediatesAfterTheDisplacementDoNotShiftTheOperand) {
  expect_same("cmpb $0x7f,4(%rip)", to_data({0x80, 0x3d}, {0x7f}));
  expect_same("cmpl $0x7f,4(%rip)", to_data({0x83, 0x3d}, {0x7f}));
  expect_same("addw $0x1234,4(%rip)", to_data({0x66, 0x81, 0x05}, {0x34, 0x12}));
  expect_same("addl $0x12345678,4(%rip)", to_data({0x81, 0x05}, {0x78, 0x56, 0x34, 0x12}));
  expect_same("movq $-2,4(%rip)", to_data({0x48, 0xc7, 0x05}, {0xfe, 0xff, 0xff, 0xff}));
  EXPECT_EQ(static_cast<int64_t>(sandbox.word(sandbox.data_middle())), -2);
  expect_same("imul $3,4(%rip),%rdx", to_data({0x48, 0x6b, 0x15}, {0x03}));
  expect_same("shld $5,%rax,4(%rip)", to_data({0x48, 0x0f, 0xa4, 0x05}, {0x05}));
  expect_same("bts $9,4(%rip)", to_data({0x48, 0x0f, 0xba, 0x2d}, {0x09}));
  expect_same("pshufd $0x1b,4(%rip),%xmm3", to_data({0x66, 0x0f, 0x70, 0x1d}, {0x1b}));
}

TEST_F(Relocate, AnOperandAtAFixedAddressStaysThere) {
  Sandbox low(Sandbox::Where::low);
  // mov data,%eax: no base, no index
  const Bytes load =
      joined({{0x8b, 0x04, 0x25}, little_endian(static_cast<uint32_t>(low.data_middle()))});
  expect_same("mov data,%eax", load, {}, &low);
  EXPECT_EQ(last.away.state[Reg::rax], static_cast<uint32_t>(low.word(low.data_middle())));
}

// --- Jumps

TEST_F(Relocate, DirectJumpsOfBothWidths) {
  expect_same("jmp .+2+0x40", {0xeb, 0x40});
  EXPECT_EQ(arrivals, std::set<Address>{sandbox.home() + 2 + 0x40});
  expect_same("jmp .+2-0x80", {0xeb, 0x80});
  EXPECT_EQ(arrivals, std::set<Address>{sandbox.home() + 2 - 0x80});
  expect_same("jmp .+5+0x100", {0xe9, 0x00, 0x01, 0, 0});
  EXPECT_EQ(arrivals, std::set<Address>{sandbox.home() + 5 + 0x100});
  expect_same("jmp .+5-0x100", {0xe9, 0x00, 0xff, 0xff, 0xff});
  expect_same("bnd jmp .+6+0x100", {0xf2, 0xe9, 0x00, 0x01, 0, 0});
}

TEST_F(Relocate, AllConditionalJumpsOfBothWidthsTakenAndNot) {
  for (uint8_t condition = 0; condition < 16; ++condition) {
    SCOPED_TRACE(condition);
    const auto taken_and_not = [&](const char* assembly, const Bytes& bytes, Address target) {
      expect_same(assembly, bytes);
      const std::set<Address> both = {sandbox.home() + bytes.size(), target};
      EXPECT_EQ(arrivals, both) << "the random flags of all trials must lead both ways";
    };
    const auto low = static_cast<uint8_t>(condition | 0x70);
    taken_and_not("jcc .+2+0x40", {low, 0x40}, sandbox.home() + 2 + 0x40);
    taken_and_not("jcc .+2-0x40", {low, 0xc0}, sandbox.home() + 2 - 0x40);
    const auto high = static_cast<uint8_t>(condition | 0x80);
    taken_and_not("jcc .+6+0x100", {0x0f, high, 0, 1, 0, 0}, sandbox.home() + 6 + 0x100);
    // with a hint, as old compilers wrote it
    taken_and_not("jcc,pt .+3+0x40", {0x3e, low, 0x40}, sandbox.home() + 3 + 0x40);
  }
}

TEST_F(Relocate, LoopsAndJumpsOnRcxTakenAndNot) {
  const struct {
    const char* assembly;
    Bytes bytes;
    uint64_t rcx_where_it_turns;
  } kCases[] = {
      {"loop .+2+0x40", {0xe2, 0x40}, 1},        {"loop .+2-0x40", {0xe2, 0xc0}, 1},
      {"loope .+2+0x40", {0xe1, 0x40}, 1},       {"loopne .+2+0x40", {0xe0, 0x40}, 1},
      {"jrcxz .+2+0x40", {0xe3, 0x40}, 0},       {"jrcxz .+2-0x40", {0xe3, 0xc0}, 0},
      {"jecxz .+3+0x40", {0x67, 0xe3, 0x40}, 0}, {"addr32 loop .+3+0x40", {0x67, 0xe2, 0x40}, 1},
  };
  for (const auto& c : kCases) {
    const uint64_t turns = c.rcx_where_it_turns;
    const uint64_t kInteresting[] = {turns, turns, turns + 1, 0x1'0000'0000, 0x1'0000'0001, 12345};
    size_t trial = 0;
    expect_same(c.assembly, c.bytes, [&](MachineState& state) {
      state[Reg::rcx] = kInteresting[trial++ % std::size(kInteresting)];
    });
    EXPECT_EQ(arrivals.size(), 2u) << c.assembly << ": must lead both ways";
  }
}

TEST_F(Relocate, IndirectJumpsThroughRegistersAndMemory) {
  const Address target = sandbox.home() + 0x200;
  const auto prepare = [&](MachineState& state) {
    state[Reg::rax] = target;
    state[Reg::r12] = target;
    state[Reg::rbx] = sandbox.data_middle() - 0x100;
    sandbox.set_word(sandbox.data_middle() - 0x100, target);
    sandbox.set_word(sandbox.data_middle(), target);
    sandbox.set_word(state[Reg::rsp], target);
    sandbox.set_word(state[Reg::rsp] + 8, target);
  };
  const struct {
    const char* assembly;
    Bytes bytes;
  } kCases[] = {
      {"jmp *%rax", {0xff, 0xe0}},
      {"jmp *%r12", {0x41, 0xff, 0xe4}},
      {"notrack jmp *%rax", {0x3e, 0xff, 0xe0}},
      {"bnd jmp *%rax", {0xf2, 0xff, 0xe0}},
      {"jmp *(%rbx)", {0xff, 0x23}},
      {"jmp *(%rsp)", {0xff, 0x24, 0x24}},
      {"jmp *8(%rsp)", {0xff, 0x64, 0x24, 0x08}},
      {"jmp *4(%rip)", to_data({0xff, 0x25})},
      {"bnd jmp *4(%rip)", to_data({0xf2, 0xff, 0x25})},
      {"notrack jmp *4(%rip)", to_data({0x3e, 0xff, 0x25})},
  };
  for (const auto& c : kCases) {
    expect_same(c.assembly, c.bytes, prepare);
    EXPECT_EQ(arrivals, std::set<Address>{target}) << c.assembly;
  }
}

TEST_F(Relocate, ATransactionsAbortLeadsWhereItDid) {
  // xbegin .+6+0x100; if the processor has no transactions, it faults both times
  const Bytes xbegin = {0xc7, 0xf8, 0x00, 0x01, 0, 0};
  const Address aborted = sandbox.home() + 6 + 0x100;
  auto compared = compare_moved(sandbox, xbegin, random_state(random, sandbox));
  EXPECT_EQ(compared.in_place.state.rip, compared.away.state.rip);
  // With transactions, the int3 after it or something before that aborts it: rax then says which,
  // and this may differ between two runs of the same code.
  if (compared.in_place.state.rip == aborted)
    compared.away.state[Reg::rax] = compared.in_place.state[Reg::rax];
  EXPECT_EQ(difference_of(compared.in_place, compared.away), "");
  const auto copy = decode(compared.copy, sandbox.away());
  ASSERT_TRUE(copy);
  EXPECT_EQ(Bytes(compared.copy.begin(), compared.copy.begin() + 2), (Bytes{0xc7, 0xf8}));
  EXPECT_EQ(copy->target, aborted);
}

// --- Calls

class RelocateCall : public Relocate {
 protected:
  void SetUp() override { target = sandbox.home() + 0x300; }

  void expect_call(const char* assembly, const Bytes& bytes, const Prepare& prepare = {}) {
    expect_same(assembly, bytes, prepare);
    EXPECT_EQ(arrivals, std::set<Address>{target}) << assembly;
    EXPECT_EQ(pushed(), sandbox.home() + bytes.size()) << assembly;
    EXPECT_EQ(last.away.state[Reg::rsp], last_start[Reg::rsp] - 8) << assembly;
  }

  Address target = 0;
};

TEST_F(RelocateCall, DirectCallsPushTheAddressAfterTheOriginal) {
  expect_call("call target", to_address({0xe8}, target));
  expect_call("data16 data16 rex.W call target, as of __tls_get_addr",
              to_address({0x66, 0x66, 0x48, 0xe8}, target));
  expect_call("bnd call target", to_address({0xf2, 0xe8}, target));
}

TEST_F(RelocateCall, ToTheNextInstructionPushesItsOriginalAddress) {
  target = sandbox.home() + 5;
  expect_call("call .+5", {0xe8, 0, 0, 0, 0});
}

TEST_F(RelocateCall, ThroughEveryRegister) {
  for (Reg reg : kBasesAndIndexes) {
    const auto number = static_cast<uint8_t>(reg);
    const auto modrm = static_cast<uint8_t>(0xd0 | (number & 7));
    Bytes call = {0xff, modrm};  // call *%reg
    if (number >= 8) call.insert(call.begin(), 0x41);
    expect_call("call *%reg", call, [&](MachineState& state) { state[reg] = target; });
  }
  const auto rax = [&](MachineState& state) { state[Reg::rax] = target; };
  expect_call("notrack call *%rax", {0x3e, 0xff, 0xd0}, rax);
  EXPECT_EQ(last.copy[6], 0x3e) << "the prefix stays, after the push";
  expect_call("bnd call *%rax", {0xf2, 0xff, 0xd0}, rax);
  EXPECT_EQ(last.copy[6], 0xf2);
  expect_call("rex.W call *%rax", {0x48, 0xff, 0xd0}, rax);
}

TEST_F(RelocateCall, ThroughMemoryAtEveryRegister) {
  for (Reg reg : kBasesAndIndexes) {
    const auto number = static_cast<uint8_t>(reg);
    const auto low = static_cast<uint8_t>(number & 7);
    const Bytes rex = number >= 8 ? Bytes{0x41} : Bytes{};
    const Bytes index = low == 4 ? Bytes{0x24} : Bytes{};  // r12 as base needs a SIB byte
    const auto at = [&](int32_t offset) {
      return [this, reg, offset](MachineState& state) {
        state[reg] = sandbox.data() + 0x800 - static_cast<uint64_t>(int64_t{offset});
        sandbox.set_word(sandbox.data() + 0x800, target);
      };
    };
    if (low != 5)  // rbp and r13 always have a displacement
      expect_call("call *(%reg)", joined({rex, {0xff, static_cast<uint8_t>(0x10 | low)}, index}),
                  at(0));
    expect_call("call *0x10(%reg)",
                joined({rex, {0xff, static_cast<uint8_t>(0x50 | low)}, index, {0x10}}), at(0x10));
    expect_call("call *-8(%reg)",
                joined({rex, {0xff, static_cast<uint8_t>(0x50 | low)}, index, {0xf8}}), at(-8));
    expect_call(
        "call *0x12345678(%reg)",
        joined({rex, {0xff, static_cast<uint8_t>(0x90 | low)}, index, little_endian(0x12345678)}),
        at(0x12345678));
  }
}

TEST_F(RelocateCall, ThroughMemoryAtTheStackPointerWhichThePushMoves) {
  const auto at = [&](int32_t offset) {
    return [this, offset](MachineState& state) {
      sandbox.set_word(state[Reg::rsp] + static_cast<uint64_t>(int64_t{offset}), target);
    };
  };
  expect_call("call *(%rsp)", {0xff, 0x14, 0x24}, at(0));  // needs a displacement in the copy
  expect_call("call *8(%rsp)", {0xff, 0x54, 0x24, 0x08}, at(8));
  expect_call("call *0x70(%rsp)", {0xff, 0x54, 0x24, 0x70}, at(0x70));
  // The last displacement that plus 8 fits one byte, and the first that does not.
  expect_call("call *0x77(%rsp)", {0xff, 0x54, 0x24, 0x77}, at(0x77));
  expect_call("call *0x78(%rsp)", {0xff, 0x54, 0x24, 0x78}, at(0x78));
  expect_call("call *0x7f(%rsp)", {0xff, 0x54, 0x24, 0x7f}, at(0x7f));
  expect_call("call *-0x10(%rsp)", {0xff, 0x54, 0x24, 0xf0}, at(-0x10));
  expect_call("call *-0x80(%rsp)", {0xff, 0x54, 0x24, 0x80}, at(-0x80));
  expect_call("call *0x200(%rsp)", {0xff, 0x94, 0x24, 0x00, 0x02, 0, 0}, at(0x200));
  expect_call("call *-0x200(%rsp)", {0xff, 0x94, 0x24, 0x00, 0xfe, 0xff, 0xff}, at(-0x200));
  expect_call("bnd call *8(%rsp)", {0xf2, 0xff, 0x54, 0x24, 0x08}, at(8));
}

TEST_F(RelocateCall, ThroughMemoryAtTheStackPointerPlusAnIndex) {
  const auto at = [&](Reg index, uint64_t scale, uint64_t offset) {
    return [this, index, scale, offset](MachineState& state) {
      state[index] = random() % 16;
      sandbox.set_word(state[Reg::rsp] + state[index] * scale + offset, target);
    };
  };
  expect_call("call *(%rsp,%rax,8)", {0xff, 0x14, 0xc4}, at(Reg::rax, 8, 0));
  expect_call("call *8(%rsp,%rax,8)", {0xff, 0x54, 0xc4, 0x08}, at(Reg::rax, 8, 8));
  expect_call("call *0x100(%rsp,%rbp,1)", {0xff, 0x94, 0x2c, 0, 1, 0, 0}, at(Reg::rbp, 1, 0x100));
  expect_call("call *8(%rsp,%r12,4)", {0x42, 0xff, 0x54, 0xa4, 0x08}, at(Reg::r12, 4, 8));
}

TEST_F(RelocateCall, ThroughMemoryWithoutTheStackPointerIsNotShifted) {
  const auto at = [&](const std::function<uint64_t(MachineState&)>& address) {
    return [this, address](MachineState& state) { sandbox.set_word(address(state), target); };
  };
  expect_call("call *8(%r12)", {0x41, 0xff, 0x54, 0x24, 0x08},
              at([&](MachineState& state) { return (state[Reg::r12] = sandbox.data()) + 8; }));
  expect_call("call *8(%rbx,%rax,8)", {0xff, 0x54, 0xc3, 0x08}, at([&](MachineState& state) {
                state[Reg::rax] = 5;
                return (state[Reg::rbx] = sandbox.data()) + 5 * 8 + 8;
              }));
  expect_call("call *0x100(,%rax,8)", {0xff, 0x14, 0xc5, 0, 1, 0, 0}, at([&](MachineState& state) {
                state[Reg::rax] = (sandbox.data() - 0x100) / 8;
                return sandbox.data();
              }));
  expect_call("call *(%r13,%r14,8)", {0x43, 0xff, 0x54, 0xf5, 0x00}, at([&](MachineState& state) {
                state[Reg::r14] = 3;
                return (state[Reg::r13] = sandbox.data()) + 3 * 8;
              }));
}

TEST_F(RelocateCall, ThroughRipRelativeMemory) {
  const auto prepare = [&](MachineState&) { sandbox.set_word(sandbox.data_middle(), target); };
  expect_call("call *4(%rip)", to_data({0xff, 0x15}), prepare);
  expect_call("bnd call *4(%rip)", to_data({0xf2, 0xff, 0x15}), prepare);
  expect_call("notrack call *4(%rip)", to_data({0x3e, 0xff, 0x15}), prepare);
  // as linkers relax `call *f@GOTPCREL(%rip)`
  expect_call("addr32 call target", to_address({0x67, 0xe8}, target));
}

TEST_F(RelocateCall, AlsoBelowTwoGigabytes) {
  Sandbox low(Sandbox::Where::low);
  target = low.home() + 0x300;
  const auto after = [&](size_t length) { return static_cast<int32_t>(0x300 - length); };
  const auto check = [&](const char* assembly, const Bytes& bytes, const Prepare& prepare) {
    expect_same(assembly, bytes, prepare, &low);
    EXPECT_EQ(arrivals, std::set<Address>{target}) << assembly;
    EXPECT_EQ(low.word(last_start[Reg::rsp] - 8), low.home() + bytes.size()) << assembly;
  };
  check("call target", joined({{0xe8}, little_endian(after(5))}), {});
  EXPECT_EQ(last.copy[0], 0x68) << "push $imm32 needs no literal";
  check("call *%rax", {0xff, 0xd0}, [&](MachineState& state) { state[Reg::rax] = target; });
  check("call *(%rsp)", {0xff, 0x14, 0x24},
        [&](MachineState& state) { low.set_word(state[Reg::rsp], target); });
}

TEST(RelocatePure, AReturnAddressIsPushedAsAnImmediateIfItSignExtendsToItself) {
  const auto copy_of_call_that_ends_at = [](Address end) {
    const Bytes call = {0xff, 0xd0};  // call *%rax
    const auto instruction = decode(call, end - call.size());
    Assembler code(0x70000000);
    relocate(code, call, *instruction);
    return *code.finish();
  };
  // push $0x7fffffff; jmp *%rax
  EXPECT_EQ(copy_of_call_that_ends_at(0x7fffffff),
            (Bytes{0x68, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xe0}));
  // push 2(%rip); jmp *%rax; .quad 0x80000000
  EXPECT_EQ(copy_of_call_that_ends_at(0x80000000),
            (Bytes{0xff, 0x35, 0x02, 0, 0, 0, 0xff, 0xe0, 0, 0, 0, 0x80, 0, 0, 0, 0}));
}

// --- System calls

TEST_F(Relocate, ASystemCallLeavesTheOriginalsNextAddressInRcx) {
  expect_same("syscall", {0x0f, 0x05}, [](MachineState& state) { state[Reg::rax] = SYS_getpid; });
  EXPECT_EQ(last.away.state[Reg::rax], static_cast<uint64_t>(getpid()));
  EXPECT_EQ(last.away.state[Reg::rcx], sandbox.home() + 2);
  EXPECT_EQ(last.away.state[Reg::r11] & kVisibleFlags, last_start.flags);
}

// --- Reach

TEST(RelocatePure, ACopyThatCannotReachItsTargetsYieldsNoCode) {
  constexpr Address kHome = 0x7f00'0000'0000;
  const struct {
    const char* assembly;
    Bytes bytes;
  } kCases[] = {
      {"mov 0x10(%rip),%rax", {0x48, 0x8b, 0x05, 0x10, 0, 0, 0}},
      {"cmpl $1,0x10(%rip)", {0x83, 0x3d, 0x10, 0, 0, 0, 0x01}},
      {"jmp .+5+0x10", {0xe9, 0x10, 0, 0, 0}},
      {"jmp .+2+0x10", {0xeb, 0x10}},
      {"je .+2+0x10", {0x74, 0x10}},
      {"loop .+2+0x10", {0xe2, 0x10}},
      {"jrcxz .+2+0x10", {0xe3, 0x10}},
      {"xbegin .+6+0x10", {0xc7, 0xf8, 0x10, 0, 0, 0}},
      {"call .+5+0x10", {0xe8, 0x10, 0, 0, 0}},
      {"call *0x10(%rip)", {0xff, 0x15, 0x10, 0, 0, 0}},
      {"jmp *0x10(%rip)", {0xff, 0x25, 0x10, 0, 0, 0}},
      {"syscall", {0x0f, 0x05}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.assembly);
    const auto instruction = decode(c.bytes, kHome);
    ASSERT_TRUE(instruction);
    for (int64_t sign : {-1, 1}) {
      const auto moved_by = [&](int64_t distance) {
        Assembler code(kHome + static_cast<uint64_t>(distance));
        relocate(code, c.bytes, *instruction);
        return code.finish().has_value();
      };
      EXPECT_TRUE(moved_by(sign * ((int64_t{1} << 31) - 4096)));
      EXPECT_FALSE(moved_by(sign * ((int64_t{1} << 31) + 4096)));
    }
  }
}

TEST(RelocatePure, ACopyWithoutReferencesMayLieAnywhere) {
  const Bytes call = {0xff, 0xd0};  // call *%rax: its return address lies beside it
  const auto instruction = decode(call, 0x7f00'0000'0000);
  Assembler code(0x1000);
  relocate(code, call, *instruction);
  EXPECT_TRUE(code.finish());
}

// --- What is refused

TEST(Displaceable, RefusesWhatTheFullDecoderDoesNotKnow) {
  const struct {
    const char* assembly;
    Bytes bytes;
  } kCases[] = {
      {"lock nop", {0xf0, 0x90}},
      {"lock mov %eax,(%rax)", {0xf0, 0x89, 0x00}},
      {"lock add %eax,%ebx", {0xf0, 0x01, 0xc3}},
      {"lock cmp %eax,(%rax)", {0xf0, 0x39, 0x00}},
      {"mov %eax,%cr1", {0x0f, 0x22, 0xc8}},
      {"mov %eax,%cs", {0x8e, 0xc8}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.assembly);
    // The minimal decoder for whole objects, which has to be fast, accepts most of them.
    const auto instruction = decode(c.bytes, 0x1000);
    EXPECT_TRUE(!instruction || displaceable(c.bytes, *instruction) == Displaceable::undecodable);
  }
  Instruction cut_off;
  EXPECT_EQ(displaceable(Bytes{0xe9, 0x00}, cut_off), Displaceable::undecodable);
}

TEST(Displaceable, RefusesWhatFaultsInUserSpace) {
  const struct {
    const char* assembly;
    Bytes bytes;
  } kCases[] = {
      {"hlt", {0xf4}},
      {"cli", {0xfa}},
      {"sti", {0xfb}},
      {"in $0x10,%al", {0xe4, 0x10}},
      {"in (%dx),%eax", {0xed}},
      {"out %al,$0x10", {0xe6, 0x10}},
      {"out %eax,(%dx)", {0xef}},
      {"insb", {0x6c}},
      {"outsb", {0x6e}},
      {"wrmsr", {0x0f, 0x30}},
      {"rdmsr", {0x0f, 0x32}},
      {"mov %cr0,%rax", {0x0f, 0x20, 0xc0}},
      {"mov %rax,%dr7", {0x0f, 0x23, 0xf8}},
      {"lgdt (%rax)", {0x0f, 0x01, 0x10}},
      {"invlpg (%rax)", {0x0f, 0x01, 0x38}},
      {"swapgs", {0x0f, 0x01, 0xf8}},
      {"wbinvd", {0x0f, 0x09}},
      {"clts", {0x0f, 0x06}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.assembly);
    const auto instruction = decode(c.bytes, 0x1000);
    ASSERT_TRUE(instruction);
    EXPECT_EQ(displaceable(c.bytes, *instruction), Displaceable::privileged);
  }
}

TEST(Displaceable, RefusesWhatCannotBeMovedExactly) {
  const struct {
    const char* assembly;
    Bytes bytes;
  } kCases[] = {
      {"ljmp *(%rax)", {0xff, 0x28}},
      {"lcall *(%rax)", {0xff, 0x18}},
      {"lcall *4(%rip)", {0xff, 0x1d, 0x04, 0, 0, 0}},
      {"lret", {0xcb}},
      {"lret $8", {0xca, 0x08, 0x00}},
      {"iretq", {0x48, 0xcf}},
      {"iret", {0xcf}},
      {"int $0x80", {0xcd, 0x80}},
      {"int $3, in two bytes", {0xcd, 0x03}},
      {"int1", {0xf1}},
      {"int3", {0xcc}},
      {"ud2", {0x0f, 0x0b}},
      {"ud1 %eax,%eax", {0x0f, 0xb9, 0xc0}},
      {"ud0 %eax,%eax", {0x0f, 0xff, 0xc0}},
      {"sysenter", {0x0f, 0x34}},
      // Intel ignores the prefix, AMD then uses 16 bits of displacement and of rip.
      {"data16 jmp", {0x66, 0xe9, 0x10, 0, 0, 0}},
      {"data16 call", {0x66, 0xe8, 0x10, 0, 0, 0}},
      {"data16 je", {0x66, 0x0f, 0x84, 0x10, 0, 0, 0}},
      {"data16 je, short", {0x66, 0x74, 0x10}},
      {"data16 ret", {0x66, 0xc3}},
      {"data16 jmp *%rax", {0x66, 0xff, 0xe0}},
      {"data16 call *%rax", {0x66, 0xff, 0xd0}},
      {"data16 loop", {0x66, 0xe2, 0x10}},
      // The end of the copy differs from that of the original, modulo 4 GB.
      {"mov 4(%eip),%eax", {0x67, 0x8b, 0x05, 0x04, 0, 0, 0}},
      {"lea 4(%eip),%rax", {0x67, 0x48, 0x8d, 0x05, 0x04, 0, 0, 0}},
      {"jmp *4(%eip)", {0x67, 0xff, 0x25, 0x04, 0, 0, 0}},
      {"call *4(%eip)", {0x67, 0xff, 0x15, 0x04, 0, 0, 0}},
      // The copy pushes the return address first, which moves rsp.
      {"call *%rsp", {0xff, 0xd4}},
      {"call *8(%esp)", {0x67, 0xff, 0x54, 0x24, 0x08}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.assembly);
    const auto instruction = decode(c.bytes, 0x1000);
    ASSERT_TRUE(instruction);
    EXPECT_EQ(instruction->length, c.bytes.size());
    EXPECT_EQ(displaceable(c.bytes, *instruction), Displaceable::inexact);
  }
}

TEST(Displaceable, RefusesCallsThroughWhatTheReturnAddressWouldOverwrite) {
  const auto displaceable_at = [](int8_t offset) {
    const Bytes call = {0xff, 0x54, 0x24, static_cast<uint8_t>(offset)};  // call *offset(%rsp)
    return displaceable(call, *decode(call, 0x1000));
  };
  for (int offset = -15; offset <= -1; ++offset)
    EXPECT_EQ(displaceable_at(static_cast<int8_t>(offset)), Displaceable::inexact) << offset;
  EXPECT_EQ(displaceable_at(-16), Displaceable::yes);
  EXPECT_EQ(displaceable_at(0), Displaceable::yes);
  // call *-8(%r12) uses another register
  const Bytes r12 = {0x41, 0xff, 0x54, 0x24, 0xf8};
  EXPECT_EQ(displaceable(r12, *decode(r12, 0x1000)), Displaceable::yes);
}

TEST(Displaceable, AcceptsWhatLooksLikeItButIsNot) {
  const struct {
    const char* assembly;
    Bytes bytes;
  } kCases[] = {
      {"lock add %eax,(%rax)", {0xf0, 0x01, 0x00}},
      {"call *%r12", {0x41, 0xff, 0xd4}},
      {"data16 data16 rex.W call", {0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0}},
      {"data16 nop", {0x66, 0x90}},
      {"mov (%eax),%eax", {0x67, 0x8b, 0x00}},
      {"rdtsc", {0x0f, 0x31}},
      {"syscall", {0x0f, 0x05}},
      {"xbegin", {0xc7, 0xf8, 0, 0, 0, 0}},
      {"pause", {0xf3, 0x90}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.assembly);
    const auto instruction = decode(c.bytes, 0x1000);
    ASSERT_TRUE(instruction);
    EXPECT_EQ(displaceable(c.bytes, *instruction), Displaceable::yes);
  }
}

}  // namespace
}  // namespace pinprick::arch
