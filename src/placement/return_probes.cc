#include "placement/return_probes.h"

#include "placement/caller_use.h"
#include "placement/profiler_call.h"

namespace pinprick::placement {

std::optional<plan::Refusal> why_no_slots(image::Object& object) {
  if (object.elf().is_go()) return plan::Refusal{plan::Reason::stack_moves, 0};
  const auto runtime = object.stack_reading_runtime();
  if (!runtime) return std::nullopt;
  return plan::Refusal{plan::Reason::runtime_reads_stack, 0, *runtime};
}

std::optional<plan::Reason> why_not_called(const ReturnCandidate& function) {
  if (function.is_program_entry || function.entered == Entered::by_jump || is_thunk(function.names))
    return plan::Reason::not_called;
  if (function.entered == Entered::by_own_jump) return plan::Reason::entered_again;
  return std::nullopt;
}

std::optional<plan::Reason> why_no_slot(const ReturnCandidate& function, const CallerUse& callers) {
  if (function.is_in_unwinder) return plan::Reason::returns_otherwise;
  if (const auto reason = callers.reason(*function.object, *function.function)) return reason;
  // mcount finds the caller through the function's frame.
  const auto call = find_profiler_call(*function.object, function.code, function.begin());
  if (call && !call->is_at_entry) return plan::Reason::reads_return_address;
  return std::nullopt;
}

Address return_site(image::Object& object, std::span<const uint8_t> code, Address begin,
                    Address entry) {
  const auto call = find_profiler_call(object, code, begin);
  return call && call->is_at_entry ? call->end : entry;
}

}  // namespace pinprick::placement
