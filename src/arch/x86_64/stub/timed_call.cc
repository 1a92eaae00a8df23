#include "arch/x86_64/stub/stub_writer.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <variant>

#include "layout/runtime_offsets.h"

namespace pinprick::arch {

// --- TimeCall
//
//     push rax
//     rax = &record
//     jmp enter               -> the slot's code -> copy; or without a slot -> unmeasured
//   copy:
//     [push rax, rcx          keeps registers, see below
//      rax = [rsp + 16]
//      rax = 2 * rax + (the first slot's values - 2 * where its code is returned to)
//      [rax] = the first; [rax + 8] = the second; and so on
//      pop rcx, rax]
//     [push rax, rcx, rdx, the flags    instead, if it has to compute one
//      for each value:  rdx = the value, or PP_KEPT_UNREAD; rax as above; [rax + 8 n] = rdx
//      [the slot's start = now           if the kernel has read for it]
//      pop the flags, rdx, rcx, rax]
//   unmeasured:
//
//     [at return of a metric:]           called by the runtime; rdi = slot
//     [ if the condition holds goto holds
//       rcx = 0; ret
//     holds:
//       [r8 = the key]
//       rax = the value, or the nanoseconds
//       rcx = 1; ret]
//
//     [enter:] [its address]
//     record:  a layout::ProbeRecord for each metric, and one for the gap; after those of metrics,
//              if something is computed or kept, a layout::ReturnRecord
//
// **Keeping values.** Only a slot's code calls `copy`. So the return address on the stack is in
// the slot's code, and leads to the slot's entry: entries are twice as long as codes. The entry
// belongs to this call, as the slot does, until the slot is given up: no other thread writes it,
// and a signal handler's calls have other slots. Registers alone are kept by instructions that
// change no flag. A forked child has a copy, like that of the slot. Where a call takes the slot of
// an abandoned one (slots.S), and that one returns after all, it finds the values of the later
// call, as it does its start. If a controller is killed, or takes the probes out, nothing changes:
// the entry is memory of the same mapping as the slots.
//
// **Code for the return** runs in pp_leave (runtime/leave.inc has the argument).

void StubWriter::write_action(const StubAction& action, const TimeCall& what) {
  assert(action.offset == 0 && action.stack == StackUse::at_entry && !timed_);
  assert(what.at_return.empty() || what.at_return.size() == what.metrics.size());
  begin_copy();
  timed_ = {&what, code_.new_label(), code_.new_label(), code_.new_label(), code_.new_label()};
  words_are(action, 0);
  code_.push(Reg::rax);
  words_are(action, 1);
  code_.lea(Reg::rax, timed_->record);
  if (what.enter != 0)
    code_.jmp_memory(timed_->enter);
  else
    code_.jmp_memory(arena_.pointers.time);
  code_.bind(timed_->copy);
  if (!what.kept.values.empty()) keep_values(action, what.kept);
  code_.bind(timed_->unmeasured);
}

// rax = the entry of the call's slot; changes rcx. The return address into the slot's code is
// `words` words up.
void StubWriter::find_kept(const KeptAtEntry& kept, int words) {
  code_.load(Reg::rax, Reg::rsp, 8 * words);
  code_.mov_imm64(Reg::rcx, kept.entries - 2 * (kept.code + kSlotReturn));
  code_.lea_indexed(Reg::rax, Reg::rcx, Reg::rax, Scale::by_2);
}

// Can it take microseconds, which are no part of a call's time?
static bool takes_long(const Expression& value) {
  return std::any_of(value.steps.begin(), value.steps.end(), [](const Step& step) {
    return step.operation == Operation::text || step.operation == Operation::text_of_length ||
           std::holds_alternative<Source::Stack>(step.source.instead);
  });
}

// Is it a register, as it is, that finding the entry does not need?
static bool is_whole_register(const Expression& value) {
  const uint8_t number = value.steps.front().source.register_number;
  const auto reg = static_cast<Reg>(number);
  return reg != Reg::rax && reg != Reg::rsp &&
         value == Expression(Source{.register_number = number});
}

void StubWriter::keep_values(const StubAction& action, const KeptAtEntry& kept) {
  assert(kept.values.size() <= PP_KEPT_VALUES);
  const auto& all = kept.values;
  if (!std::all_of(all.begin(), all.end(), is_whole_register)) return keep_computed(action, kept);
  words_are(action, 0);
  code_.push(Reg::rax);
  words_are(action, 1);
  code_.push(Reg::rcx);
  words_are(action, 2);
  find_kept(kept, 2);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto reg = static_cast<Reg>(all[i].steps.front().source.register_number);
    assert(reg != Reg::rax && reg != Reg::rsp);
    if (reg == Reg::rcx) code_.load(Reg::rcx, Reg::rsp, 0);
    code_.store(Reg::rax, static_cast<int32_t>(i * sizeof(uint64_t)), reg);
  }
  code_.pop(Reg::rcx);
  words_are(action, 1);
  code_.pop(Reg::rax);
  words_are(action, 0);
}

void StubWriter::keep_computed(const StubAction& action, const KeptAtEntry& kept) {
  ExpressionFrame frame = {.offset = action.offset, .in_slot = &kept, .pointers = &arena_.pointers};
  const auto push = [&](Reg reg) {
    code_.push(reg);
    words_are(action, ++frame.words);
    return frame.words;
  };
  const auto pop = [&](Reg reg) {
    code_.pop(reg);
    words_are(action, --frame.words);
  };
  words_are(action, 0);
  frame.rax = push(Reg::rax);
  frame.rcx = push(Reg::rcx);
  frame.rdx = push(Reg::rdx);
  code_.lahf();
  code_.seto_al();
  push(Reg::rax);
  for (size_t i = 0; i < kept.values.size(); ++i) {
    const auto found = code_.new_label();
    frame.unread = code_.new_label();
    emit_value(code_, stub_.frames, kept.values[i], frame);
    code_.mov(Reg::rdx, Reg::rax);
    if (may_be_unread(kept.values[i])) {
      code_.jmp_short(found);
      code_.bind(frame.unread);
      code_.mov_imm64(Reg::rdx, PP_KEPT_UNREAD);
      code_.bind(found);
    }
    find_kept(kept, frame.words);
    code_.store(Reg::rax, static_cast<int32_t>(i * sizeof(uint64_t)), Reg::rdx);
  }
  if (std::any_of(kept.values.begin(), kept.values.end(), may_be_unread) ||
      std::any_of(kept.values.begin(), kept.values.end(), takes_long))
    start_again(kept, frame.words);
  pop(Reg::rax);
  set_flags_from_rax();
  pop(Reg::rdx);
  pop(Reg::rcx);
  pop(Reg::rax);
}

// The kernel has read for this call, which takes long, so the call starts now. A reset may set a
// bit of its start at any time (layout::kTscDropped).
void StubWriter::start_again(const KeptAtEntry& kept, int words) {
  static_assert(PP_TSC_DROPPED_BIT == 63);
  find_kept(kept, words);
  code_.lea(Reg::rcx, Reg::rax, static_cast<int32_t>(kept.slot - kept.entries));
  code_.read_clock();
  code_.shift_left(Reg::rdx, 32);
  code_.or_(Reg::rax, Reg::rdx);
  code_.load(Reg::rdx, Reg::rcx, PP_SLOT_TSC);
  code_.shift_left(Reg::rdx, 1);
  code_.shift_right(Reg::rdx, 1);
  code_.sub(Reg::rax, Reg::rdx);
  code_.locked_add(Reg::rcx, PP_SLOT_TSC, Reg::rax);
}

void StubWriter::write_code_for_return() {
  if (!timed_) return;
  for (const AtReturn& one : timed_->what->at_return) {
    timed_->at_return.push_back(code_.bind_here());
    const KeptAtEntry& kept = timed_->what->kept;
    if (!one.empty()) write_at_return(one, static_cast<int32_t>(kept.entries - kept.slot));
  }
}

void StubWriter::write_at_return(const AtReturn& what, int32_t kept) {
  const ExpressionFrame frame = {.offset = StubRow::kCalled,
                                 .words = PP_LEAVE_WORDS + 1,
                                 .rax = PP_LEAVE_RAX,
                                 .rcx = PP_LEAVE_RCX,
                                 .rdx = PP_LEAVE_RDX,
                                 .rsi = PP_LEAVE_RSI,
                                 .rdi = PP_LEAVE_RDI,
                                 .r8 = PP_LEAVE_R8,
                                 .of_runtime = PP_LEAVE_WORDS,
                                 .kept = kept,
                                 .pointers = &arena_.pointers,
                                 .unread = code_.new_label()};
  const auto note = [&] { stub_.frames.note(code_.here(), StubRow::kCalled, 1); };
  note();
  if (!what.condition.empty()) {
    const auto holds = code_.new_label();
    emit_jump_if_true(code_, stub_.frames, what.condition, frame, holds);
    code_.mov_imm32(Reg::rcx, 0);
    code_.ret();
    code_.bind(holds);
    note();
  }
  if (what.event) {
    write_event_at_return(*what.event, what.unread, frame);
    if (may_be_unread(what.condition)) write_unread_at_return(what.unread, frame.unread);
    return;
  }
  if (!what.key.empty()) {
    emit_value(code_, stub_.frames, what.key, frame);
    code_.mov(Reg::r8, Reg::rax);
  }
  if (!what.value.empty())
    emit_value(code_, stub_.frames, what.value, frame);
  else
    code_.load(Reg::rax, Reg::rdi, PP_SLOT_TSC);
  code_.mov_imm32(Reg::rcx, 1);
  code_.ret();
  if (may_be_unread(what.condition) || may_be_unread(what.value) || may_be_unread(what.key))
    write_unread_at_return(what.unread, frame.unread);
}

void StubWriter::write_unread_at_return(uint64_t unread, Assembler::Label label) {
  code_.bind(label);
  stub_.frames.note(code_.here(), StubRow::kCalled, 1);
  count_unread(unread);
  code_.mov_imm32(Reg::rcx, 0);
  code_.ret();
}

//       [only each Nth: count this one, or goto past]
//       [each value: rax = it; push rax]
//       rcx = &record
//       call *enter                    the runtime's routine for events
//       rsp += 8 for each value
//     past:
//       rcx = 0; ret                   it is in no histogram

void StubWriter::write_event_at_return(const RecordEvent& what, uint64_t unread,
                                       ExpressionFrame frame) {
  const auto note = [&] {
    stub_.frames.note(code_.here(), StubRow::kCalled,
                      static_cast<int8_t>(frame.words - frame.of_runtime));
  };
  const auto past = code_.new_label();
  if (what.every > 1) {
    count_for_every(what);
    code_.test(Reg::rcx);
    code_.jump_far_if(Condition::equal, past);
  }
  for (const Expression& value : what.values) {
    frame.unread = code_.new_label();
    emit_value(code_, stub_.frames, value, frame);
    if (may_be_unread(value)) {
      const auto known = code_.new_label();
      code_.jmp(known);
      code_.bind(frame.unread);
      note();
      count_unread(unread);
      code_.mov_imm64(Reg::rax, PP_KEPT_UNREAD);
      code_.bind(known);
    }
    code_.push(Reg::rax);
    ++frame.words;
    note();
  }
  call_with_event(what);
  frame.words = PP_LEAVE_WORDS + 1;
  note();
  code_.bind(past);
  code_.mov_imm32(Reg::rcx, 0);
  code_.ret();
}

// Changes rax and rcx.
void StubWriter::count_unread(uint64_t offset) {
  code_.mov_imm64(Reg::rax, offset);
  code_.call(arena_.locked_count);
}

}  // namespace pinprick::arch
