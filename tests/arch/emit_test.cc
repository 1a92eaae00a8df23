// What the assembler emits, as capstone decodes it; references in all directions and out of reach.
#include "arch/x86_64/emit.h"
#include "arch/jump.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "arch/code.h"
#include "arch/disassembler.h"
#include "bytes.h"

namespace pinprick::arch {
namespace {

constexpr Address kBase = 0x7f0000001000;

constexpr Reg kRegisters[] = {Reg::rax, Reg::rcx, Reg::rdx, Reg::rbx, Reg::rsp, Reg::rbp,
                              Reg::rsi, Reg::rdi, Reg::r8,  Reg::r9,  Reg::r10, Reg::r11,
                              Reg::r12, Reg::r13, Reg::r14, Reg::r15};

std::string name(Reg reg) {
  constexpr const char* kNames[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                    "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
  return kNames[static_cast<size_t>(reg)];
}
std::string name32(Reg reg) {
  constexpr const char* kNames[] = {"eax", "ecx", "edx",  "ebx",  "esp",  "ebp",  "esi",  "edi",
                                    "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"};
  return kNames[static_cast<size_t>(reg)];
}

// Returns " + 0x10", " - 0x10", or nothing, as capstone writes the offset from a register.
std::string offset_text(int32_t offset) {
  if (offset == 0) return "";
  const bool negative = offset < 0;
  const uint32_t size =
      negative ? 0u - static_cast<uint32_t>(offset) : static_cast<uint32_t>(offset);
  char text[32];
  std::snprintf(text, sizeof text, size > 9 ? " %c 0x%x" : " %c %x", negative ? '-' : '+', size);
  return text;
}

std::string text_of(const std::function<void(Assembler&)>& emit) {
  Assembler code(kBase);
  emit(code);
  const auto bytes = code.finish();
  if (!bytes) return "(out of reach)";
  static Disassembler disassembler;
  return disassembler.text(*bytes, kBase);
}

constexpr int32_t kOffsets[] = {0, 1, 8, -8, 127, -128, 128, -129, 0x12345678, -0x12345678};

TEST(Emit, ZeroExtension) {
  const auto extended = [](Reg reg, unsigned bytes) {
    return text_of([&](auto& code) { code.zero_extend(reg, bytes); });
  };
  EXPECT_EQ(extended(Reg::rax, 4), "mov eax, eax");
  EXPECT_EQ(extended(Reg::rbx, 4), "mov ebx, ebx");
  EXPECT_EQ(extended(Reg::rcx, 2), "movzx ecx, cx");
  EXPECT_EQ(extended(Reg::rdx, 1), "movzx edx, dl");
}

TEST(Emit, InstructionsOfOneRegister) {
  for (Reg r : kRegisters) {
    EXPECT_EQ(text_of([&](auto& code) { code.push(r); }), "push " + name(r));
    EXPECT_EQ(text_of([&](auto& code) { code.pop(r); }), "pop " + name(r));
    EXPECT_EQ(text_of([&](auto& code) { code.shift_right(r, 29); }), "shr " + name(r) + ", 0x1d");
    EXPECT_EQ(text_of([&](auto& code) { code.test(r); }), "test " + name(r) + ", " + name(r));
    EXPECT_EQ(text_of([&](auto& code) { code.multiply32(r, 0x1e3779b1); }),
              "imul " + name32(r) + ", " + name32(r) + ", 0x1e3779b1");
    EXPECT_EQ(text_of([&](auto& code) { code.mov_imm32(r, 0x89abcdef); }),
              "mov " + name32(r) + ", 0x89abcdef");
    EXPECT_EQ(text_of([&](auto& code) { code.mov_imm64(r, 0x1122334455667788); }),
              "movabs " + name(r) + ", 0x1122334455667788");
    EXPECT_EQ(text_of([&](auto& code) { code.store_fs(0x1234, r); }),
              "mov qword ptr fs:[0x1234], " + name(r));
    EXPECT_EQ(text_of([&](auto& code) { code.store_fs(-0x1234, r); }),
              "mov qword ptr fs:[0xffffffffffffedcc], " + name(r));
    EXPECT_EQ(text_of([&](auto& code) { code.load_fs_sx32(r, 0x1234); }),
              "movsxd " + name(r) + ", dword ptr fs:[0x1234]");
    EXPECT_EQ(text_of([&](auto& code) { code.store_fs32(0x1234, r); }),
              "mov dword ptr fs:[0x1234], " + name32(r));
  }
}

TEST(Emit, InstructionsOfTwoRegisters) {
  for (Reg a : kRegisters)
    for (Reg b : kRegisters) {
      const std::string operands = name(a) + ", " + name(b);
      EXPECT_EQ(text_of([&](auto& code) { code.mov(a, b); }), "mov " + operands);
      EXPECT_EQ(text_of([&](auto& code) { code.add(a, b); }), "add " + operands);
      EXPECT_EQ(text_of([&](auto& code) { code.sub(a, b); }), "sub " + operands);
      EXPECT_EQ(text_of([&](auto& code) { code.cmp(a, b); }), "cmp " + operands);
    }
}

TEST(Emit, InstructionsOfARegisterAndANumber) {
  for (Reg r : kRegisters) {
    EXPECT_EQ(text_of([&](auto& code) { code.cmp_imm32(r, 0x12345678); }),
              "cmp " + name(r) + ", 0x12345678");
    EXPECT_EQ(text_of([&](auto& code) { code.cmp32_imm32(r, 0x12345678); }),
              "cmp " + name32(r) + ", 0x12345678");
    EXPECT_EQ(text_of([&](auto& code) { code.cmp32_imm8(r, 16); }), "cmp " + name32(r) + ", 0x10");
    EXPECT_EQ(text_of([&](auto& code) { code.and32_imm32(r, 0x12345678); }),
              "and " + name32(r) + ", 0x12345678");
    EXPECT_EQ(text_of([&](auto& code) { code.halve32(r); }), "shr " + name32(r) + ", 1");
    EXPECT_EQ(text_of([&](auto& code) { code.test32(r); }), "test " + name32(r) + ", " + name32(r));
  }
}

TEST(Emit, MemoryOperandsWithEveryBaseAndEveryOffset) {
  for (Reg base : kRegisters) {
    for (int32_t offset : kOffsets) {
      const std::string where = "[" + name(base) + offset_text(offset) + "]";
      EXPECT_EQ(text_of([&](auto& code) { code.locked_increment(base, offset); }),
                "lock inc qword ptr " + where);
      EXPECT_EQ(text_of([&](auto& code) { code.locked_add(base, offset, Reg::r9); }),
                "lock add qword ptr " + where + ", r9");
      EXPECT_EQ(text_of([&](auto& code) { code.store_imm32(base, offset, 0x12345678); }),
                "mov qword ptr " + where + ", 0x12345678");
      EXPECT_EQ(text_of([&](auto& code) { code.jmp_memory(base, offset); }),
                "jmp qword ptr " + where);
      EXPECT_EQ(text_of([&](auto& code) { code.call_memory(base, offset); }),
                "call qword ptr " + where);
      for (Reg r : kRegisters) {
        EXPECT_EQ(text_of([&](auto& code) { code.load(r, base, offset); }),
                  "mov " + name(r) + ", qword ptr " + where);
        EXPECT_EQ(text_of([&](auto& code) { code.store(base, offset, r); }),
                  "mov qword ptr " + where + ", " + name(r));
        EXPECT_EQ(text_of([&](auto& code) { code.lea(r, base, offset); }),
                  "lea " + name(r) + ", " + where);
        EXPECT_EQ(text_of([&](auto& code) { code.add(r, base, offset); }),
                  "add " + name(r) + ", qword ptr " + where);
        EXPECT_EQ(text_of([&](auto& code) { code.sub(r, base, offset); }),
                  "sub " + name(r) + ", qword ptr " + where);
        EXPECT_EQ(text_of([&](auto& code) { code.cmp(r, base, offset); }),
                  "cmp " + name(r) + ", qword ptr " + where);
        EXPECT_EQ(text_of([&](auto& code) { code.cmp_memory(base, offset, r); }),
                  "cmp qword ptr " + where + ", " + name(r));
      }
    }
  }
}

TEST(Emit, IndexedOperandsWithEveryBaseAndIndexThatTheyCanHave) {
  for (Reg base : kRegisters) {
    if (base == Reg::rbp || base == Reg::r13) continue;  // would need a displacement
    for (Reg index : kRegisters) {
      if (index == Reg::rsp) continue;  // is no index
      for (Reg to : {Reg::rax, Reg::rcx, Reg::r9}) {
        EXPECT_EQ(text_of([&](auto& code) { code.load_indexed8(to, base, index); }),
                  "mov " + name(to) + ", qword ptr [" + name(base) + " + " + name(index) + "*8]");
        EXPECT_EQ(text_of([&](auto& code) { code.lea_indexed(to, base, index); }),
                  "lea " + name(to) + ", [" + name(base) + " + " + name(index) + "]");
        EXPECT_EQ(text_of([&](auto& code) { code.lea_indexed(to, base, index, Scale::by_2); }),
                  "lea " + name(to) + ", [" + name(base) + " + " + name(index) + "*2]");
        EXPECT_EQ(text_of([&](auto& code) { code.cmp_indexed(base, index, to); }),
                  "cmp qword ptr [" + name(base) + " + " + name(index) + "], " + name(to));
      }
    }
  }
}

TEST(Emit, InstructionsWithoutOperands) {
  EXPECT_EQ(text_of([](auto& code) { code.pushfq(); }), "pushfq");
  EXPECT_EQ(text_of([](auto& code) { code.popfq(); }), "popfq");
  EXPECT_EQ(text_of([](auto& code) { code.lahf(); }), "lahf");
  EXPECT_EQ(text_of([](auto& code) { code.sahf(); }), "sahf");
  EXPECT_EQ(text_of([](auto& code) { code.seto_al(); }), "seto al");
  EXPECT_EQ(text_of([](auto& code) { code.add_al(127); }), "add al, 0x7f");
  EXPECT_EQ(text_of([](auto& code) { code.cld(); }), "cld");
  EXPECT_EQ(text_of([](auto& code) { code.pause(); }), "pause");
  EXPECT_EQ(text_of([](auto& code) { code.std_(); }), "std");
  EXPECT_EQ(text_of([](auto& code) { code.syscall(); }), "syscall");
  EXPECT_EQ(text_of([](auto& code) { code.ret(); }), "ret");
}

TEST(Emit, ThreadLocalMemoryIsAddressedFromTheThreadPointer) {
  EXPECT_EQ(text_of([](auto& code) { code.pop_fs(0x968); }), "pop qword ptr fs:[0x968]");
  EXPECT_EQ(text_of([](auto& code) { code.store_fs(-0x60, Reg::r9); }),
            "mov qword ptr fs:[0xffffffffffffffa0], r9");
  EXPECT_EQ(text_of([](auto& code) { code.load_fs_sx32(Reg::rcx, 4); }),
            "movsxd rcx, dword ptr fs:[4]");
}

TEST(Emit, ThreadLocalMemoryTakesNumbers) {
  EXPECT_EQ(text_of([](auto& code) { code.store_fs_imm32(0x968, 7); }),
            "mov qword ptr fs:[0x968], 7");
  EXPECT_EQ(text_of([](auto& code) { code.store_fs32_imm32(0x968, 7); }),
            "mov dword ptr fs:[0x968], 7");
}

TEST(Emit, WideAddressesEndWithFourBytesOfOffset) {
  for (int32_t offset : {0, 1, -1, 0x1000, INT32_MIN}) {
    Assembler code(kBase);
    code.lea_wide(Reg::rcx, Reg::r13, offset);
    const auto bytes = code.finish();
    int32_t last = 0;
    std::memcpy(&last, bytes->data() + bytes->size() - 4, 4);
    EXPECT_EQ(last, offset);
  }
  EXPECT_EQ(text_of([](auto& code) { code.lea_wide(Reg::rcx, Reg::rcx, 8); }),
            "lea rcx, [rcx + 8]");
}

TEST(Emit, APushedImmediateIsSignExtended) {
  EXPECT_EQ(text_of([](auto& code) { code.push_imm(0x12345678); }), "push 0x12345678");
  EXPECT_EQ(text_of([](auto& code) { code.push_imm(1); }), "push 1");
  EXPECT_EQ(text_of([](auto& code) { code.push_imm(-1); }), "push -1");
}

TEST(Emit, ReferencesToAddresses) {
  const Address to = kBase + 0x1234;
  EXPECT_EQ(text_of([&](auto& code) { code.jmp(to); }), "jmp 0x7f0000002234");
  EXPECT_EQ(text_of([&](auto& code) { code.call(to); }), "call 0x7f0000002234");
  // capstone leaves RIP-relative operands relative: 0x1234 less the length of the instruction
  EXPECT_EQ(text_of([&](auto& code) { code.jmp_memory(to); }), "jmp qword ptr [rip + 0x122e]");
  EXPECT_EQ(text_of([&](auto& code) { code.call_memory(to); }), "call qword ptr [rip + 0x122e]");
  EXPECT_EQ(text_of([&](auto& code) { code.push_memory(to); }), "push qword ptr [rip + 0x122e]");
  for (Reg r : kRegisters)
    EXPECT_EQ(text_of([&](auto& code) { code.lea(r, to); }), "lea " + name(r) + ", [rip + 0x122d]");
}

TEST(Emit, ConditionalJumpsHaveTheProcessorsNumbers) {
  constexpr const char* kNames[] = {"jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja",
                                    "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg"};
  for (uint8_t condition = 0; condition < 16; ++condition)
    EXPECT_EQ(text_of([&](auto& code) {
                code.jump_if(static_cast<Condition>(condition), kBase + 0x100);
              }),
              std::string(kNames[condition]) + " 0x7f0000001100");
}

TEST(Emit, LabelsThatAreBoundLaterAndEarlier) {
  const auto around = [](const std::function<void(Assembler&, Assembler::Label)>& refer) {
    return text_of([&](Assembler& code) {
      const auto before = code.bind_here();
      const auto after = code.new_label();
      refer(code, before);
      refer(code, after);
      code.bind(after);
    });
  };
  EXPECT_EQ(around([](auto& code, auto label) { code.jmp(label); }),
            "jmp 0x7f0000001000; jmp 0x7f000000100a");
  EXPECT_EQ(around([](auto& code, auto label) { code.jmp_short(label); }),
            "jmp 0x7f0000001000; jmp 0x7f0000001004");
  EXPECT_EQ(around([](auto& code, auto label) { code.jump_if(Condition::equal, label); }),
            "je 0x7f0000001000; je 0x7f0000001004");
  EXPECT_EQ(around([](auto& code, auto label) { code.jrcxz(label); }),
            "jrcxz 0x7f0000001000; jrcxz 0x7f0000001004");
  EXPECT_EQ(around([](auto& code, auto label) { code.loop(label); }),
            "loop 0x7f0000001000; loop 0x7f0000001004");
  EXPECT_EQ(around([](auto& code, auto label) { code.push(label); }),
            "push qword ptr [rip - 6]; push qword ptr [rip]");
  EXPECT_EQ(around([](auto& code, auto label) { code.jmp_memory(label); }),
            "jmp qword ptr [rip - 6]; jmp qword ptr [rip]");
  EXPECT_EQ(around([](auto& code, auto label) { code.load(Reg::r10, label); }),
            "mov r10, qword ptr [rip - 7]; mov r10, qword ptr [rip]");
  EXPECT_EQ(around([](auto& code, auto label) { code.lea(Reg::r10, label); }),
            "lea r10, [rip - 7]; lea r10, [rip]");
}

TEST(Emit, DataIsLittleEndian) {
  Assembler code(kBase);
  code.u8(0x11);
  code.u32(0x22334455);
  code.u64(uint64_t{0x66778899aabbccdd});
  EXPECT_EQ(code.finish(),
            (Bytes{0x11, 0x55, 0x44, 0x33, 0x22, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66}));
}

TEST(Emit, LabelsAsAddressesAndDistances) {
  Assembler code(kBase);
  const auto after = code.new_label();
  code.u64(after);
  const auto middle = code.bind_here();
  code.distance(middle, after);
  code.u8(0x90);
  code.bind(after);
  const auto bytes = code.finish();
  ASSERT_TRUE(bytes);
  // The label lies after 8 bytes of address, 8 of distance, and the nop.
  EXPECT_EQ(*bytes, joined({little_endian(kBase + 17), little_endian(uint64_t{9}), {0x90}}));
}

TEST(Emit, AlignmentIsOfTheAddressNotOfTheOffset) {
  Assembler code(0x1003);
  code.align(8, 0xcc);
  EXPECT_EQ(code.here(), 0x1008u);
  code.align(8, 0xcc);
  EXPECT_EQ(code.here(), 0x1008u);
  EXPECT_EQ(code.finish(), repeated(0xcc, 5));
}

TEST(Emit, KnowsItsAddress) {
  Assembler code(kBase);
  EXPECT_EQ(code.here(), kBase);
  code.push(Reg::r8);  // 41 50
  EXPECT_EQ(code.here(), kBase + 2);
  EXPECT_EQ(code.size(), 2u);
}

TEST(Emit, AShortJumpReaches127BytesForwardAnd128Back) {
  const auto jump_over = [](size_t bytes) {
    Assembler code(kBase);
    const auto after = code.new_label();
    code.jmp_short(after);
    code.raw(repeated(0x90, bytes));
    code.bind(after);
    return code.finish().has_value();
  };
  EXPECT_TRUE(jump_over(127));
  EXPECT_FALSE(jump_over(128));
  const auto jump_back = [](size_t bytes) {
    Assembler code(kBase);
    const auto before = code.bind_here();
    code.raw(repeated(0x90, bytes));
    code.jmp_short(before);  // from the end of its own 2 bytes
    return code.finish().has_value();
  };
  EXPECT_TRUE(jump_back(126));
  EXPECT_FALSE(jump_back(127));
}

TEST(Emit, JrcxzReachesAsFarAsAShortJump) {
  for (size_t bytes : {127u, 128u}) {
    Assembler code(kBase);
    const auto after = code.new_label();
    code.jrcxz(after);
    code.raw(repeated(0x90, bytes));
    code.bind(after);
    EXPECT_EQ(code.finish().has_value(), bytes == 127);
  }
}

TEST(Emit, AReferenceBeyond2GBYieldsNoCode) {
  constexpr Address kFar = Address{1} << 31;
  const struct {
    const char* name;
    std::function<void(Assembler&, Address)> emit;
    uint64_t length;
  } kReferences[] = {
      {"jmp", [](auto& code, Address to) { code.jmp(to); }, 5},
      {"call", [](auto& code, Address to) { code.call(to); }, 5},
      {"jump_if", [](auto& code, Address to) { code.jump_if(Condition::equal, to); }, 6},
      {"jmp_memory", [](auto& code, Address to) { code.jmp_memory(to); }, 6},
      {"call_memory", [](auto& code, Address to) { code.call_memory(to); }, 6},
      {"push_memory", [](auto& code, Address to) { code.push_memory(to); }, 6},
      {"lea", [](auto& code, Address to) { code.lea(Reg::rax, to); }, 7},
  };
  for (const auto& reference : kReferences) {
    SCOPED_TRACE(reference.name);
    const Address end = kBase + reference.length;
    const auto reached = [&](Address to) {
      Assembler code(kBase);
      reference.emit(code, to);
      return code.finish().has_value();
    };
    EXPECT_TRUE(reached(end + kFar - 1));
    EXPECT_FALSE(reached(end + kFar));
    EXPECT_TRUE(reached(end - kFar));
    EXPECT_FALSE(reached(end - kFar - 1));
  }
}

TEST(Emit, OneReferenceOutOfReachInvalidatesAllCode) {
  Assembler code(kBase);
  code.jmp(kBase);
  code.lea(Reg::rax, Address{0});
  code.ret();
  EXPECT_FALSE(code.finish());
  Assembler marked(kBase);
  marked.ret();
  marked.mark_out_of_reach();
  EXPECT_FALSE(marked.finish());
}

TEST(Emit, ReachIsThatOfASignedDisplacement) {
  EXPECT_TRUE(reaches(0, 0x7fffffff));
  EXPECT_FALSE(reaches(0, 0x80000000));
  EXPECT_TRUE(reaches(0x80000000, 0));
  EXPECT_FALSE(reaches(0x80000001, 0));
}

TEST(Emit, AShortJumpIsEncodedIfItsByteReaches) {
  EXPECT_EQ(encode_short_jump(kBase, kBase + 129), (Bytes{0xeb, 0x7f}));
  EXPECT_EQ(encode_short_jump(kBase, kBase - 126), (Bytes{0xeb, 0x80}));
  EXPECT_FALSE(encode_short_jump(kBase, kBase + 130));
  EXPECT_FALSE(encode_short_jump(kBase, kBase - 127));
}

TEST(Emit, AJumpDistanceIsReadOnlyFromAJump) {
  for (size_t length = 5; length <= 8; ++length) {
    Bytes bytes(length);
    encode_jump(bytes, -0x12345678);
    EXPECT_EQ(jump_distance(bytes), -0x12345678);
    bytes[length - 5] = 0xe8;  // call
    EXPECT_EQ(jump_distance(bytes), std::nullopt);
  }
  EXPECT_EQ(jump_distance(Bytes{0x48, 0xe9, 1, 0, 0, 0}), std::nullopt);
  EXPECT_EQ(jump_distance(Bytes{0x90, 0xe9, 1, 0, 0, 0}), std::nullopt);
  EXPECT_EQ(jump_distance(Bytes{0xeb, 1}), std::nullopt);
}

TEST(Emit, AJumpFillsTheBytesThatItIsGiven) {
  const auto jump = [](size_t length, int32_t distance) {
    Bytes bytes(length);
    encode_jump(bytes, distance);
    return bytes;
  };
  EXPECT_EQ(jump(2, -3), (Bytes{0xeb, 0xfd}));
  EXPECT_EQ(jump(5, 0x12345678), (Bytes{0xe9, 0x78, 0x56, 0x34, 0x12}));
  EXPECT_EQ(jump(7, -2), (Bytes{0x2e, 0x2e, 0xe9, 0xfe, 0xff, 0xff, 0xff}));
  for (size_t length = 5; length <= 8; ++length) {
    const auto instruction = decode(jump(length, 0x1000), kBase);
    ASSERT_TRUE(instruction);
    EXPECT_EQ(instruction->length, length);
    EXPECT_EQ(instruction->target, kBase + length + 0x1000);
  }
}

TEST(Emit, AJumpKeepsAnExistingRexPrefix) {
  for (uint8_t rex = 0x40; rex <= 0x4f; ++rex)
    for (size_t length = 6; length <= 8; ++length) {
      Bytes bytes(length, rex);
      encode_jump(bytes, 0x1000);
      EXPECT_EQ(bytes[0], rex);
      const auto instruction = decode(bytes, kBase);
      ASSERT_TRUE(instruction);
      EXPECT_EQ(instruction->length, length);
      EXPECT_EQ(instruction->target, kBase + length + 0x1000);
    }
  for (int other : {0x3f, 0x50, 0x66, 0xf0}) {
    Bytes bytes(6, static_cast<uint8_t>(other));
    encode_jump(bytes, 0);
    EXPECT_EQ(bytes, (Bytes{0x2e, 0xe9, 0, 0, 0, 0})) << other;
  }
  Bytes bytes(5, 0x48);
  encode_jump(bytes, 0);
  EXPECT_EQ(bytes, (Bytes{0xe9, 0, 0, 0, 0})) << "no room for a prefix";
}

TEST(Emit, TheJumpAtASiteHas5BytesAndGoesToItsStub) {
  // jmp .+0x1234
  EXPECT_EQ(encode_jump(kBase, kBase + 0x1234), (Bytes{0xe9, 0x2f, 0x12, 0, 0}));
  // jmp .-0x1000
  EXPECT_EQ(encode_jump(kBase, kBase - 0x1000), (Bytes{0xe9, 0xfb, 0xef, 0xff, 0xff}));
  EXPECT_EQ(encode_jump(kBase, kBase)->size(), kJumpLength);
  EXPECT_FALSE(encode_jump(kBase, kBase + 5 + (Address{1} << 31)));
}

TEST(Emit, RelativeFieldsEndCopiedInstructions) {
  EXPECT_EQ(text_of([](auto& code) {
              const auto taken = code.new_label();
              code.u8(0xe2);  // loop
              code.relative8(taken);
              code.ret();
              code.bind(taken);
            }),
            "loop 0x7f0000001003; ret");
  EXPECT_EQ(text_of([](auto& code) {
              code.raw(Bytes{0x0f, 0x84});  // je
              code.relative32(kBase + 0x100);
            }),
            "je 0x7f0000001100");
}

TEST(Nops, FillAnyLengthWithInstructionsThatDoNothing) {
  for (size_t length = 1; length <= kMaxInstructionLength; ++length) {
    Bytes bytes(length, 0xcc);
    fill_with_nops(bytes);
    size_t at = 0, nops = 0;
    for (; at < length; ++nops) {
      const auto one = decode(std::span(bytes).subspan(at), kBase + at);
      ASSERT_TRUE(one) << length;
      EXPECT_EQ(one->special, Special::nop) << length;
      at += one->length;
    }
    EXPECT_EQ(at, length);
    EXPECT_EQ(nops, length <= 9 ? 1 : 2) << length;
  }
}

}  // namespace
}  // namespace pinprick::arch
