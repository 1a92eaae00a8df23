// Stubs: the code that a hit of a probe runs. Arenas of stubs lie near the probed object. Also the
// per-slot code of return probes.
//
// Emitted code is freestanding: no call out of the arena, no system call, no vector register, and
// all registers and flags are preserved. Only a stub with CallHandlers calls out of the arena, in
// the process that made it. Pure; the bytes are valid at the given addresses only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "arch/assembler.h"
#include "arch/code.h"
#include "arch/expression.h"
#include "arch/frames.h"
#include "base/address.h"
#include "layout/extremes.h"
#include "layout/runtime_data.h"

namespace pinprick::arch {

// Where a thread of the target has its struct rseq, relative to its thread pointer. An empty
// std::optional<RseqArea> means that the process does not use rseq, or has another signature; then
// locked instructions count.
struct RseqArea {
  int32_t thread_pointer_offset = 0;
  friend bool operator==(const RseqArea&, const RseqArea&) = default;
};

// An arena starts with what its stubs share:
//
//     0    magic, size
//     16   address of the runtime's routine that times a call
//     24   address of the session's unwind tables (unwind_tables.h); 0: there are none
//     32   addresses of the routines that record a value, pass a span, count by a key, also
//          add to a sum, record a value by a key, read memory, number a text, compare a text,
//          record an event, number a pair, tell the stack, tell the thread, count for --every,
//          and keep extremes
//     192  areas of the locked stripes                                            } the tables
//     256  0, 0, then the area of each CPU        (cpu_id -2 and -1: not registered) }
//     ...  routines that count with a locked instruction; then the stubs
//
// The tables can have pages of their own, from the second page on, which the kernel clears in a
// child. Where an entry is 0, nothing is counted.
inline constexpr uint64_t kUnwindTablesPointer = 24;
inline constexpr uint64_t kArenaMagic = 0x31414e45'52414e50;  // "PNARENA1"

// The runtime's routines, to which stubs jump, or which they call; 0: no stub of the arena needs
// it.
struct Routines {
  Address time = 0;           // of TimeCall
  Address record = 0;         // of RecordValue
  Address pass = 0;           // of PassSpan
  Address key = 0;            // of CountByKey
  Address sum = 0;            // of CountByKey with a sum
  Address record_by_key = 0;  // of RecordValue with a key
  Address load = 0;           // of Operation::load
  Address text = 0;           // of Operation::text
  Address compare = 0;        // of Operation::equals_text and like_text
  Address event = 0;          // of RecordEvent
  Address pair = 0;           // of Operation::pair
  Address stack = 0;          // of Source::Stack
  Address thread = 0;         // of Source::Thread
  Address every = 0;          // of RecordEvent::every
  Address extremes = 0;       // of CountByKey with extremes
  Address accounted = 0;      // of Source::AccountedTime
  Address self_time = 0;      // of Source::SelfTime
};

struct ArenaSpec {
  uint64_t size = 0;
  Routines routines;
  Address unwind_tables = 0;
  std::array<Address, layout::kLockedStripes> locked_areas{};
  std::span<const Address> cpu_areas;  // by CPU number
  bool tables_apart = false;
  bool has_switches = false;  // all its stubs that have actions have switches (StubSpec)
};

// Returns where the tables lie in an arena with tables_apart, relative to its start.
Range tables_in_arena(uint64_t cpus);

struct ArenaEntries {
  Address cpu_table = 0;  // entry of CPU 0
  // Routines that count with a locked instruction. They clobber rax and rcx.
  Address locked_count = 0;  // rax = offset of the counter
  // The call to one of these lies directly in front of a probe's counting code. It returns to the
  // end of that code. The second is for a probe that keeps the red zone.
  Address count_for_probe = 0;
  Address count_for_probe_in_red_zone = 0;
  // A callback for dl_iterate_phdr, which holds its lock while it runs: it passes a record of ours
  // to another callback, and ends the list there (unwinder_hook.h).
  Address tells_of_tables = 0;
  Routines pointers;            // where the addresses of these are
  std::vector<CodeRow> frames;  // of the routines; the last row is their end
};

ArenaEntries emit_arena_header(Assembler& code, const ArenaSpec& spec);

// Instructions that the jump at a site displaces.
struct Displaced {
  Address address = 0;
  std::span<const uint8_t> bytes;  // whole instructions, displaceable
  // If it has a value, the stub has a link before the copies (emit_vfork_hook: at its start), which
  // leads to this address; 0: to nothing yet.
  std::optional<Address> link = {};
};

// Where the copy of a displaced instruction starts.
struct Copy {
  uint8_t window_offset = 0;  // of the instruction, from the site
  uint32_t offset = 0;        // of its copy, from the first copy
};

// A switch turns one probe of a stub off and on: a nop before the probe's part of the stub, which
// can be replaced by a jump over that part. It is a link (jump.h) that leads to `past`. Either is
// one instruction, so that no thread can be stopped inside it.
struct Switch {
  uint8_t offset = 0;  // of the instruction, from the site
  uint16_t probe = 0;  // StubAction::probe of the actions that it turns
  Address at = 0;
  Address past = 0;
};

struct Stub {
  Address begin = 0;
  Address end = 0;
  Address copy = 0;  // the out-of-line copy of the first displaced instruction
  std::vector<Switch> switches;
  // A thread that is between two displaced instructions when the jump is written is moved to the
  // copy of the second.
  std::vector<Copy> copies;
  StubFrames frames;
};

// Returns the copies that a stub makes of instructions between two probes, if the first copy lies
// at `start`: to redirect threads to the original code out of a stub that another owner emitted.
// Returns nullopt if they cannot be moved there.
std::optional<std::vector<Copy>> copies_of(const Displaced& displaced, Address start);

// What is below the stack pointer where a stub acts, and so which stack it may use.
enum class StackUse : uint8_t {
  at_entry,       // nothing: it is a function's entry
  keep_red_zone,  // data may be in the red zone, which must be kept
  none,           // no stack may be used: at Go's stack check (stack_check.h)
};

// --- What a stub does when a thread reaches an instruction

// Adds 1 to a counter. At Go's stack check a stub does nothing else.
struct CountHit {
  uint32_t counter = 0;  // its offset in a per-CPU area
};

// Calls handlers in the same process.
struct CallHandlers {
  uint64_t handlers = 0;  // the runtime's data for them
  Address routine = 0;    // of the runtime: calls them
  // They may request a return slot for the call; at entries only.
  bool may_enter_slot = false;
};

// A histogram of values or times.
struct Metric {
  uint64_t counters = 0;  // offset of its TimeCounters in a per-CPU area
  uint32_t fraction_bits = 0;
};

// Records a value that is computed from what the program has there. With a key, it is recorded in
// the key's histogram, or in the probe's own if the table of keys has no room.
struct RecordValue {
  Metric metric;
  Expression value;
  Expression key = {};  // empty: there is none
};

// Adds 1 to the counter of a key, which is computed from what the program has there; or to the
// probe's own counter if the table of keys has no room.
struct CountByKey {
  uint32_t counter = 0;  // the probe's own: its offset in a per-CPU area
  Expression key;
  Expression sum = {};  // is added to the sum of that counter; empty: there is none
  // How these numbers are ordered, if their extremes are kept as well.
  std::optional<layout::NumberOrder> extremes = std::nullopt;
};

inline constexpr size_t kMostEventValues = PP_MOST_EVENT_VALUES;
// Records an event, with values that are computed from what the program has there. One that cannot
// be read is PP_KEPT_UNREAD, and is counted.
struct RecordEvent {
  uint32_t probe = 0;                   // its number, perhaps with PP_EVENT_TRIGGERS_BIT
  std::vector<Expression> values = {};  // at most kMostEventValues
  // Each CPU records only each Nth hit, and counts all at this offset in its area. 1: all are
  // recorded, and none is counted there.
  uint64_t every = 1;
  uint64_t counter = 0;
};

// Starts a span, a gap or a call, or ends it and records its time. A call starts at the entry of a
// function, and ends at its exits.
struct PassSpan {
  Metric metric;       // its counters are layout::SpanCounters; of a call, TimeCounters
  uint16_t start = 0;  // where the thread's entry has its start (layout::span_start_offset)
  layout::Pass pass = layout::Pass::starts;
};

// What a call's return decides for one metric. Registers are as the call has left them, with the
// stack pointer as after its return.
struct AtReturn {
  Expression condition = {};  // where it is 0, the call is not recorded; empty: it always is
  // What is recorded, or added up; empty: the nanoseconds are recorded.
  Expression value = {};
  Expression key = {};  // by which it is recorded, as in RecordValue; empty: there is none
  // With a key: the call is counted, and not recorded. Those whose key has no room are counted at
  // this offset in a per-CPU area.
  std::optional<uint64_t> rest = std::nullopt;
  // How the numbers that are added up are ordered, if their extremes are kept as well.
  std::optional<layout::NumberOrder> extremes = std::nullopt;
  // The call is recorded as this event instead, and in no histogram.
  std::optional<RecordEvent> event = std::nullopt;
  uint64_t unread = 0;  // as StubAction::unread
  bool empty() const { return condition.empty() && value.empty() && key.empty() && !event; }
};

inline constexpr size_t kMostKept = PP_KEPT_VALUES;
// Values at the entry that are kept with the call, for what is computed at its return.
struct KeptAtEntry {
  std::vector<Expression> values = {};  // at most kMostKept
  // Of the first slot: it, its code, and the layout::KeptValues of its calls.
  Address slot = 0, code = 0, entries = 0;
};

// Measures the call that starts here, at entries only. One measurement is recorded in all the
// metrics, of which there is at least one.
struct TimeCall {
  std::span<const Metric> metrics;
  std::span<const AtReturn> at_return = {};  // by metric; empty: nothing is computed there
  KeptAtEntry kept = {};
  Address enter = 0;                           // the routine; 0: that of the arena
  std::optional<PassSpan> gap = std::nullopt;  // starts when the call has returned
};

// Calls a copy of `routine` in the stub, with `argument`. The routine is position independent, and
// preserves the flags and all registers but the one with the argument.
struct CallRoutine {
  std::span<const uint8_t> routine;
  Address argument = 0;
  size_t starts_at = 0;  // in the routine
};

struct StubAction {
  uint8_t offset = 0;  // of the instruction, from the site
  uint16_t probe = 0;  // actions with the same number at one instruction are turned together
  StackUse stack = StackUse::at_entry;
  // The action is left out where this is 0, and before it takes effect in any way. Not at Go's
  // stack check, and not with handlers.
  Expression condition = {};
  // If an expression of it has no value, it is left out as well, and counted at this offset in a
  // per-CPU area.
  uint64_t unread = 0;
  std::variant<CountHit, CallHandlers, TimeCall, RecordValue, CountByKey, RecordEvent, PassSpan,
               CallRoutine>
      what;
};

struct StubSpec {
  std::optional<RseqArea> rseq = {};
  // The actions of each probe have a switch. Not with handlers. Must equal
  // ArenaSpec::has_switches.
  bool has_switches = false;
  // By ascending offset; for one instruction, in the order in which they run. Without any, the stub
  // only runs the displaced instructions.
  std::span<const StubAction> actions = {};
};

Stub emit_stub(Assembler& code, const ArenaEntries& arena, const StubSpec& spec,
               const Displaced& displaced);

// Upper bound on the size of a stub, with its alignment and switches, that displaces `displaced`
// bytes and has `parts` parts, each with a switch of its own. A part is an action that counts,
// records a value or an event, has a key or passes a span, or one metric, or the gap, of a timed
// call. Expressions of more than one step, sums, conditions, and all expressions for a return take
// most_expression_bytes() more, each. Values of events take most_event_value_bytes() more.
uint64_t most_stub_bytes(size_t parts, size_t displaced);
uint64_t most_event_value_bytes(const Expression& value);
inline constexpr uint64_t kMostEveryBytes = 64;  // and of each event, if not all are recorded

// Emits the code of `count` slots whose data starts at `slots`: 32 bytes each, in the order of the
// slots.
inline constexpr uint64_t kSlotCodeSize = 1 << PP_SLOT_CODE_SIZE_LOG2;
inline constexpr uint64_t kSlotReturn = PP_SLOT_CODE_RETURN;
// Where a slot's code, after pushing its return address, continues in order to record the call. If
// this byte is replaced by kSlotReturns, the code returns there instead, and nothing else of ours
// runs.
inline constexpr uint64_t kSlotLeaves = kSlotReturn + kPushMemoryLength;
inline constexpr uint8_t kSlotReturns = kReturnOpcode;
void emit_slot_code(Assembler& code, Address slots, uint64_t count, Address leave);
// Returns the `leave` of a slot's code, which lies at `code`; nullopt if the bytes are not a slot's
// code.
std::optional<Address> where_slot_leaves(std::span<const uint8_t> bytes, Address code);
// Emits a jump to `leave`, for slots' code that may be out of reach of it. Returns its rows for
// unwinders.
inline constexpr uint64_t kSlotExitSize = 64;
std::vector<CodeRow> emit_slot_exit(Assembler& code, Address leave);

}  // namespace pinprick::arch
