#include "arch/x86_64/goroutine.h"

#include <algorithm>
#include <array>

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

// cmp 16(%r14),%rsp; jbe: against g.stackguard0. Larger frames compare %r12 behind a lea of five
// bytes or more, and Go before 1.17 begins with a mov of nine: those are alone under the jump.
bool is_stack_check(std::span<const uint8_t> code) {
  constexpr std::array<uint8_t, 4> kCompare = {0x49, 0x3b, 0x66, 0x10};
  if (code.size() < 6 || !std::equal(kCompare.begin(), kCompare.end(), code.begin())) return false;
  const auto branch = code.subspan(kCompare.size());
  const bool short_jbe = branch.size() == 2 && branch[0] == 0x76;
  const bool near_jbe = branch.size() == 6 && branch[0] == 0x0f && branch[1] == 0x86;
  return short_jbe || near_jbe;
}

// The stack, the program's own data and a thread's are always there.
bool may_fault(const ZydisDecodedOperand& operand) {
  if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || operand.mem.type == ZYDIS_MEMOP_TYPE_AGEN)
    return false;
  if (operand.mem.segment == ZYDIS_REGISTER_FS) return false;
  const bool known =
      operand.mem.base == ZYDIS_REGISTER_RSP || operand.mem.base == ZYDIS_REGISTER_RIP;
  return !known || operand.mem.index != ZYDIS_REGISTER_NONE;
}

}  // namespace

bool goroutine_may_run_elsewhere(std::span<const uint8_t> displaced) {
  if (is_stack_check(displaced)) return true;
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), displaced.data(), displaced.size(),
                                           &instruction, operands)) ||
      instruction.length != displaced.size())
    return false;
  return std::none_of(operands, operands + instruction.operand_count, may_fault);
}

}  // namespace pinprick::arch
