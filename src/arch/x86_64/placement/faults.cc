#include "arch/faults.h"

#include <algorithm>

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

struct WithOperands {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

  bool decode(std::span<const uint8_t> code) {
    return ZYAN_SUCCESS(
        ZydisDecoderDecodeFull(&full_decoder(), code.data(), code.size(), &instruction, operands));
  }
  std::span<const ZydisDecodedOperand> all() const {
    return std::span(operands).first(instruction.operand_count);
  }
};

// Stacks end in pages whose address is known, and runtimes tell a fault there by it.
bool accesses_known_memory(const ZydisDecodedOperand& operand) {
  const auto& memory = operand.mem;
  if (memory.type != ZYDIS_MEMOP_TYPE_MEM) return true;  // it takes an address
  const bool is_thread_local =
      memory.segment == ZYDIS_REGISTER_FS && memory.base == ZYDIS_REGISTER_NONE;
  return memory.index == ZYDIS_REGISTER_NONE &&
         (is_thread_local || memory.base == ZYDIS_REGISTER_RSP ||
          memory.base == ZYDIS_REGISTER_RIP);
}

bool changes_stack_pointer(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER && operand.reg.value == ZYDIS_REGISTER_RSP &&
         (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
}

}  // namespace

bool can_fault(std::span<const uint8_t> code) {
  WithOperands one;
  if (!one.decode(code)) return true;
  switch (one.instruction.mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
      return false;
    case ZYDIS_MNEMONIC_DIV:
    case ZYDIS_MNEMONIC_IDIV:
      return true;
    default:
      return std::ranges::any_of(one.all(), [](const ZydisDecodedOperand& operand) {
        return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && !accesses_known_memory(operand);
      });
  }
}

bool has_no_frame(std::span<const uint8_t> function) {
  WithOperands one;
  for (; !function.empty() && one.decode(function);
       function = function.subspan(one.instruction.length))
    if (one.instruction.mnemonic != ZYDIS_MNEMONIC_RET &&
        std::ranges::any_of(one.all(), changes_stack_pointer))
      return false;
  return true;
}

}  // namespace pinprick::arch
