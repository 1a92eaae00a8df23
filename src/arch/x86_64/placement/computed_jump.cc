#include "arch/computed_jump.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

constexpr uint8_t kWordBits = 64;

// What a register is known to hold: `base` plus a multiple of two to the power of `zeros`. This
// stays true for sums and products that overflow, and if only their lower 32 bits are kept.
struct KnownValue {
  Address base = 0;
  uint8_t zeros = 0;   // 64: exactly `base`; 0: any value
  bool is_up = false;  // at least `base`, by far less than half of the address space
};

using Operand = ZydisDecodedOperand;

class KnownRegisters {
 public:
  KnownValue get(ZydisRegister reg) const {
    if (reg == ZYDIS_REGISTER_NONE) return {0, kWordBits, true};
    const auto at = index(reg);
    return at ? values_[*at] : KnownValue{};
  }
  void set(ZydisRegister reg, KnownValue value) {
    if (const auto at = index(reg)) values_[*at] = value;
  }

 private:
  static std::optional<size_t> index(ZydisRegister reg) {
    const auto whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15) return std::nullopt;
    return static_cast<size_t>(whole - ZYDIS_REGISTER_RAX);
  }

  std::array<KnownValue, 16> values_;
};

KnownValue sum(KnownValue a, KnownValue b) {
  return {a.base + b.base, std::min(a.zeros, b.zeros), a.is_up && b.is_up};
}

// A multiple of an address is not an address.
KnownValue shifted(KnownValue value, uint64_t bits) {
  constexpr uint64_t kFew = 8;  // 32 bits shifted by this are less than half a word
  if (bits >= kWordBits) return {};
  const auto known = std::min<int>(value.zeros, std::countr_zero(value.base));
  return {0, static_cast<uint8_t>(std::min<uint64_t>(kWordBits - 1, known + bits)),
          value.is_up && value.base == 0 && bits <= kFew};
}

bool is_any_register(const Operand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER;
}

// Returns what the instruction computes into its first operand, a full register.
KnownValue result(const ZydisDecodedInstruction& instruction, const Operand* operands,
                  Address address, const KnownRegisters& registers) {
  const Operand& from = operands[1];
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_LEA: {
      if (instruction.address_width != kWordBits) return {};
      if (from.mem.base == ZYDIS_REGISTER_RIP)
        return {address + instruction.length + static_cast<uint64_t>(from.mem.disp.value),
                kWordBits, true};
      const KnownValue index =
          from.mem.index == ZYDIS_REGISTER_NONE
              ? KnownValue{0, kWordBits, true}
              : shifted(registers.get(from.mem.index),
                        static_cast<uint64_t>(std::countr_zero(uint8_t{from.mem.scale})));
      const KnownValue both = sum(registers.get(from.mem.base), index);
      return {both.base + static_cast<uint64_t>(from.mem.disp.value), both.zeros, both.is_up};
    }
    case ZYDIS_MNEMONIC_SHL:
      if (from.type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return {};
      return shifted(registers.get(operands[0].reg.value), from.imm.value.u % operands[0].size);
    case ZYDIS_MNEMONIC_ADD:
      if (!is_any_register(from)) return {};
      return sum(registers.get(operands[0].reg.value), registers.get(from.reg.value));
    case ZYDIS_MNEMONIC_MOV:
      return is_any_register(from) ? registers.get(from.reg.value) : KnownValue{};
    default:
      return {};
  }
}

// What the instruction writes is unknown afterwards, except for what result() knows.
void execute(const ZydisDecodedInstruction& instruction, const Operand* operands, Address address,
             KnownRegisters& registers) {
  KnownValue first;
  const bool computes = instruction.operand_count_visible >= 2 && is_any_register(operands[0]) &&
                        operands[0].size >= 32;
  if (computes) first = result(instruction, operands, address, registers);
  if (computes && operands[0].size != kWordBits) {
    // Half of an address is not an address; the upper half is zero.
    if (first.base != 0 || first.zeros == kWordBits) first = {};
    first.is_up = true;
  }
  for (int i = 0; i < instruction.operand_count; ++i)
    if (is_any_register(operands[i]) &&
        (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0)
      registers.set(operands[i].reg.value, {});
  if (computes && (operands[0].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0)
    registers.set(operands[0].reg.value, first);
}

}  // namespace

std::optional<ComputedJump> computed_jump(std::span<const uint8_t> code, Address address) {
  KnownRegisters registers;
  while (!code.empty()) {
    ZydisDecodedInstruction instruction;
    Operand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), code.data(), code.size(),
                                             &instruction, operands)))
      return std::nullopt;
    if (instruction.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE) {
      if (instruction.length != code.size() || instruction.mnemonic != ZYDIS_MNEMONIC_JMP ||
          !is_any_register(operands[0]))
        return std::nullopt;
      const KnownValue target = registers.get(operands[0].reg.value);
      if (target.base == 0 || target.zeros == 0 || target.zeros == kWordBits) return std::nullopt;
      return ComputedJump{target.base, uint64_t{1} << target.zeros, target.is_up};
    }
    execute(instruction, operands, address, registers);
    address += instruction.length;
    code = code.subspan(instruction.length);
  }
  return std::nullopt;
}

bool jumps_to_sum(std::span<const uint8_t> sum, std::span<const uint8_t> jump) {
  ZydisDecodedInstruction first, second;
  Operand to[ZYDIS_MAX_OPERAND_COUNT], target[ZYDIS_MAX_OPERAND_COUNT];
  const auto decode = [](std::span<const uint8_t> code, ZydisDecodedInstruction& one,
                         Operand* operands) {
    return ZYAN_SUCCESS(
        ZydisDecoderDecodeFull(&full_decoder(), code.data(), code.size(), &one, operands));
  };
  return decode(sum, first, to) && decode(jump, second, target) &&
         first.mnemonic == ZYDIS_MNEMONIC_ADD && second.mnemonic == ZYDIS_MNEMONIC_JMP &&
         is_any_register(to[0]) && is_any_register(target[0]) &&
         to[0].reg.value == target[0].reg.value;
}

}  // namespace pinprick::arch
