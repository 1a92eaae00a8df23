// Writes one stub: the class that the files stub.cc, timed_call.cc and recording.cc share.
//
// stub.cc has the order of the parts, conditions and counting; timed_call.cc calls from return
// slots, and the code at their returns; recording.cc values, keys and events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/stub.h"
#include "arch/x86_64/stub/displaced.h"
#include "arch/x86_64/stub/expression.h"
#include "arch/x86_64/stub/records.h"
#include "layout/session_file.h"

namespace pinprick::arch {

inline constexpr int8_t kRedZoneWords = kRedZone / 8;
inline constexpr int kSavedWords = 2;  // rax and rcx

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
  void keep_extremes(const StubAction& action, const MetricRecord& record, const CountByKey& what);
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

}  // namespace pinprick::arch
