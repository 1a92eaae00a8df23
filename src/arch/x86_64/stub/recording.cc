#include "arch/x86_64/stub/stub_writer.h"

#include <cassert>

#include "layout/runtime_offsets.h"

namespace pinprick::arch {

// --- RecordValue, CountByKey
//
//     push rax, rcx                below the red zone, in the middle of a function
//     rax = the value
//     rcx = &record
//     call *enter                  the runtime's routine for values, or for keys
//     pop rcx, rax
//
//     record:  a layout::ProbeRecord
//
// A value that has to be computed:
//
//     [push rdx]                   if that divides
//     push the flags
//     rcx = the value              or goto unread, if it has none
//     pop the flags, [rdx]
//     rax = rcx
//
// Then there is before the last two instructions:
//
//     goto past
//   unread:
//     pop the flags, [rdx]
//     count that
//   past:

void StubWriter::write_action(const StubAction& action, const RecordValue& what) {
  save_for_record(action);
  if (!what.key.empty())
    return call_by_key(action, arena_.pointers.record_by_key, {what.metric}, what.value, what.key);
  take_value(action, what.value, 0);
  call_with_record(action, arena_.pointers.record, {what.metric});
}

void StubWriter::write_action(const StubAction& action, const CountByKey& what) {
  save_for_record(action);
  const MetricRecord record = {{.counters = what.counter}};
  if (what.extremes) return keep_extremes(action, record, what);
  if (!what.sum.empty())
    return call_by_key(action, arena_.pointers.sum, record, what.sum, what.key);
  take_value(action, what.key, 0);
  call_with_record(action, arena_.pointers.key, record);
}

// A number that is recorded or added up by a key is one more word on the stack:
//
//     rax = the number; push rax
//     rax = the key; rcx = &record; call *enter
//     rsp += 8

void StubWriter::call_by_key(const StubAction& action, Address routine, const MetricRecord& what,
                             const Expression& number, const Expression& key) {
  take_value(action, number, 0);
  code_.push(Reg::rax);
  words_are(action, words_left(action) + kSavedWords + 1);
  take_value(action, key, 1);
  call_with_record(action, routine, what, 1);
}

// One more word says how the numbers are ordered whose extremes are kept:
//
//     rax = the order; push rax
//     rax = the number; push rax
//     rax = the key; rcx = &record; call *enter
//     rsp += 16

void StubWriter::keep_extremes(const StubAction& action, const MetricRecord& record,
                               const CountByKey& what) {
  const auto push = [&](int pushed) {
    code_.push(Reg::rax);
    words_are(action, words_left(action) + kSavedWords + pushed);
  };
  code_.mov_imm32(Reg::rax, static_cast<uint32_t>(*what.extremes));
  push(1);
  take_value(action, what.sum, 1);
  push(2);
  take_value(action, what.key, 2);
  call_with_record(action, arena_.pointers.extremes, record, 2);
}

// rax = the value. `pushed` words are on the stack after the program's rax and rcx; after the first
// one, these two registers have other values.
void StubWriter::take_value(const StubAction& action, const Expression& value, int pushed,
                            Unreadable unreadable) {
  const int words = words_left(action) + kSavedWords;
  ExpressionFrame frame = {.offset = action.offset,
                           .instruction = displaced_.address + action.offset,
                           .words = words + pushed,
                           .pointers = &arena_.pointers};
  if (pushed != 0 || !value.is_source()) {
    frame.rax = words - 1;
    frame.rcx = words;
  }
  if (value.is_source())
    emit_value(code_, stub_.frames, value, frame);
  else
    compute(action, value, frame, pushed, unreadable);
}

void StubWriter::compute(const StubAction& action, const Expression& value, ExpressionFrame frame,
                         int pushed, Unreadable unreadable) {
  const auto push = [&](Reg reg) {
    code_.push(reg);
    words_are(action, ++frame.words);
  };
  const auto pop = [&](Reg reg) {
    code_.pop(reg);
    words_are(action, --frame.words);
  };
  if (divides(value)) {
    push(Reg::rdx);
    frame.rdx = frame.words;
  }
  code_.lahf();
  code_.seto_al();
  push(Reg::rax);
  frame.unread = code_.new_label();
  if (may_be_unread(value) && unreadable == Unreadable::leaves_out)
    unread_.push_back({frame.unread, frame, divides(value), pushed});
  emit_value(code_, stub_.frames, value, frame);
  code_.mov(Reg::rcx, Reg::rax);
  if (may_be_unread(value) && unreadable == Unreadable::is_told) {
    const auto known = code_.new_label();
    code_.jmp(known);
    code_.bind(frame.unread);
    words_are(action, frame.words);
    count_unread(action.unread);
    code_.mov_imm64(Reg::rcx, PP_KEPT_UNREAD);
    code_.bind(known);
  }
  pop(Reg::rax);
  set_flags_from_rax();
  if (divides(value)) pop(Reg::rdx);
  code_.mov(Reg::rax, Reg::rcx);
}

void StubWriter::write_unread(const StubAction& action) {
  if (unread_.empty()) return;
  const auto past = code_.new_label();
  code_.jmp(past);
  for (const Unread& one : unread_) {
    int words = one.frame.words;
    const auto pop = [&](Reg reg) {
      code_.pop(reg);
      words_are(action, --words);
    };
    code_.bind(one.label);
    words_are(action, words);
    pop(Reg::rax);
    set_flags_from_rax();
    if (one.has_rdx) pop(Reg::rdx);
    if (one.pushed != 0) code_.lea(Reg::rsp, Reg::rsp, 8 * one.pushed);
    words_are(action, words - one.pushed);
    count_unread(action.unread);
    if (&one != &unread_.back()) code_.jmp(past);
  }
  code_.bind(past);
  unread_.clear();
}

void StubWriter::save_for_record(const StubAction& action) {
  assert(action.stack != StackUse::none);
  leave_red_zone(action);
  code_.push(Reg::rax);
  words_are(action, words_left(action) + 1);
  code_.push(Reg::rcx);
  words_are(action, words_left(action) + kSavedWords);
}

void StubWriter::call_with_record(const StubAction& action, Address routine,
                                  const MetricRecord& what, int pushed) {
  const ValueRecord record = {what, code_.new_label()};
  values_.push_back(record);
  code_.lea(Reg::rcx, record.record);
  code_.call_memory(routine);
  if (pushed != 0) {
    code_.lea(Reg::rsp, Reg::rsp, 8 * pushed);
    words_are(action, words_left(action) + kSavedWords);
  }
  write_unread(action);
  code_.pop(Reg::rcx);
  words_are(action, words_left(action) + 1);
  code_.pop(Reg::rax);
  words_are(action, words_left(action));
  return_to_red_zone(action);
}

// --- RecordEvent
//
//     push rax, rcx                below the red zone, in the middle of a function
//     [only each Nth: count this one, or goto past; rax, rcx = those that were pushed]
//     each value: rax = it; push rax
//     rcx = &record
//     call *enter                  the runtime's routine for events
//     rsp += 8 for each value
//   past:
//     pop rcx, rax
//
//     record:  a layout::EventRecord

void StubWriter::write_action(const StubAction& action, const RecordEvent& what) {
  save_for_record(action);
  const int words = words_left(action) + kSavedWords;
  int pushed = 0;
  const auto past = code_.new_label();
  if (what.every > 1) {
    const auto is_left_out = code_.new_label(), goes_on = code_.new_label();
    count_for_every(what);
    code_.jrcxz(is_left_out);  // the flags are the program's
    code_.jmp_short(goes_on);
    code_.bind(is_left_out);
    code_.jmp(past);
    code_.bind(goes_on);
    code_.load(Reg::rax, Reg::rsp, 8);
    code_.load(Reg::rcx, Reg::rsp, 0);
  }
  for (const Expression& value : what.values) {
    take_value(action, value, pushed, Unreadable::is_told);
    code_.push(Reg::rax);
    words_are(action, words + ++pushed);
  }
  call_with_event(what);
  words_are(action, words);
  code_.bind(past);
  code_.pop(Reg::rcx);
  words_are(action, words_left(action) + 1);
  code_.pop(Reg::rax);
  words_are(action, words_left(action));
  return_to_red_zone(action);
}

// Sets rcx = 0 if this hit is not to be recorded. Clobbers rax, and nothing else.
void StubWriter::count_for_every(const RecordEvent& what) {
  const auto record = code_.new_label(), after = code_.new_label();
  code_.jmp_short(after);
  code_.bind(record);
  code_.u64(what.counter);
  code_.u64(what.every);
  code_.bind(after);
  code_.lea(Reg::rcx, record);
  code_.call_memory(arena_.pointers.every);
}

// The values are on the stack. They are dropped after the call.
void StubWriter::call_with_event(const RecordEvent& what) {
  assert(what.values.size() <= kMostEventValues);
  const auto values = static_cast<uint32_t>(what.values.size());
  events_.push_back({{PP_EVENT_VALUES / 8 + values, what.probe}, code_.new_label()});
  code_.lea(Reg::rcx, events_.back().record);
  code_.call_memory(arena_.pointers.event);
  if (values != 0) code_.lea(Reg::rsp, Reg::rsp, 8 * static_cast<int32_t>(values));
}

}  // namespace pinprick::arch
