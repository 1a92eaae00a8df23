#include "library/probes/return_slots.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>

#include "arch/stub.h"
#include "arch/unwind_tables.h"
#include "library/process/own_ledger.h"
#include "library/process/unwinding.h"
#include "runtime/activations.h"
#include "runtime/handlers.h"

namespace pinprick::library {
namespace {

using runtime::kSlots;

constexpr uint64_t kDataSize = kSlots * sizeof(layout::Slot);
// The code starts with an indirect jump to pp_returned, which may be out of a direct jump's reach.
constexpr uint64_t kCodeSize = kSlots << PP_SLOT_CODE_SIZE_LOG2;

// The personality of a slot's frame, which the unwinder finds between a measured function and its
// caller. No exception is caught here. In the cleanup phase the unwinder enters pp_landed, which
// gives the slot back and goes on unwinding from the call of the function.
_Unwind_Reason_Code personality(int, _Unwind_Action actions, uint64_t, _Unwind_Exception* exception,
                                _Unwind_Context* context) {
  if ((actions & _UA_CLEANUP_PHASE) == 0) return _URC_CONTINUE_UNWIND;
  return land(__builtin_return_address(0), exception, context, runtime::slot_code, runtime::slots,
              pp_landed);
}

// At least doubled each time, so what is not used any more is less than what is.
runtime::MoreParticipants latest_participants;

void* map(uint64_t size) {
  return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

}  // namespace

Result<void, SystemError> make_more_participants(size_t count) {
  constexpr size_t kMost = size_t{1} << 20;  // at one address; the product below cannot overflow
  if (count <= runtime::kUsualReturnProbes || count <= latest_participants.each) return {};
  if (count > kMost) return fail(SystemError{ENOMEM});
  const size_t each = std::bit_ceil(count);
  void* const memory =
      ::mmap(nullptr, kSlots * each * sizeof(runtime::Participant), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return fail(SystemError{ENOMEM});
  latest_participants = {static_cast<runtime::Participant*>(memory), static_cast<uint32_t>(each)};
  return {};
}

runtime::MoreParticipants more_participants() {
  return latest_participants;
}

void cover_slots(const arch::SlotFrames& frames, _Unwind_Personality_Fn personality) {
  cover(frames.code, arch::RangeKind::slots, [&](arch::Assembler& code) {
    return arch::emit_slot_unwind_table(code, frames, reinterpret_cast<Address>(personality));
  });
}

Result<void, SystemError> make_return_slots(const target::SelfTarget& self) {
  if (runtime::slots != nullptr) return {};
  const uint64_t code_size = align_up(arch::kSlotExitSize + kCodeSize, kPageSize);
  void* const memory = map(kDataSize + code_size);
  void* const calls = map(kSlots * sizeof(runtime::Activation));
  if (memory == MAP_FAILED || calls == MAP_FAILED) return fail(SystemError{ENOMEM});
  const auto data = reinterpret_cast<Address>(memory);
  const Address code_begin = data + kDataSize;
  if (::mprotect(reinterpret_cast<void*>(code_begin), code_size, PROT_READ | PROT_EXEC) != 0)
    return fail(SystemError{errno});
  OwnLedger::get().note_code({code_begin, code_begin + code_size});

  arch::Assembler code(code_begin);
  const auto way_out = arch::emit_slot_exit(code, reinterpret_cast<Address>(pp_returned));
  const Address first = code.here();
  arch::emit_slot_code(code, data, kSlots, code_begin);
  if (auto done = self.memory().write(code_begin, *code.finish()); !done) return done;

  auto* const slots = static_cast<layout::Slot*>(memory);
  for (uint32_t i = 0; i < kSlots; ++i) {
    slots[i].code = first + (uint64_t{i} << PP_SLOT_CODE_SIZE_LOG2);
    slots[i].global_next = i + 1 < kSlots ? i + 2 : 0;
  }
  runtime::activations = static_cast<runtime::Activation*>(calls);
  runtime::slot_code = {first, first + kCodeSize};
  runtime::slots = slots;
  // The record of such a call is the stub's HitRecord (runtime/handlers.cc).
  cover_slots({runtime::slot_code, data, PP_HIT_ADDRESS}, &personality);
  OwnLedger::get().note_slots({data, first, kSlots});
  cover({code_begin, first}, arch::RangeKind::stubs,
        [&](arch::Assembler& table) { return arch::emit_code_unwind_table(table, way_out); });
  tell_unwinders();
  return {};
}

}  // namespace pinprick::library
