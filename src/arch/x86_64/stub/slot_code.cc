#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "arch/code.h"
#include "arch/stub.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {

namespace {

using SlotCode = std::array<uint8_t, kSlotCodeSize>;

// The ends of the last two instructions, from the start of a slot's code.
constexpr size_t kLeaEnd = kSlotLeaves + 8;  // push %rax; lea slot(%rip), %rax
constexpr size_t kJumpEnd = kLeaEnd + kJumpLength;

void emit_one(Assembler& code, Address slot, Address leave) {
  const Address begin = code.here();
  code.call_memory(slot + PP_SLOT_COPY);
  assert(code.here() == begin + kSlotReturn);
  code.push_memory(slot + PP_SLOT_RETURN_ADDRESS);
  assert(code.here() == begin + kSlotLeaves);
  code.push(Reg::rax);
  code.lea(Reg::rax, slot);
  assert(code.here() == begin + kLeaEnd);
  code.jmp(leave);
  assert(code.here() == begin + kJumpEnd);
  while (code.here() < begin + kSlotCodeSize) code.u8(kBreakpoint);
  assert(code.here() == begin + kSlotCodeSize);
}

// Adds to the distance that ends at the offset.
void move_distance(SlotCode& bytes, size_t end, int32_t by) {
  uint8_t* const at = bytes.data() + end - sizeof(int32_t);
  int32_t distance = 0;
  std::memcpy(&distance, at, sizeof distance);
  distance += by;
  std::memcpy(at, &distance, sizeof distance);
}

// Makes the code of a slot that of the next one: only the distances differ, by as much each time.
void go_to_next(SlotCode& bytes) {
  constexpr auto kCode = static_cast<int32_t>(kSlotCodeSize);
  constexpr int32_t kToSlot = static_cast<int32_t>(sizeof(layout::Slot)) - kCode;
  for (const size_t end : {size_t{kSlotReturn}, size_t{kSlotLeaves}, kLeaEnd})
    move_distance(bytes, end, kToSlot);
  move_distance(bytes, kJumpEnd, -kCode);
}

}  // namespace

// The assembler emits the first slot and the last one, and finds out whether they reach what they
// refer to. Then so do those between, which are some ten times as fast to make like this.
void emit_slot_code(Assembler& code, Address slots, uint64_t count, Address leave) {
  const auto slot = [&](uint64_t i) { return slots + i * sizeof(layout::Slot); };
  if (count == 0) return;
  Assembler first(code.here());
  emit_one(first, slot(0), leave);
  const auto emitted = first.finish();
  emit_one(code, slot(0), leave);
  SlotCode bytes = {};
  if (emitted) std::copy(emitted->begin(), emitted->end(), bytes.begin());
  for (uint64_t i = 1; i + 1 < count; ++i) {
    go_to_next(bytes);
    code.raw(bytes);
  }
  if (count > 1) emit_one(code, slot(count - 1), leave);
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
