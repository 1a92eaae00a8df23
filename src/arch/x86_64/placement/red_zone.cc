#include "arch/red_zone.h"

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

bool is_below_stack(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.base == ZYDIS_REGISTER_RSP &&
         operand.mem.disp.has_displacement && operand.mem.disp.value < 0;
}

// lea -24(%rsp),%rsp makes room on the stack, and accesses no memory.
bool moves_stack(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  return instruction.mnemonic == ZYDIS_MNEMONIC_LEA && operands[0].reg.value == ZYDIS_REGISTER_RSP;
}

}  // namespace

bool addresses_below_stack(std::span<const uint8_t> code) {
  while (!code.empty()) {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), code.data(), code.size(),
                                             &instruction, operands)))
      return true;
    if (!moves_stack(instruction, operands))
      for (int i = 0; i < instruction.operand_count_visible; ++i)
        if (is_below_stack(operands[i])) return true;
    code = code.subspan(instruction.length);
  }
  return false;
}

}  // namespace pinprick::arch
