// The code that a probe sends its hits through: arenas of stubs near the probed object, and the
// per-slot code of return probes.
//
// Emitted code is freestanding: no call out of the arena, no system call, no vector register, and
// every register and flag as it was. Pure; the bytes are for the addresses given.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/x86_64/decode.h"
#include "arch/x86_64/emit.h"
#include "arch/x86_64/frames.h"
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
  Address enter = 0;  // 0: no return probes
  Address unwind_tables = 0;
  std::array<Address, layout::kLockedStripes> locked_cells{};
  std::span<const Address> cpu_cells;  // by CPU number
  bool tables_apart = false;
};

// Of an arena whose tables lie apart, from its begin.
Range tables_in_arena(uint64_t cpus);

struct ArenaEntries {
  Address cpu_table = 0;  // entry of CPU 0
  // Routines that count with a locked instruction, and clobber rax and rcx:
  Address locked_count = 0;  // rax = offset of the counter
  // Called right in front of a probe, comes back to where the probe has counted. The second: in
  // front of one that keeps the red zone.
  std::array<Address, 2> count_for_probe{};
  // A callback for dl_iterate_phdr, for that to hold its lock meanwhile: hands another callback a
  // record of ours, and ends the list there (unwinder_hook.h).
  Address tells_of_tables = 0;
  Address enter_pointer = 0;    // holds the address of the runtime's enter routine
  std::vector<CodeRow> frames;  // in the routines; the last: behind them
};

ArenaEntries emit_arena_header(Assembler& code, const ArenaSpec& spec);

// What `tells_of_tables` is given, offsets: the callback that is to be told, its argument, and what
// it answered; then a dl_phdr_info. It is told of a record that ends in front of the counts of
// changes: libgcc would keep it, with pointers into the stack, in a cache that goes by these. They
// are behind it all the same, as LLVM's libunwind looks at them without asking for the size.
inline constexpr int32_t kTellingCallback = 0, kTellingArgument = 8, kTellingAnswer = 16,
                         kTellingRecord = 24, kTellingRecordSize = 32;

// Instructions that the jump at a site displaced.
struct Displaced {
  Address address = 0;
  std::span<const uint8_t> bytes;  // whole instructions, displaceable
};

// Where the copy of a displaced instruction begins.
struct Copy {
  uint8_t window_offset = 0;  // of the instruction, from the site
  uint32_t offset = 0;        // of its copy, from the first one
};

struct Stub {
  Address begin = 0;
  Address end = 0;
  Address body = 0;  // where the copy of the first displaced instruction begins
  // A thread that stands between two displaced instructions when the jump is written is moved to
  // the copy of the second.
  std::vector<Copy> copies;
  StubFrames frames;
};

// No stub takes more bytes that counts at so many points, or times calls, and stands in for so many
// bytes. Of a point: emit_counting() and what is out of line. Of what is displaced: a loop or a
// syscall of 2 bytes becomes one of 9, which is the most of all that may stand in front of others;
// the last one may be a call, of 24. And the way on, and alignment.
constexpr uint64_t most_stub_bytes(size_t points, size_t displaced) {
  return 128 * std::max<uint64_t>(points, 1) + 9 * ((displaced + 1) / 2) + 24 + 5 + 8;
}

// The displaced instructions from that offset on, and the way back behind them: the end of a stub's
// code.
void emit_displaced(Assembler& code, const Displaced& displaced, Stub& stub, size_t from = 0);

// The copies that a stub makes of instructions between two probes, for copies from `body` on: to
// bring threads home from a stub that somebody else assembled. Nothing if they cannot be moved
// there.
std::optional<std::vector<Copy>> copies_of(const Displaced& displaced, Address body);

// A probe in front of one of the displaced instructions.
struct CountPoint {
  uint8_t offset = 0;           // of the instruction, from the site
  uint32_t cell = 0;            // offset of the counter in a CPU's cells
  bool keep_red_zone = false;   // not at a function's entry: data may live below rsp
  bool at_stack_check = false;  // of Go (goroutine.h): alone in its stub, which uses no stack
};

// `points` ascending; without any, the stub only stands in for the displaced instructions.
Stub emit_count_stub(Assembler& code, const ArenaEntries& arena, std::optional<RseqArea> rseq,
                     std::span<const CountPoint> points, const Displaced& displaced);

struct ReturnStub {
  uint64_t histogram = 0;  // offsets in a CPU's cells; of the histogram's place
  uint64_t missed = 0;
  uint64_t unwound = 0;
  uint64_t lost = 0;
  uint64_t from_generated = 0;
};

Stub emit_return_stub(Assembler& code, const ArenaEntries& arena, const ReturnStub& spec,
                      const Displaced& displaced);

// A stub that calls handlers in the same process.
struct HandlerStub {
  std::optional<uint32_t> cell;  // counts first, in this cell
  bool keep_red_zone = false;    // not at a function's entry: data may live below rsp
  uint64_t before = 0;           // what the runtime knows of the handlers that run first
  uint64_t behind = 0;           // ... behind the first displaced instruction; 0: none
  bool measures = false;         // calls may be entered through return slots; at entries only
  Address hit = 0;               // the runtime's routines, which are called
  Address hit_behind = 0;
  Address enter = 0;  // times calls, behind the handlers: the runtime's enter routine; at entries
  ReturnStub timed;
};

Stub emit_handler_stub(Assembler& code, const ArenaEntries& arena, std::optional<RseqArea> rseq,
                       const HandlerStub& spec, const Displaced& displaced);

// Calls `routine` with `argument` in rdi, then goes on. The routine is position independent, keeps
// all registers but rdi, and the flags. For sites where a function begins.
Stub emit_routine_hook(Assembler& code, std::span<const uint8_t> routine, Address argument,
                       const Displaced& displaced);

// Code of `count` slots whose data begins at `slots`; each 32 bytes, in the slots' order.
inline constexpr uint64_t kSlotCodeSize = 1 << PP_SLOT_CODE_SIZE_LOG2;
inline constexpr uint64_t kSlotReturn = PP_SLOT_CODE_RETURN;
// Where a slot's code, having pushed its return address, goes on to record the call; and the byte
// that makes it return there instead, with nothing else of ours.
inline constexpr uint64_t kSlotLeaves = kSlotReturn + 6;
inline constexpr uint8_t kSlotGoesHome = 0xc3;  // ret
void emit_slot_code(Assembler& code, Address slots, uint64_t count, Address leave);

}  // namespace pinprick::arch
