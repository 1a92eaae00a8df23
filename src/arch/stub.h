// The code that a probe sends its hits through: arenas of stubs near the probed object, and the
// per-slot code of return probes.
//
// Emitted code is freestanding: no call out of the arena, no system call, no vector register, and
// every register and flag as it was. Only a stub with CallHandlers calls out of it, in the process
// that made it. Pure; the bytes are for the addresses given.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "arch/assembler.h"
#include "arch/code.h"
#include "arch/frames.h"
#include "base/address.h"
#include "layout/runtime_data.h"

namespace pinprick::arch {

// Where a thread of the target finds its struct rseq, from its thread pointer; without a value the
// process does not use rseq, or not with the common signature, and locked instructions count.
struct RseqArea {
  int32_t thread_pointer_offset = 0;
  friend bool operator==(const RseqArea&, const RseqArea&) = default;
};

// An arena begins with what its stubs share:
//
//     0    magic, size
//     16   address of the runtime's enter routine
//     24   address of the session's unwind tables (unwind_tables.h); 0: there are none
//     64   cells of the locked stripes                                            } the tables
//     128  0, 0, then the cells of each CPU       (cpu_id -2 and -1: not registered) }
//     ...  routines that count with a locked instruction; then the stubs
//
// The tables can have pages of their own, from the second on, for the kernel to empty in a child:
// where they are 0 nothing is counted.
inline constexpr uint64_t kUnwindTablesPointer = 24;
inline constexpr uint64_t kArenaMagic = 0x31414e45'52414e50;  // "PNARENA1"

struct ArenaSpec {
  uint64_t size = 0;
  Address enter =
      0;  // the runtime's routine that stubs go to: for timed calls, values or spans; 0: none
  Address unwind_tables = 0;
  std::array<Address, layout::kLockedStripes> locked_cells{};
  std::span<const Address> cpu_cells;  // by CPU number
  bool tables_apart = false;
  bool has_switches = false;  // all of its stubs that have actions (StubSpec)
};

// Of an arena whose tables lie apart, from its begin.
Range tables_in_arena(uint64_t cpus);

struct ArenaEntries {
  Address cpu_table = 0;  // entry of CPU 0
  // Routines that count with a locked instruction, and clobber rax and rcx:
  Address locked_count = 0;  // rax = offset of the counter
  // Called right in front of a probe, comes back to where the probe has counted. The second: in
  // front of one that keeps the red zone.
  Address count_for_probe = 0;
  Address count_for_probe_in_red_zone = 0;
  // A callback for dl_iterate_phdr, for that to hold its lock meanwhile: hands another callback a
  // record of ours, and ends the list there (unwinder_hook.h).
  Address tells_of_tables = 0;
  Address enter_pointer = 0;    // holds the address of the runtime's routine (ArenaSpec::enter)
  std::vector<CodeRow> frames;  // in the routines; the last: behind them
};

ArenaEntries emit_arena_header(Assembler& code, const ArenaSpec& spec);

// Instructions that the jump at a site displaced.
struct Displaced {
  Address address = 0;
  std::span<const uint8_t> bytes;  // whole instructions, displaceable
  // The stub has a link in front of their copies (or at its begin, see emit_vfork_hook), which
  // leads here; 0: nowhere yet. Without a value it has no link.
  std::optional<Address> link = {};
};

// Where the copy of a displaced instruction begins.
struct Copy {
  uint8_t window_offset = 0;  // of the instruction, from the site
  uint32_t offset = 0;        // of its copy, from the first one
};

// Turns what a stub does at one instruction off and on: a nop in front of it, in whose place a jump
// over it can be written. It is a link (jump.h) that leads to `past`. One instruction either way,
// so that no thread can stand inside it.
struct Switch {
  uint8_t offset = 0;  // of the instruction, from the site
  Address at = 0;
  Address past = 0;
};

struct Stub {
  Address begin = 0;
  Address end = 0;
  Address body = 0;  // where the copy of the first displaced instruction begins
  std::vector<Switch> switches;
  // A thread that stands between two displaced instructions when the jump is written is moved to
  // the copy of the second.
  std::vector<Copy> copies;
  StubFrames frames;
};

// The copies that a stub makes of instructions between two probes, for copies from `body` on: to
// bring threads home from a stub that somebody else assembled. Nothing if they cannot be moved
// there.
std::optional<std::vector<Copy>> copies_of(const Displaced& displaced, Address body);

// What lies below the stack pointer where a stub does something, and so what it may use there.
enum class StackUse : uint8_t {
  at_entry,       // a function begins: nothing lies there
  keep_red_zone,  // data may lie in the red zone, which stays as it is
  none,           // no stack may be used: at Go's check of it (stack_check.h)
};

// --- What a stub does when a thread comes to an instruction

// Adds 1 to a counter. At Go's check of the stack it is all that a stub does.
struct CountHit {
  uint32_t cell = 0;  // offset of the counter in a CPU's cells
};

// Calls handlers in the same process.
struct CallHandlers {
  uint64_t handlers = 0;  // what the runtime knows of them
  Address routine = 0;    // the runtime's, which calls them
  // They may have the call entered through a return slot; at entries only.
  bool may_enter_slot = false;
};

// A histogram that values are recorded in, or times.
struct Metric {
  uint64_t cells = 0;  // offset of its TimeCells in a CPU's cells
  uint32_t fraction_bits = 0;
};

// Measures the call that begins here, at entries only: once, and records its time in all the
// metrics, of which there is at least one.
struct TimeCall {
  std::span<const Metric> metrics;
  Address enter = 0;  // the runtime's enter routine; 0: the arena's
};

// Records the value of a register as it is in the program. The arena's routine adds it.
struct RecordValue {
  Metric metric;
  uint8_t register_number = 0;  // as the processor counts them
  uint8_t bytes = 8;            // 1, 2, 4 or 8: the others count as 0
};

// Begins a span, or ends it and records how long it took. The arena's routine does it.
struct PassSpan {
  Metric metric;       // its cells are layout::SpanCells
  uint16_t start = 0;  // where a thread keeps when it began (layout::span_start_offset)
  bool ends = false;
};

// Calls `routine`, of which the stub has a copy, with `argument`. It is position independent, and
// keeps all registers but the one with the argument, and the flags. At entries only.
struct CallRoutine {
  std::span<const uint8_t> routine;
  Address argument = 0;
};

struct StubAction {
  uint8_t offset = 0;  // of the instruction, from the site
  StackUse stack = StackUse::at_entry;
  std::variant<CountHit, CallHandlers, TimeCall, RecordValue, PassSpan, CallRoutine> what;
};

struct StubSpec {
  std::optional<RseqArea> rseq = {};
  // What is done at each instruction has a switch. Not with handlers. As ArenaSpec::has_switches.
  bool has_switches = false;
  // By offset, and at one instruction in the order in which they are done. Without any, the stub
  // only stands in for the displaced instructions.
  std::span<const StubAction> actions = {};
};

Stub emit_stub(Assembler& code, const ArenaEntries& arena, const StubSpec& spec,
               const Displaced& displaced);

// Upper bound on the size of a stub, with its alignment and switches, that displaces that many
// bytes and has that many parts: actions that count, record a value or pass a span, or metrics in
// which calls are timed.
uint64_t most_stub_bytes(size_t parts, size_t displaced);

// Code of `count` slots whose data begins at `slots`; each 32 bytes, in the slots' order.
inline constexpr uint64_t kSlotCodeSize = 1 << PP_SLOT_CODE_SIZE_LOG2;
inline constexpr uint64_t kSlotReturn = PP_SLOT_CODE_RETURN;
// Where a slot's code, having pushed its return address, goes on to record the call; and the byte
// that makes it return there instead, with nothing else of ours.
inline constexpr uint64_t kSlotLeaves = kSlotReturn + kPushMemoryLength;
inline constexpr uint8_t kSlotGoesHome = kReturnOpcode;
void emit_slot_code(Assembler& code, Address slots, uint64_t count, Address leave);
// The `leave` of a slot's code, which lies at `code`. Returns nullopt if the bytes are none.
std::optional<Address> where_slot_leaves(std::span<const uint8_t> bytes, Address code);
// Where slots' code can go to leave, if `leave` itself may be out of its reach. Answers what an
// unwinder has to know there.
inline constexpr uint64_t kSlotWayOutSize = 64;
std::vector<CodeRow> emit_slot_way_out(Assembler& code, Address leave);

}  // namespace pinprick::arch
