#include "arch/stub.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "arch/jump.h"
#include "arch/x86_64/stub/arena.h"
#include "arch/x86_64/stub/displaced.h"
#include "arch/x86_64/stub/expression.h"
#include "arch/x86_64/stub/records.h"
#include "layout/runtime_offsets.h"
#include "layout/session_file.h"

namespace pinprick::arch {
namespace {

constexpr int8_t kRedZoneWords = kRedZone / 8;

// A stub, in the order of its bytes:
//
//     [out of line]                what the first action has there, if it is at the site itself
//   begin:
//     for each action:
//       displaced instructions up to it
//       [jmp over; out of line; over:]
//       [switch, if it is the first one of its probe]
//       the action                          with a condition in another way, see there
//     the other displaced instructions, jump back
//     [code for the return of the timed call]
//     [pointers to the runtime, records]
//
// The actions, and what they have out of line, are shown below at their functions. The records of
// handlers come first, then those of values and spans, then those of events, and of the timed call.
class StubWriter {
 public:
  StubWriter(Assembler& code, const ArenaEntries& arena, const StubSpec& spec,
             const Displaced& displaced)
      : code_(code), arena_(arena), spec_(spec), displaced_(displaced), copy_(code.new_label()) {}

  Stub write();

 private:
  // Labels of one CountHit.
  struct Sequence {
    Assembler::Label descriptor, again, begin, end, locked;
  };
  // A CallHandlers, a TimeCall, a RecordValue, a CountByKey, a RecordEvent or a PassSpan leaves
  // these to be written after the code.
  struct HandlerRecord {
    const CallHandlers* what;
    uint8_t offset;
    Assembler::Label routine, record, resume;
  };
  struct TimeRecord {
    const TimeCall* what;
    // `copy` is what a slot calls. It may begin with code that needs the slot; `unmeasured` does
    // not.
    Assembler::Label enter, record, copy, unmeasured;
    std::vector<Assembler::Label> at_return = {};  // by metric, if anything is computed there
  };
  struct ValueRecord {
    MetricRecord what;
    Assembler::Label record;
  };

  struct EventNumber {
    layout::EventRecord what;
    Assembler::Label record;
  };

  void copy_up_to(size_t offset);
  void begin_copy();
  void write_switch(const StubAction& action);
  void end_switch();
  static bool is_of_one_probe(const StubAction& a, const StubAction& b) {
    return a.offset == b.offset && a.probe == b.probe;
  }

  // The stack while a condition is computed.
  struct ConditionFrame {
    ExpressionFrame frame;
    bool has_registers = false;
    bool has_rdx = false;
  };
  void write_with_condition(const StubAction& action);
  ConditionFrame save_for_condition(const StubAction& action);
  void return_from_condition(const StubAction& action, ConditionFrame saved);

  bool has_out_of_line(const StubAction& action) const;
  void write_out_of_line(const StubAction& action);
  void write_out_of_line_here(const StubAction& action);
  void write_sequence_out_of_line(const StubAction& action);
  void write_routine(const CallRoutine& what);

  void write_action(const StubAction& action, const CountHit& what);
  void write_action(const StubAction& action, const CallHandlers& what);
  void write_action(const StubAction& action, const TimeCall& what);
  void write_action(const StubAction& action, const RecordValue& what);
  void write_action(const StubAction& action, const CountByKey& what);
  void write_action(const StubAction& action, const RecordEvent& what);
  void write_action(const StubAction& action, const PassSpan& what);
  void write_action(const StubAction& action, const CallRoutine& what);
  // If a value cannot be read:
  enum class Unreadable : uint8_t {
    leaves_out,  // the action is left out
    is_told,     // it is PP_KEPT_UNREAD
  };
  void take_value(const StubAction& action, const Expression& value, int pushed,
                  Unreadable unreadable = Unreadable::leaves_out);
  void compute(const StubAction& action, const Expression& value, ExpressionFrame frame, int pushed,
               Unreadable unreadable);
  void keep_values(const StubAction& action, const KeptAtEntry& kept);
  void keep_computed(const StubAction& action, const KeptAtEntry& kept);
  void find_kept(const KeptAtEntry& kept, int words);
  void start_again(const KeptAtEntry& kept, int words);
  void count_unread(uint64_t offset);
  void write_unread(const StubAction& action);
  void write_code_for_return();
  void write_at_return(const AtReturn& what, int32_t kept);
  void write_event_at_return(const RecordEvent& what, uint64_t unread, ExpressionFrame frame);
  void write_unread_at_return(uint64_t unread, Assembler::Label label);
  void call_with_event(const RecordEvent& what);
  void count_for_every(const RecordEvent& what);
  static uint8_t key_flags(const AtReturn& what);
  void set_flags_from_rax();
  void save_for_record(const StubAction& action);
  void call_with_record(const StubAction& action, Address routine, const MetricRecord& what,
                        int pushed = 0);
  void call_by_key(const StubAction& action, Address routine, const MetricRecord& what,
                   const Expression& number, const Expression& key);
  void write_sequence(const StubAction& action, RseqArea rseq, const CountHit& what);
  void write_counting_without_stack(const CountHit& what);

  void write_records();
  void write_record(const HandlerRecord& one);
  void write_record(const TimeRecord& one);

  // Records the number of words on the stack at the next instruction, before the action's
  // instruction of the program has run.
  void words_are(const StubAction& action, int words) {
    stub_.frames.note(code_.here(), action.offset, static_cast<int8_t>(words));
  }
  void leave_red_zone(const StubAction& action);
  void return_to_red_zone(const StubAction& action);
  static int words_left(const StubAction& action) { return keeps(action) ? kRedZoneWords : 0; }
  static bool keeps(const StubAction& action) { return action.stack == StackUse::keep_red_zone; }

  Assembler& code_;
  const ArenaEntries& arena_;
  const StubSpec& spec_;
  const Displaced& displaced_;
  Stub stub_;
  size_t copied_ = 0;            // how far displaced instructions were copied
  std::optional<Address> next_;  // where the program continues then; none: it does not
  Sequence sequence_;            // of the CountHit whose out-of-line part was written last
  Address routine_ = 0;          // of the CallRoutine
  Assembler::Label copy_;        // where a measured call continues
  bool copy_has_begun_ = false;
  std::vector<HandlerRecord> handlers_;
  std::vector<ValueRecord> values_;
  std::vector<EventNumber> events_;
  std::optional<TimeRecord> timed_;
  // Where values of the action that is being written go on if they have none. Their code has pushed
  // the flags, after rdx if it divides, after `pushed` words.
  struct Unread {
    Assembler::Label label;
    ExpressionFrame frame;
    bool has_rdx;
    int pushed;
  };
  std::vector<Unread> unread_;
};

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

constexpr int kSavedWords = 2;

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
  return PP_RECORD_KEYED | PP_RECORD_COUNTS | (what.value.empty() ? 0 : PP_RECORD_SUMS);
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

}  // namespace

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
