#include "arch/stub.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>
#include <variant>

#include "arch/jump.h"
#include "arch/x86_64/stub/arena.h"
#include "arch/x86_64/stub/records.h"
#include "arch/x86_64/stub/stub_writer.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {

Stub StubWriter::write() {
  const auto& actions = spec_.actions;
  const bool writes_ahead =
      !actions.empty() && actions.front().offset == 0 && actions.front().condition.empty();
  if (writes_ahead && has_out_of_line(actions.front())) write_out_of_line(actions.front());
  stub_.begin = code_.here();
  next_ = displaced_.address;
  for (const StubAction& action : actions) {
    copy_up_to(action.offset);
    if (!action.condition.empty()) {
      write_with_condition(action);
    } else {
      if (has_out_of_line(action) && !(writes_ahead && &action == &actions.front()))
        write_out_of_line_here(action);
      write_switch(action);
      std::visit([&](const auto& what) { write_action(action, what); }, action.what);
    }
    next_ = displaced_.address + copied_;
    if (&action == &actions.back() || !is_of_one_probe(action, (&action)[1])) end_switch();
  }
  begin_copy();
  copy_up_to(displaced_.bytes.size());
  emit_continuation(code_, displaced_, next_, stub_);
  write_code_for_return();
  write_records();
  stub_.end = code_.here();
  return std::move(stub_);
}

void StubWriter::copy_up_to(size_t offset) {
  assert(offset >= copied_);
  if (offset == copied_) return;
  begin_copy();
  next_ = emit_copies(code_, displaced_, copied_, offset, stub_);
  copied_ = offset;
}

void StubWriter::begin_copy() {
  if (!std::exchange(copy_has_begun_, true)) code_.bind(copy_);
}

void StubWriter::write_switch(const StubAction& action) {
  const bool is_first =
      &action == &spec_.actions.front() || !is_of_one_probe((&action)[-1], action);
  if (!spec_.has_switches || !is_first) return;
  assert(!std::holds_alternative<CallHandlers>(action.what));
  words_are(action, 0);
  stub_.switches.push_back({action.offset, action.probe, code_.here(), 0});
  code_.raw(*encode_link(code_.here(), 0));
}

void StubWriter::end_switch() {
  if (!stub_.switches.empty()) stub_.switches.back().past = code_.here();
}

bool StubWriter::has_out_of_line(const StubAction& action) const {
  if (std::holds_alternative<CountHit>(action.what))
    return spec_.rseq.has_value() && action.stack != StackUse::none;
  return std::holds_alternative<CallRoutine>(action.what);
}

void StubWriter::write_out_of_line(const StubAction& action) {
  if (const auto* const routine = std::get_if<CallRoutine>(&action.what))
    write_routine(*routine);
  else
    write_sequence_out_of_line(action);
}

void StubWriter::write_out_of_line_here(const StubAction& action) {
  const auto over = code_.new_label();
  words_are(action, 0);
  if (std::holds_alternative<CallRoutine>(action.what))
    code_.jmp(over);
  else
    code_.jmp_short(over);
  write_out_of_line(action);
  code_.bind(over);
}

// --- An action with a condition
//
//     [switch]
//     push rax                     below the red zone, in the middle of a function
//     [push rcx, rdx]              if they are needed, and rdx if the condition divides
//     rax = the flags
//     [push rax]                   if it is needed
//     if the condition holds goto holds
//     goto rejected
//   unread:                        if it may have no value
//     count that
//   rejected:
//     pop what was pushed, and the flags
//     goto past
//   holds:
//     pop what was pushed, and the flags
//     [jmp over; out of line; over:]
//     [nop]                        as long as a switch, from which count_for_probe counts
//     the action
//   past:

void StubWriter::write_with_condition(const StubAction& action) {
  assert(action.stack != StackUse::none && !std::holds_alternative<CallHandlers>(action.what));
  write_switch(action);
  const auto holds = code_.new_label(), past = code_.new_label();
  ConditionFrame saved = save_for_condition(action);
  saved.frame.pointers = &arena_.pointers;
  saved.frame.unread = code_.new_label();
  emit_jump_if_true(code_, stub_.frames, action.condition, saved.frame, holds);
  if (may_be_unread(action.condition)) {
    const auto rejected = code_.new_label();
    code_.jmp(rejected);
    code_.bind(saved.frame.unread);
    words_are(action, saved.frame.words);
    count_unread(action.unread);
    code_.bind(rejected);
  }
  return_from_condition(action, saved);
  code_.jmp(past);
  code_.bind(holds);
  words_are(action, saved.frame.words);
  return_from_condition(action, saved);
  if (has_out_of_line(action)) {
    write_out_of_line_here(action);
    words_are(action, 0);
    if (spec_.has_switches) code_.raw(*encode_link(code_.here(), 0));
  }
  std::visit([&](const auto& what) { write_action(action, what); }, action.what);
  code_.bind(past);
}

StubWriter::ConditionFrame StubWriter::save_for_condition(const StubAction& action) {
  const Expression& condition = action.condition;
  ConditionFrame saved = {.frame = {.offset = action.offset, .words = words_left(action)},
                          .has_registers = !needs_flags_only(condition),
                          .has_rdx = divides(condition)};
  const auto push = [&](Reg reg) {
    code_.push(reg);
    words_are(action, ++saved.frame.words);
    return saved.frame.words;
  };
  leave_red_zone(action);
  saved.frame.rax = push(Reg::rax);
  if (saved.has_registers) saved.frame.rcx = push(Reg::rcx);
  if (saved.has_rdx) saved.frame.rdx = push(Reg::rdx);
  code_.lahf();
  code_.seto_al();
  if (saved.has_registers) push(Reg::rax);
  return saved;
}

void StubWriter::return_from_condition(const StubAction& action, ConditionFrame saved) {
  const auto pop = [&](Reg reg) {
    code_.pop(reg);
    words_are(action, --saved.frame.words);
  };
  if (saved.has_registers) pop(Reg::rax);
  set_flags_from_rax();
  if (saved.has_rdx) pop(Reg::rdx);
  if (saved.has_registers) pop(Reg::rcx);
  pop(Reg::rax);
  return_to_red_zone(action);
}

// The flags as lahf and seto have them.
void StubWriter::set_flags_from_rax() {
  constexpr uint8_t kOverflowsIfSet = 0x7f;
  code_.add_al(kOverflowsIfSet);
  code_.sahf();
}

void StubWriter::leave_red_zone(const StubAction& action) {
  words_are(action, 0);
  if (keeps(action)) code_.lea(Reg::rsp, Reg::rsp, -kRedZone);
  words_are(action, words_left(action));
}

void StubWriter::return_to_red_zone(const StubAction& action) {
  if (keeps(action)) code_.lea(Reg::rsp, Reg::rsp, kRedZone);
  words_are(action, 0);
}

// --- CountHit
//
//     descriptor:  struct rseq_cs {begin, end, abort = again}
//     locked:      call count_for_probe            returns to `counted`
//
//                  push rax, rcx                   below the red zone, in the middle of a function
//                  rax = signature                 the kernel wants it right before `again`
//     again:       rseq.rseq_cs = &descriptor
//     begin:       rcx = area of this CPU; if 0 goto locked
//                  [rcx + counter] = [rcx + counter] + 1
//     end:                                         the store before it is the one that takes effect
//     counted:     rseq.rseq_cs = 0
//                  pop rcx, rax
//
// The kernel sends a thread that it interrupts between begin and end to `again`. rseq_cs is cleared
// after the sequence: the kernel reads the descriptor that the area names even when the area's
// memory belongs to another thread by then, and the stub is gone. No instruction on this path
// changes a flag. With several probes, the out-of-line parts of the second and later ones are
// jumped over, since jrcxz does not reach far.

void StubWriter::write_sequence_out_of_line(const StubAction& action) {
  sequence_.again = code_.new_label();
  sequence_.begin = code_.new_label();
  sequence_.end = code_.new_label();
  sequence_.descriptor = code_.bind_here();
  code_.u64(uint64_t{0});  // version and flags
  code_.u64(sequence_.begin);
  code_.distance(sequence_.begin, sequence_.end);
  code_.u64(sequence_.again);
  sequence_.locked = code_.bind_here();
  words_are(action, words_left(action) + kSavedWords);
  code_.call(keeps(action) ? arena_.count_for_probe_in_red_zone : arena_.count_for_probe);
}

void StubWriter::write_action(const StubAction& action, const CountHit& what) {
  if (action.stack == StackUse::none) {
    words_are(action, 0);
    write_counting_without_stack(what);
    return;
  }
  leave_red_zone(action);
  code_.push(Reg::rax);
  words_are(action, words_left(action) + 1);
  code_.push(Reg::rcx);
  words_are(action, words_left(action) + kSavedWords);
  if (spec_.rseq) {
    write_sequence(action, *spec_.rseq, what);
  } else {
    code_.mov_imm32(Reg::rax, what.counter);
    code_.call(arena_.locked_count);
  }
  code_.pop(Reg::rcx);
  words_are(action, words_left(action) + 1);
  code_.pop(Reg::rax);
  words_are(action, words_left(action));
  return_to_red_zone(action);
}

void StubWriter::write_sequence(const StubAction& action, RseqArea rseq, const CountHit& what) {
  const int32_t area = rseq.thread_pointer_offset;
  const int words = words_left(action) + kSavedWords;
  // The start of the probe's code, from which count_for_probe counts.
  [[maybe_unused]] const Address start = code_.here() - 2;
  code_.mov_imm32(Reg::rax, PP_RSEQ_SIGNATURE);
  code_.bind(sequence_.again);
  code_.lea(Reg::rax, sequence_.descriptor);
  code_.store_fs(area + PP_RSEQ_CS, Reg::rax);
  code_.bind(sequence_.begin);
  code_.load_fs_sx32(Reg::rcx, area + PP_RSEQ_CPU_ID);
  code_.lea(Reg::rax, arena_.cpu_table);
  code_.load_indexed8(Reg::rcx, Reg::rax, Reg::rcx);
  code_.jrcxz(sequence_.locked);
  code_.lea_wide(Reg::rcx, Reg::rcx, static_cast<int32_t>(what.counter));
  assert(code_.here() - 4 - start == kCounterField);
  code_.load(Reg::rax, Reg::rcx, 0);
  code_.lea(Reg::rax, Reg::rax, 1);
  code_.store(Reg::rcx, 0, Reg::rax);
  code_.bind(sequence_.end);
  assert(code_.here() - start == kCounted);
  code_.push_imm(0);
  words_are(action, words + 1);
  code_.pop_fs(area + PP_RSEQ_CS);
  words_are(action, words);
}

// [stripe(rsp) + counter] += 1. Uses r12, r13 and the flags, which are free at a stack check.
void StubWriter::write_counting_without_stack(const CountHit& what) {
  constexpr uint64_t kStripesBefore = layout::kLockedStripes + layout::kUnregisteredEntries;
  const auto nowhere = code_.new_label();
  emit_stripe(code_, Reg::r13);
  code_.lea(Reg::r12, arena_.cpu_table - kStripesBefore * sizeof(uint64_t));
  code_.load_indexed8(Reg::r12, Reg::r12, Reg::r13);
  code_.test(Reg::r12);
  code_.jump_if(Condition::equal, nowhere);
  code_.locked_increment(Reg::r12, static_cast<int32_t>(what.counter));
  code_.bind(nowhere);
}

// --- CallHandlers
//
//     [rsp -= red zone]
//     call *routine
//     nop record                   the runtime finds the record through its return address
//     [rsp += red zone]
//     [rsp += 8; jump *[rsp - 24]  where calls may be measured: to a slot's code, or to `resume`
//      resume: rsp -= 8]
//
//     routine: its address
//     record:  address of the instruction, handlers, resume, copy or 0
//
// The runtime stores where a call continues in the second word below the stack pointer that it
// returns with. Data there survives signals, and so does the return address in the first word. A
// call that goes through a slot continues at `copy`: the next action, or the displaced
// instructions. Handlers of later instructions measure nothing. A stub that measures nothing does
// not look at what the runtime has stored, and its record has no copy, which tells the runtime.

void StubWriter::write_action(const StubAction& action, const CallHandlers& what) {
  assert(!what.may_enter_slot || (action.offset == 0 && !keeps(action)));
  const HandlerRecord record = {&what, action.offset, code_.new_label(), code_.new_label(),
                                action.offset == 0 ? code_.new_label() : copy_};
  handlers_.push_back(record);
  leave_red_zone(action);
  code_.call_memory(record.routine);
  code_.nop(record.record);
  return_to_red_zone(action);
  if (what.may_enter_slot) {
    code_.lea(Reg::rsp, Reg::rsp, 8);
    words_are(action, -1);
    code_.jmp_memory(Reg::rsp, -24);
  }
  if (action.offset == 0) code_.bind(record.resume);
  if (what.may_enter_slot) code_.lea(Reg::rsp, Reg::rsp, -8);
}

// --- PassSpan
//
//     push rax, rcx                below the red zone, in the middle of a function
//     rcx = &record
//     call *enter                  the runtime's routine for spans
//     pop rcx, rax
//
//     record:  a layout::ProbeRecord

void StubWriter::write_action(const StubAction& action, const PassSpan& what) {
  save_for_record(action);
  call_with_record(action, arena_.pointers.pass, {what.metric, what.start, what.pass});
}

// --- CallRoutine
//
//     routine
//
//     push rdi                       below the red zone, in the middle of a function
//     rdi = argument
//     call routine
//     [rsp - 8] = 0                  the return address: on a stack, it says that a call goes on
//     pop rdi

void StubWriter::write_routine(const CallRoutine& what) {
  routine_ = code_.here();
  stub_.frames.note(routine_, StubRow::kNowhere, 0);
  code_.raw(what.routine);
}

void StubWriter::write_action(const StubAction& action, const CallRoutine& what) {
  assert(action.stack != StackUse::none);
  leave_red_zone(action);
  code_.push(Reg::rdi);
  words_are(action, words_left(action) + 1);
  code_.mov_imm64(Reg::rdi, what.argument);
  code_.call(routine_ + what.starts_at);
  code_.store_imm32(Reg::rsp, -8, 0);
  code_.pop(Reg::rdi);
  words_are(action, words_left(action));
  return_to_red_zone(action);
}

// --- Records

void StubWriter::write_records() {
  if (handlers_.empty() && values_.empty() && events_.empty() && !timed_) return;
  code_.align(8, kBreakpoint);
  for (const HandlerRecord& one : handlers_) write_record(one);
  for (const ValueRecord& one : values_) {
    code_.bind(one.record);
    emit_record(code_, displaced_.address, one.what, copy_, 0);
  }
  for (const EventNumber& one : events_) {
    code_.bind(one.record);
    code_.u32(one.what.words);
    code_.u32(one.what.probe);
  }
  if (timed_) write_record(*timed_);
}

void StubWriter::write_record(const HandlerRecord& one) {
  code_.bind(one.routine);
  code_.u64(one.what->routine);
  code_.bind(one.record);
  code_.u64(displaced_.address + one.offset);
  code_.u64(one.what->handlers);
  code_.u64(one.resume);
  if (one.what->may_enter_slot)
    code_.u64(copy_);
  else
    code_.u64(uint64_t{0});
}

uint8_t StubWriter::key_flags(const AtReturn& what) {
  if (what.key.empty()) return 0;
  if (!what.rest) return PP_RECORD_KEYED;
  const auto order = what.extremes ? static_cast<uint8_t>(*what.extremes) : uint8_t{0};
  return static_cast<uint8_t>(PP_RECORD_KEYED | PP_RECORD_COUNTS |
                              (what.value.empty() ? 0 : PP_RECORD_SUMS) |
                              order << PP_RECORD_ORDER_SHIFT);
}

void StubWriter::write_record(const TimeRecord& one) {
  if (one.what->enter != 0) {
    code_.bind(one.enter);
    code_.u64(one.what->enter);
  }
  code_.bind(one.record);
  const auto& metrics = one.what->metrics;
  assert(!metrics.empty());
  for (size_t i = 0; i < metrics.size(); ++i) {
    const bool computes = i < one.what->at_return.size() && !one.what->at_return[i].empty();
    const bool has_part = computes || !one.what->kept.values.empty();
    const bool is_last = i + 1 == metrics.size() && !one.what->gap;
    const Address next =
        code_.here() + sizeof(layout::ProbeRecord) + (has_part ? sizeof(layout::ReturnRecord) : 0);
    const AtReturn what = computes ? one.what->at_return[i] : AtReturn();
    emit_record(code_, displaced_.address, {metrics[i]}, one.copy, is_last ? 0 : next,
                static_cast<uint8_t>((is_last && !computes ? 0 : PP_RECORD_GOES_ON) |
                                     (has_part ? PP_RECORD_RETURNS : 0) |
                                     (computes ? PP_RECORD_COMPUTES : 0) | key_flags(what)));
    if (has_part)
      emit_return_record(code_, computes ? std::optional(one.at_return[i]) : std::nullopt,
                         one.unmeasured, what.rest.value_or(0));
  }
  if (const auto& gap = one.what->gap)
    emit_record(code_, displaced_.address, {gap->metric, gap->start, gap->pass}, one.copy, 0);
}

Stub emit_stub(Assembler& code, const ArenaEntries& arena, const StubSpec& spec,
               const Displaced& displaced) {
  return StubWriter(code, arena, spec, displaced).write();
}

// A part counts with what CountHit emits, in line and out of line; that is more than a metric's
// record takes, or RecordValue, CountByKey or PassSpan with its own. Displaced instructions: a loop
// or a syscall of 2 bytes becomes one of 9, the most for any that may come before others; the last
// one may be a call, of 24. Then the continuation, and alignment.
uint64_t most_stub_bytes(size_t parts, size_t displaced) {
  return 144 * std::max<uint64_t>(parts, 1) + 9 * ((displaced + 1) / 2) + 24 +
         uint64_t{2} * kJumpLength + 8;
}

// It is pushed, and a code replaces it if it cannot be read.
uint64_t most_event_value_bytes(const Expression& value) {
  return most_expression_bytes(value) + (may_be_unread(value) ? 64 : 16);
}

}  // namespace pinprick::arch
