#include "arch/x86_64/return_address.h"

#include <cstdint>

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

constexpr int64_t kUnknown = INT64_MIN;

// Distance from a register to the return address.
struct Frame {
  int64_t from_rsp = 0;
  int64_t from_rbp = kUnknown;

  void move_rsp(int64_t down) {
    if (from_rsp != kUnknown) from_rsp += down;
  }
};

bool is_register(const ZydisDecodedOperand& operand, ZydisRegister reg) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER && operand.reg.value == reg;
}

bool writes(const ZydisDecodedOperand& operand) {
  return (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
}

bool reads_slot(const ZydisDecodedOperand& operand, const Frame& frame) {
  if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || operand.mem.type != ZYDIS_MEMOP_TYPE_MEM ||
      operand.mem.index != ZYDIS_REGISTER_NONE ||
      !(operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ))
    return false;
  const int64_t displacement = operand.mem.disp.has_displacement ? operand.mem.disp.value : 0;
  if (operand.mem.base == ZYDIS_REGISTER_RSP) return frame.from_rsp == displacement;
  if (operand.mem.base == ZYDIS_REGISTER_RBP) return frame.from_rbp == displacement;
  return false;
}

// `lock or $0,(%rsp)`, a memory barrier for which any line in the cache would do.
bool is_barrier(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  return instruction.mnemonic == ZYDIS_MNEMONIC_OR &&
         (instruction.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0 &&
         operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operands[1].imm.value.u == 0;
}

bool uses_slot(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
               const Frame& frame) {
  if (instruction.mnemonic == ZYDIS_MNEMONIC_POP && frame.from_rsp == 0) return true;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_LEA || is_barrier(instruction, operands)) return false;
  for (int i = 0; i < instruction.operand_count_visible; ++i)
    if (reads_slot(operands[i], frame)) return true;
  return false;
}

// How the instruction moves rsp and rbp. Whatever is not understood makes them unknown.
void follow(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
            Frame& frame) {
  const auto& first = operands[0];
  const auto& second = operands[1];
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
    case ZYDIS_MNEMONIC_PUSHFQ:
      frame.move_rsp(instruction.operand_width / 8);
      return;
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_POPFQ:
      frame.move_rsp(-(instruction.operand_width / 8));
      if (is_register(first, ZYDIS_REGISTER_RBP)) frame.from_rbp = kUnknown;
      if (is_register(first, ZYDIS_REGISTER_RSP)) frame.from_rsp = kUnknown;
      return;
    case ZYDIS_MNEMONIC_CALL:
      return;  // comes back with rsp as it was
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_ADD:
      if (is_register(first, ZYDIS_REGISTER_RSP) && second.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
        const int64_t value = second.imm.value.s;
        frame.move_rsp(instruction.mnemonic == ZYDIS_MNEMONIC_SUB ? value : -value);
        return;
      }
      break;
    case ZYDIS_MNEMONIC_MOV:
      if (is_register(first, ZYDIS_REGISTER_RBP) && is_register(second, ZYDIS_REGISTER_RSP)) {
        frame.from_rbp = frame.from_rsp;
        return;
      }
      break;
    default:
      break;
  }
  for (int i = 0; i < instruction.operand_count; ++i) {
    if (!writes(operands[i])) continue;
    if (is_register(operands[i], ZYDIS_REGISTER_RSP)) frame.from_rsp = kUnknown;
    if (is_register(operands[i], ZYDIS_REGISTER_RBP)) frame.from_rbp = kUnknown;
  }
}

}  // namespace

bool reads_return_address(std::span<const uint8_t> function) {
  Frame frame;
  while (!function.empty() && (frame.from_rsp != kUnknown || frame.from_rbp != kUnknown)) {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), function.data(), function.size(),
                                             &instruction, operands)))
      return false;
    if (uses_slot(instruction, operands, frame)) return true;
    const bool leaves =
        instruction.mnemonic == ZYDIS_MNEMONIC_RET || instruction.mnemonic == ZYDIS_MNEMONIC_JMP;
    if (leaves) return false;
    follow(instruction, operands, frame);
    function = function.subspan(instruction.length);
  }
  return false;
}

}  // namespace pinprick::arch
