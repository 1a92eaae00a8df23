// The assembler's arithmetic, comparisons and shifts.
#include "arch/x86_64/emit.h"
#include "arch/x86_64/encoding.h"

namespace pinprick::arch {
namespace {

// In the place of a register: operations of group 1, of group 2, and of group 3.
constexpr uint8_t kAdd = 0, kOr = 1, kAnd = 4, kSubtract = 5, kXor = 6, kCompare = 7;
constexpr uint8_t kShiftLeft = 4, kShiftRight = 5, kShiftRightSigned = 7;
constexpr uint8_t kComplement = 2, kNegate = 3, kDivide = 6, kDivideSigned = 7;

}  // namespace

void Assembler::lahf() {
  u8(0x9f);
}
void Assembler::sahf() {
  u8(0x9e);
}

void Assembler::seto_al() {
  u8(0x0f);
  u8(0x90);
  u8(0xc0);
}

void Assembler::add_al(uint8_t value) {
  u8(0x04);
  u8(value);
}

void Assembler::add(Reg to, Reg from) {
  wide(0x01, from, to);
}

void Assembler::add(Reg to, Reg base, int32_t offset) {
  wide(0x03, to, base, offset);
}

void Assembler::sub(Reg to, Reg from) {
  wide(0x29, from, to);
}

void Assembler::sub(Reg to, Reg base, int32_t offset) {
  wide(0x2b, to, base, offset);
}

void Assembler::cmp(Reg left, Reg right) {
  wide(0x39, right, left);
}

void Assembler::cmp(Reg left, Reg base, int32_t offset) {
  wide(0x3b, left, base, offset);
}

void Assembler::cmp_memory(Reg base, int32_t offset, Reg with) {
  wide(0x39, with, base, offset);
}

void Assembler::cmp_indexed(Reg base, Reg index, Reg with) {
  rex_w(with, base, index);
  u8(0x39);
  modrm_indexed(with, base, index, Scale::by_1);
}

// For eax there is a shorter encoding, without a byte for the register.
void Assembler::group1_imm32(uint8_t operation, Reg reg, uint32_t value) {
  if (reg == Reg::rax) {
    u8(static_cast<uint8_t>(operation << 3 | 5));
  } else {
    u8(0x81);
    u8(modrm(3, operation, low3(reg)));
  }
  u32(value);
}

void Assembler::group1_imm(uint8_t operation, Reg reg, int32_t value) {
  rex_w(Reg::rax, reg);
  group1_imm32(operation, reg, static_cast<uint32_t>(value));
}

void Assembler::cmp_imm32(Reg reg, int32_t value) {
  group1_imm(kCompare, reg, value);
}
void Assembler::add_imm32(Reg to, int32_t value) {
  group1_imm(kAdd, to, value);
}
void Assembler::sub_imm32(Reg to, int32_t value) {
  group1_imm(kSubtract, to, value);
}
void Assembler::and_imm32(Reg to, int32_t value) {
  group1_imm(kAnd, to, value);
}
void Assembler::or_imm32(Reg to, int32_t value) {
  group1_imm(kOr, to, value);
}
void Assembler::xor_imm32(Reg to, int32_t value) {
  group1_imm(kXor, to, value);
}

void Assembler::multiply_imm32(Reg to, int32_t value) {
  wide(0x69, to, to);
  u32(static_cast<uint32_t>(value));
}

void Assembler::and_(Reg to, Reg from) {
  wide(0x21, from, to);
}

void Assembler::or_(Reg to, Reg from) {
  wide(0x09, from, to);
}

void Assembler::xor_(Reg to, Reg from) {
  wide(0x31, from, to);
}

void Assembler::multiply(Reg to, Reg from) {
  rex_w(to, from);
  u8(0x0f);
  u8(0xaf);
  u8(modrm(3, low3(to), low3(from)));
}

void Assembler::group3(uint8_t operation, Reg reg) {
  rex_w(Reg::rax, reg);
  u8(0xf7);
  u8(modrm(3, operation, low3(reg)));
}

void Assembler::negate(Reg reg) {
  group3(kNegate, reg);
}
void Assembler::complement(Reg reg) {
  group3(kComplement, reg);
}
void Assembler::divide(Reg reg) {
  group3(kDivide, reg);
}
void Assembler::divide_signed(Reg reg) {
  group3(kDivideSigned, reg);
}

void Assembler::sign_into_rdx() {
  rex_w(Reg::rax, Reg::rax);
  u8(0x99);
}

void Assembler::cmp32_imm32(Reg reg, uint32_t value) {
  rex_if_high(reg);
  group1_imm32(kCompare, reg, value);
}

void Assembler::cmp32_imm8(Reg reg, int8_t value) {
  rex_if_high(reg);
  u8(0x83);
  u8(modrm(3, kCompare, low3(reg)));
  u8(static_cast<uint8_t>(value));
}

void Assembler::and32_imm32(Reg reg, uint32_t value) {
  rex_if_high(reg);
  group1_imm32(kAnd, reg, value);
}

void Assembler::group2(uint8_t operation, Reg reg, uint8_t bits) {
  rex_w(Reg::rax, reg);
  u8(0xc1);
  u8(modrm(3, operation, low3(reg)));
  u8(bits);
}

void Assembler::group2_by_cl(uint8_t operation, Reg reg) {
  rex_w(Reg::rax, reg);
  u8(0xd3);
  u8(modrm(3, operation, low3(reg)));
}

void Assembler::shift_right(Reg reg, uint8_t bits) {
  group2(kShiftRight, reg, bits);
}
void Assembler::shift_left(Reg reg, uint8_t bits) {
  group2(kShiftLeft, reg, bits);
}
void Assembler::shift_right_signed(Reg reg, uint8_t bits) {
  group2(kShiftRightSigned, reg, bits);
}
void Assembler::shift_left_by_cl(Reg reg) {
  group2_by_cl(kShiftLeft, reg);
}
void Assembler::shift_right_by_cl(Reg reg) {
  group2_by_cl(kShiftRight, reg);
}
void Assembler::shift_right_signed_by_cl(Reg reg) {
  group2_by_cl(kShiftRightSigned, reg);
}

void Assembler::test(Reg reg) {
  wide(0x85, reg, reg);
}

void Assembler::halve32(Reg reg) {
  rex_if_high(reg);
  u8(0xd1);
  u8(modrm(3, 5, low3(reg)));
}

void Assembler::test32(Reg reg) {
  if (high(reg)) u8(0x45);
  u8(0x85);
  u8(modrm(3, low3(reg), low3(reg)));
}

void Assembler::multiply32(Reg reg, uint32_t factor) {
  if (high(reg)) u8(0x45);
  u8(0x69);
  u8(modrm(3, low3(reg), low3(reg)));
  u32(factor);
}

}  // namespace pinprick::arch
