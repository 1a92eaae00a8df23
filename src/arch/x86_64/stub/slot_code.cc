#include <cassert>

#include "arch/code.h"
#include "arch/stub.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {

void emit_slot_code(Assembler& code, Address slots, uint64_t count, Address leave) {
  for (uint64_t i = 0; i < count; ++i) {
    const Address slot = slots + i * sizeof(layout::Slot);
    const Address begin = code.here();
    code.call_memory(slot + PP_SLOT_COPY);
    assert(code.here() == begin + kSlotReturn);
    code.push_memory(slot + PP_SLOT_RETURN_ADDRESS);
    assert(code.here() == begin + kSlotLeaves);
    code.push(Reg::rax);
    code.lea(Reg::rax, slot);
    code.jmp(leave);
    while (code.here() < begin + kSlotCodeSize) code.u8(kBreakpoint);
    assert(code.here() == begin + kSlotCodeSize);
  }
}

std::optional<Address> where_slot_leaves(std::span<const uint8_t> bytes, Address code) {
  if (bytes.size() < kSlotCodeSize) return std::nullopt;
  for (size_t at = kSlotLeaves; at < kSlotCodeSize;) {
    const auto instruction = decode(bytes.subspan(at), code + at);
    if (!instruction) break;
    if (instruction->flow == Flow::jump) return instruction->target;
    at += instruction->length;
  }
  return std::nullopt;
}

std::vector<CodeRow> emit_slot_exit(Assembler& code, Address leave) {
  constexpr int8_t kReturnAddressAndRax = 2;
  const Address begin = code.here();
  const auto pointer = code.new_label();
  code.jmp_memory(pointer);
  code.bind(pointer);
  code.u64(leave);
  while (code.here() < begin + kSlotExitSize) code.u8(kBreakpoint);
  return {{begin, CodeRow::Caller::returned_to, kReturnAddressAndRax}, {code.here()}};
}

}  // namespace pinprick::arch
