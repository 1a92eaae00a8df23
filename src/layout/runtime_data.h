// What the runtime in a target keeps in the target's private memory: slots, the lists of free ones,
// and the context that says where everything is. Freestanding.
//
// Private, so that a forked child owns its copy: an activation belongs to the process that called.
// The controller fills it before anything runs. Later it looks, and adds slots behind those that
// there are.
//
//     lower addresses                                                       higher
//     | slots | free-list head per CPU | callers | threads | reusable | context | image | slots'
//     code |
//     |<------------------------- read, write ------------------------------->|<- read, execute ->|
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "layout/runtime_offsets.h"

namespace pinprick::layout {

// One activation of a return probe: a call that has not returned yet.
struct Slot {
  uint64_t next;            // in the CPU's list of free slots
  uint64_t return_address;  // of the measured call; 0: the slot is free
  uint64_t body;            // what the slot's code calls
  uint64_t record;          // the probe's ProbeRecord
  uint64_t tsc;             // at entry
  uint64_t stack;           // where the return address lay
  uint64_t code;            // this slot's code
  uint16_t list_length;     // of the CPU's list that begins here
  uint8_t claimed;          // 1: by a call, whatever the lists say
  uint8_t reused;           // 0; or PP_SLOT_REUSED_*: for calls with this return address only
  uint32_t global_next;     // index + 1 of the next one in the global list
};

// What a return probe's stub hands to the runtime: one metric that the call is recorded in. Lies
// beside the stub. A call that is recorded in several metrics has a list of these; the first one is
// the slot's.
struct ProbeRecord {
  uint64_t body;        // the displaced instructions, then the rest of the function
  uint64_t site;        // the probed instruction
  uint64_t cells;       // offset of the metric's TimeCells in a CPU's cells
  uint64_t next;        // address of the next record of this call; 0: there is none
  uint32_t unit;        // 1 << bits
  uint32_t bits;        // fraction bits of the histogram
  uint32_t block_size;  // what the histogram takes in the pool
  // Of a point of a span only: where its start is in a thread's entry, and whether the point ends
  // the span. One that does not begins it.
  uint16_t span_start;
  uint16_t span_ends;
};

// The counters of one timed metric in a CPU's cells: calls that were not recorded, by cause, and
// where the histogram of the others is.
struct TimeCells {
  uint64_t missed = 0;          // calls that found no slot, or no block
  uint64_t unwound = 0;         // calls that were left by unwinding
  uint64_t abandoned = 0;       // calls whose slot was used again before they returned
  uint64_t from_generated = 0;  // calls that were not timed because generated code made them
  uint64_t place = 0;  // of the block, from the beginning of the pool; 0: there is none yet
};

// The same of a span: hits that it did not record, by cause. `missed` are starts of threads that
// found no entry in the table, and spans that found no block.
struct SpanCells {
  uint64_t missed = 0;
  uint64_t repeated = 0;   // starts of a span that had begun already
  uint64_t unmatched = 0;  // ends of a span that had not begun
  uint64_t unused = 0;
  uint64_t place = 0;
};

// What a thread keeps of spans (runtime/span.inc): when each of those began that have not ended.
struct ThreadEntry {
  // The address of the thread's control block, times 2^16, plus its TID; the highest bit says that
  // the thread is still making the entry its own. 0: nobody's.
  uint64_t owner;
  uint32_t tid;
  uint32_t dead;  // written by the controller: the thread with this TID has ended
  // Behind it, by span: when it began, in TSC ticks; 0: it has not begun.
};

// The functions of an unwinder that the runtime calls when a slot's frame is unwound, and where it
// makes the unwinder land then. Lies beside the hook in that unwinder.
struct UnwinderTable {
  uint64_t get_ip;   // _Unwind_GetIP
  uint64_t set_gr;   // _Unwind_SetGR
  uint64_t set_ip;   // _Unwind_SetIP
  uint64_t resume;   // _Unwind_Resume
  uint64_t landing;  // goes on in the runtime
};

// What a stub that calls handlers hands to the runtime. Lies behind the stub.
struct HitRecord {
  uint64_t address;  // that the handlers are told
  uint64_t point;    // what the runtime knows of the handlers
  uint64_t resume;   // where the stub goes on
  uint64_t body;     // the displaced instructions, then the rest of the function
};

inline constexpr uint32_t kMaxCpus = PP_MAX_CPUS;
inline constexpr uint32_t kLockedStripes = 1u << PP_LOCKED_STRIPES_LOG2;

// Tables indexed by rseq's cpu_id have two entries before the first: -1 (not registered yet) and
// -2 (registration failed) read as 0, which sends the thread to the locked path.
inline constexpr uint32_t kUnregisteredEntries = 2;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): pages, and cache lines, of their own
struct alignas(4096) RuntimeContext {
  uint64_t magic;
  // Of blocks for histograms; 0: they all have one. Others can write what lies there, so that what
  // is read from there is checked against this.
  uint64_t pool;
  uint64_t pool_last_taken;  // the most that may be taken of it when a block is given
  uint64_t unused;
  alignas(64) uint64_t free_list;  // global: tag << 32 | index + 1 of the first free slot
  alignas(64) uint64_t slots;
  uint64_t ns_multiplier;  // nanoseconds per TSC tick, times 2^32
  uint64_t slot_count;     // that there is room for, and code addresses of
  uint64_t reuse_from;     // when so many were used, those of calls that were left are used again
  uint64_t reusing;        // 1: so it is
  uint64_t blocks;         // where places count from: the pool, if there is one
  uint64_t last_place;     // the largest that a block of any size can have
  uint64_t callers;        // the table of code that calls are timed from; 0: from anywhere
  // Slots that nobody has used yet: from `fresh` on, up to `fresh_limit`, which the controller
  // moves on once it has written more.
  alignas(64) uint64_t fresh;
  uint64_t fresh_limit;
  uint64_t hand;  // the slot that is to be noted next, in the table of reusable ones
  // The return address of a call that came from elsewhere, for the controller to look what is
  // there, and to make it 0 again.
  uint64_t unknown_caller;
  // Of spans. No thread comes here before the controller has written where a thread has its TID,
  // from its control block on.
  alignas(64) uint64_t threads;  // the table
  uint64_t thread_size;          // of an entry
  int64_t tid_offset;
  // Where cells are, on pages of their own: a child that is not to count gets them empty from the
  // kernel (MADV_WIPEONFORK). 0 means to nobody's cells.
  alignas(4096) uint64_t locked_cells[kLockedStripes];
  uint64_t cpu_cells_unregistered[kUnregisteredEntries];
  uint64_t cpu_cells[kMaxCpus];
  alignas(4096) uint64_t cpu_free_unregistered[kUnregisteredEntries];
  uint64_t cpu_free[kMaxCpus];
};

inline constexpr uint64_t kContextMagic = 0x30'5458'4e49'5050;  // "PPINTX0"

static_assert(sizeof(Slot) == PP_SLOT_SIZE && PP_SLOT_SIZE == 1 << PP_SLOT_SIZE_LOG2);
static_assert(offsetof(Slot, next) == PP_SLOT_NEXT);
static_assert(offsetof(Slot, return_address) == PP_SLOT_RETURN_ADDRESS);
static_assert(offsetof(Slot, body) == PP_SLOT_BODY);
static_assert(offsetof(Slot, record) == PP_SLOT_RECORD);
static_assert(offsetof(Slot, tsc) == PP_SLOT_TSC);
static_assert(offsetof(Slot, stack) == PP_SLOT_STACK);
static_assert(offsetof(Slot, code) == PP_SLOT_CODE);
static_assert(offsetof(Slot, list_length) == PP_SLOT_LIST_LENGTH);
static_assert(offsetof(Slot, claimed) == PP_SLOT_CLAIMED);
static_assert(offsetof(Slot, reused) == PP_SLOT_REUSED);
static_assert(offsetof(Slot, global_next) == PP_SLOT_GLOBAL_NEXT);
static_assert(offsetof(ProbeRecord, body) == PP_RECORD_BODY);
static_assert(offsetof(ProbeRecord, site) == PP_RECORD_SITE);
static_assert(offsetof(ProbeRecord, cells) == PP_RECORD_CELLS);
static_assert(offsetof(ProbeRecord, next) == PP_RECORD_NEXT);
static_assert(offsetof(ProbeRecord, unit) == PP_RECORD_UNIT);
static_assert(offsetof(ProbeRecord, bits) == PP_RECORD_BITS);
static_assert(offsetof(ProbeRecord, block_size) == PP_RECORD_BLOCK_SIZE);
static_assert(offsetof(ProbeRecord, span_start) == PP_RECORD_SPAN_START);
static_assert(offsetof(ProbeRecord, span_ends) == PP_RECORD_SPAN_ENDS);
static_assert(offsetof(SpanCells, missed) == PP_CELLS_MISSED);
static_assert(offsetof(SpanCells, repeated) == PP_CELLS_REPEATED);
static_assert(offsetof(SpanCells, unmatched) == PP_CELLS_UNMATCHED);
static_assert(offsetof(SpanCells, place) == PP_CELLS_PLACE);
static_assert(sizeof(SpanCells) == sizeof(TimeCells));
static_assert(offsetof(ThreadEntry, owner) == PP_THREAD_OWNER);
static_assert(offsetof(ThreadEntry, tid) == PP_THREAD_TID);
static_assert(offsetof(ThreadEntry, dead) == PP_THREAD_DEAD);
static_assert(sizeof(ThreadEntry) == PP_THREAD_STARTS);
static_assert(offsetof(TimeCells, missed) == PP_CELLS_MISSED);
static_assert(offsetof(TimeCells, unwound) == PP_CELLS_UNWOUND);
static_assert(offsetof(TimeCells, abandoned) == PP_CELLS_ABANDONED);
static_assert(offsetof(TimeCells, from_generated) == PP_CELLS_FROM_GENERATED);
static_assert(offsetof(TimeCells, place) == PP_CELLS_PLACE);
static_assert(sizeof(TimeCells) == PP_CELLS_SIZE);
static_assert(offsetof(UnwinderTable, get_ip) == PP_UNWINDER_GET_IP);
static_assert(offsetof(UnwinderTable, set_gr) == PP_UNWINDER_SET_GR);
static_assert(offsetof(UnwinderTable, set_ip) == PP_UNWINDER_SET_IP);
static_assert(offsetof(UnwinderTable, resume) == PP_UNWINDER_RESUME);
static_assert(offsetof(UnwinderTable, landing) == PP_UNWINDER_LANDING);
static_assert(offsetof(HitRecord, address) == PP_HIT_ADDRESS);
static_assert(offsetof(HitRecord, point) == PP_HIT_POINT);
static_assert(offsetof(HitRecord, resume) == PP_HIT_RESUME);
static_assert(offsetof(HitRecord, body) == PP_HIT_BODY);
static_assert(sizeof(RuntimeContext) == PP_CONTEXT_SIZE);
static_assert(offsetof(RuntimeContext, free_list) == PP_CONTEXT_FREE_LIST);
static_assert(offsetof(RuntimeContext, slots) == PP_CONTEXT_SLOTS);
static_assert(offsetof(RuntimeContext, ns_multiplier) == PP_CONTEXT_NS_MULTIPLIER);
static_assert(offsetof(RuntimeContext, slot_count) == PP_CONTEXT_SLOT_COUNT);
static_assert(offsetof(RuntimeContext, reuse_from) == PP_CONTEXT_REUSE_FROM);
static_assert(offsetof(RuntimeContext, reusing) == PP_CONTEXT_REUSING);
static_assert(offsetof(RuntimeContext, pool) == PP_CONTEXT_POOL);
static_assert(offsetof(RuntimeContext, pool_last_taken) == PP_CONTEXT_POOL_LAST_TAKEN);
static_assert(offsetof(RuntimeContext, blocks) == PP_CONTEXT_BLOCKS);
static_assert(offsetof(RuntimeContext, last_place) == PP_CONTEXT_LAST_PLACE);
static_assert(offsetof(RuntimeContext, hand) == PP_CONTEXT_HAND);
static_assert(offsetof(RuntimeContext, callers) == PP_CONTEXT_CALLERS);
static_assert(offsetof(RuntimeContext, unknown_caller) == PP_CONTEXT_UNKNOWN_CALLER);
static_assert(offsetof(RuntimeContext, threads) == PP_CONTEXT_THREADS);
static_assert(offsetof(RuntimeContext, thread_size) == PP_CONTEXT_THREAD_SIZE);
static_assert(offsetof(RuntimeContext, tid_offset) == PP_CONTEXT_TID_OFFSET);
static_assert(PP_REUSABLE_SIZE == sizeof(uint32_t) << PP_REUSABLE_LOG2);
static_assert(offsetof(RuntimeContext, fresh) == PP_CONTEXT_FRESH);
static_assert(offsetof(RuntimeContext, fresh_limit) == PP_CONTEXT_FRESH_LIMIT);
static_assert(offsetof(RuntimeContext, locked_cells) == PP_CONTEXT_LOCKED_CELLS);
static_assert(offsetof(RuntimeContext, cpu_cells) == PP_CONTEXT_CPU_CELLS);
static_assert(offsetof(RuntimeContext, cpu_free) == PP_CONTEXT_CPU_FREE);

// Spans that one session can have: what a thread keeps of them is not to be a page.
inline constexpr uint64_t kMostSpans = 254;
// Of an entry of the table of threads.
constexpr uint64_t thread_entry_size(uint64_t spans) {
  return align_up(sizeof(ThreadEntry) + spans * sizeof(uint64_t), 64);
}
// As many as hashes, and those that the last of them may lead to besides.
inline constexpr uint64_t kThreadEntries = (1 << PP_THREADS_LOG2) + PP_THREAD_WINDOW - 1;
constexpr uint64_t thread_table_size(uint64_t spans) {
  return spans == 0 ? 0 : align_up(kThreadEntries * thread_entry_size(spans), kPageSize);
}
// Where the start of a span is in an entry.
constexpr uint16_t span_start_offset(uint64_t span) {
  return static_cast<uint16_t>(sizeof(ThreadEntry) + span * sizeof(uint64_t));
}

// Of a context's pages, those that say where cells are.
inline constexpr uint64_t kCellTablesBegin = offsetof(RuntimeContext, locked_cells);
inline constexpr uint64_t kCellTablesEnd = offsetof(RuntimeContext, cpu_free_unregistered);

}  // namespace pinprick::layout
