#include "arch/thread_variable.h"

#include <Zydis/Zydis.h>

#include <array>

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

// The value of rax, as the sum of these.
struct Sum {
  bool has_thread_pointer = false;
  Address word_at = 0;  // 0: none
  int64_t number = 0;
};

struct DecodedStep {
  ZydisDecodedInstruction decoded;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
  Address end = 0;

  bool is(ZydisMnemonic mnemonic) const { return decoded.mnemonic == mnemonic; }
  bool changes_rax() const {
    return decoded.operand_count_visible == 2 && operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           operands[0].reg.value == ZYDIS_REGISTER_RAX;
  }
};

// Returns the value of the second operand; nullopt if it is none of those that Sum has.
std::optional<Sum> second_operand(const DecodedStep& one) {
  const ZydisDecodedOperand& from = one.operands[1];
  if (from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return Sum{.number = from.imm.value.s};
  if (from.type != ZYDIS_OPERAND_TYPE_MEMORY || from.mem.index != ZYDIS_REGISTER_NONE)
    return std::nullopt;
  const auto distance = static_cast<uint64_t>(from.mem.disp.value);
  const bool is_thread_pointer = from.mem.segment == ZYDIS_REGISTER_FS &&
                                 from.mem.base == ZYDIS_REGISTER_NONE && distance == 0;
  if (is_thread_pointer) return Sum{.has_thread_pointer = true};
  if (from.mem.segment != ZYDIS_REGISTER_FS && from.mem.base == ZYDIS_REGISTER_RIP)
    return Sum{.word_at = one.end + distance};
  return std::nullopt;
}

// Returns nullopt if one of both can only be there once.
std::optional<Sum> sum_of(const Sum& one, const Sum& other) {
  if ((one.has_thread_pointer && other.has_thread_pointer) ||
      (one.word_at != 0 && other.word_at != 0))
    return std::nullopt;
  return Sum{one.has_thread_pointer || other.has_thread_pointer, one.word_at | other.word_at,
             one.number + other.number};
}

// Returns what rax is after the instruction; nullopt if that is not known.
std::optional<Sum> after(const DecodedStep& one, const std::optional<Sum>& before) {
  if (!one.changes_rax()) return std::nullopt;
  const ZydisDecodedOperand& from = one.operands[1];
  if (one.is(ZYDIS_MNEMONIC_LEA)) {
    const bool adds_number =
        from.mem.base == ZYDIS_REGISTER_RAX && from.mem.index == ZYDIS_REGISTER_NONE;
    return adds_number && before ? sum_of(*before, {.number = from.mem.disp.value}) : std::nullopt;
  }
  const auto operand = second_operand(one);
  if (one.is(ZYDIS_MNEMONIC_MOV)) return operand;
  if (!operand || !before) return std::nullopt;
  if (one.is(ZYDIS_MNEMONIC_ADD)) return sum_of(*before, *operand);
  const bool subtracts_number =
      one.is(ZYDIS_MNEMONIC_SUB) && !operand->has_thread_pointer && operand->word_at == 0;
  return subtracts_number ? sum_of(*before, {.number = -operand->number}) : std::nullopt;
}

}  // namespace

std::optional<ThreadVariable> returned_thread_variable(std::span<const uint8_t> function,
                                                       Address begin) {
  std::optional<Sum> rax;
  for (size_t at = 0; at < function.size();) {
    DecodedStep one;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), function.data() + at,
                                             function.size() - at, &one.decoded,
                                             one.operands.data())))
      return std::nullopt;
    at += one.decoded.length;
    one.end = begin + at;
    if (one.is(ZYDIS_MNEMONIC_ENDBR64) || one.is(ZYDIS_MNEMONIC_NOP)) continue;
    if (one.is(ZYDIS_MNEMONIC_RET)) {
      const bool is_one = rax && rax->has_thread_pointer && (rax->word_at == 0 || rax->number == 0);
      if (!is_one || rax->number < INT32_MIN || rax->number > INT32_MAX) return std::nullopt;
      return ThreadVariable{rax->word_at, rax->number};
    }
    rax = after(one, rax);
    if (!rax) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace pinprick::arch
