// What the runtime keeps in the target's private memory: slots, the lists of free ones, and the
// context that says where everything is. Freestanding.
//
// The memory is private, so that a forked child has its own copy: a call in progress belongs to the
// process that made it. The controller fills the memory before any of the code runs. Later it reads
// it, and adds slots after the existing ones.
//
//     lower addresses                                                       higher
//     | slots | free-list head per CPU | callers | threads | open calls | kept values | rules of
//     frames | regions | reusable | context | image | slots' code |
//     |<------------------------- read, write ------------------------------->|<- read, execute ->|
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "layout/runtime_offsets.h"

namespace pinprick::layout {

// One activation of a return probe: a call in progress.
struct Slot {
  uint64_t next;            // in the CPU's list of free slots
  uint64_t return_address;  // of the measured call; 0: the slot is free
  uint64_t copy;            // out-of-line copy that the slot's code calls
  uint64_t record;          // the probe's ProbeRecord
  uint64_t tsc;             // at entry
  uint64_t stack;           // address of the return address on the stack
  uint64_t code;            // this slot's code; 0 until it is first used, but in the first slot
  uint16_t list_length;     // of the CPU's free list from this slot on
  uint8_t claimed;          // 1: a call has it, whatever the lists say
  uint8_t reused;           // 0, or PP_SLOT_REUSED_*: only for calls with this return address
  uint32_t global_next;     // index + 1 of the next one in the global list
};

// One metric that a call is recorded in: what a return probe's stub hands to the runtime. It lies
// beside the stub. A call that is recorded in several metrics has a list of records; its slot
// refers to the first.
struct ProbeRecord {
  uint64_t copy;        // out-of-line copy of the displaced instructions
  uint64_t site;        // the probed instruction
  uint64_t counters;    // offset of the metric's TimeCounters in a per-CPU area
  uint64_t next;        // address of the next record of this call; 0: none
  uint32_t unit;        // 1 << bits
  uint32_t bits;        // fraction bits of the histogram
  uint32_t block_size;  // size of the histogram in the pool
  // Only for a point of a span, and for gaps: where the start is in a ThreadEntry, and what is
  // done.
  uint16_t span_start;
  uint8_t pass;   // Pass
  uint8_t flags;  // PP_RECORD_GOES_ON and the like
};

// Follows a ProbeRecord with PP_RECORD_RETURNS.
struct ReturnRecord {
  // Code in the stub that decides at the return whether the call is recorded, and what of it
  // (arch::AtReturn); 0: there is none.
  uint64_t at_return;
  // The out-of-line copy for a call without a slot. ProbeRecord::copy may begin with code that
  // keeps values in the entry of the slot that called it.
  uint64_t unmeasured;
  // Of calls that are counted by keys: the counter of those whose key has no room, its offset in an
  // area.
  uint64_t rest;
};

// Values that a call keeps from its entry to its return. Each slot has an entry.
struct KeptValues {
  uint64_t values[PP_KEPT_VALUES];
};

// What a hit does for a span, or for the gap from the end of one call or span to the next start.
// The first start of a span counts, and the last one of a gap.
enum class Pass : uint16_t {
  starts = PP_PASS_STARTS,
  ends = PP_PASS_ENDS,
  starts_gap_of_cpu = PP_PASS_STARTS_GAP_OF_CPU,
  ends_gap_of_cpu = PP_PASS_ENDS_GAP_OF_CPU,
  starts_gap_of_thread = PP_PASS_STARTS_GAP_OF_THREAD,
  starts_call = PP_PASS_STARTS_CALL,
  ends_call = PP_PASS_ENDS_CALL,
  leaves_call = PP_PASS_LEAVES_CALL,
};

// The counters of one timed metric in a per-CPU area: calls that were not recorded, by cause, and
// where the histogram of the recorded ones is.
struct TimeCounters {
  uint64_t missed = 0;          // calls that found no slot, or no block
  uint64_t unwound = 0;         // calls that an exception or the like unwound
  uint64_t abandoned = 0;       // calls left by longjmp, whose slot or entry was then reused
  uint64_t from_generated = 0;  // calls that were not timed because generated code made them
  uint64_t block = 0;           // offset of the histogram's block in the pool; 0: none yet
};

// The same for a span or gap: hits that it did not record, by cause. `missed` counts starts on
// threads that found no entry in the table of threads, and times that found no block.
struct SpanCounters {
  uint64_t missed = 0;
  uint64_t repeated = 0;   // starts of a span that had already started
  uint64_t unmatched = 0;  // ends of a span or gap that had not started
  uint64_t unused = 0;
  uint64_t block = 0;
};

// A thread's entry for spans (runtime/span.inc): when each span that it is in started.
struct ThreadEntry {
  // The address of the thread's control block, times 2^16, plus its TID; the highest bit is set
  // while the thread is claiming the entry. 0: the entry is free.
  uint64_t owner;
  uint32_t tid;
  uint32_t dead;  // written by the controller: the thread with this TID has ended
  // After it, one word per span: when it started, in TSC ticks; 0: it has not started. The last
  // word may be what RuntimeContext::accounted leads to instead.
};

// An entry of the table of calls that are timed by exits (runtime/open_call.inc): a call in
// progress.
struct OpenCall {
  // Address of the return address on the stack, with PP_OPEN_CALL_FILLING until the other fields
  // are written; or PP_OPEN_CALL_FREE, or 0.
  uint64_t stack;
  uint64_t counters;        // ProbeRecord::counters of the function
  uint64_t tsc;             // at entry
  uint64_t return_address;  // tells the controller whether the call is still on the stack
};

// An entry of the table of keys (runtime/keys.inc): a number by which the hits of a probe are
// counted, or recorded. The counter of the entry's index, among those of keys, has the hits, or its
// TimeCounters have. Once an entry is complete, it never changes.
struct KeyEntry {
  uint64_t value;
  // Where the hits of keys without room are, in an area: the offset of the probe's counter or
  // TimeCounters, plus 1; with PP_KEY_FILLING until `value` is written. 0: the entry is free.
  uint64_t owner;
};

// The table of texts that hits have read (runtime/reads.inc), in the session file:
//
//     TextsHeader | slots | entries
//
// A slot is 0, or has the upper half of a text's hash, and the index of its entry plus 1. Once it
// is set, neither it nor the entry ever changes.
struct TextsHeader {
  uint64_t taken = 0;  // entries; may be more than there are
  uint64_t unused[7] = {};
};
struct TextEntry {
  // Filled up with 0; of a pair, its two numbers; of a stack, up to PP_STACK_PIECE addresses, and
  // in the last word the number of the next entry, or why there is none (PP_STACK_COMPLETE ...).
  char text[PP_MOST_TEXT] = {};
  // With PP_TEXT_CUT if the text goes on; of a pair PP_TEXT_PAIR; of a stack PP_TEXT_STACK, plus
  // the number of its addresses.
  uint64_t length = 0;
};
inline constexpr uint64_t kUnreadText = PP_TEXT_UNREAD;
inline constexpr uint64_t kOtherTexts = static_cast<uint64_t>(PP_TEXT_OTHER);
inline constexpr uint64_t kNullText = static_cast<uint64_t>(PP_TEXT_NULL);

// Which event a stub hands to the runtime (runtime/events.inc). Lies beside the stub.
struct EventRecord {
  uint32_t words;  // of the event
  uint32_t probe;  // its number
};

// A ring of events in an area, in the session file:
//
//     EventRing | capacity bytes | room for the end of an event
//
// Positions in bytes only grow; an event lies at its position modulo the capacity, which is a power
// of two. One that starts before the end of the ring may end after it. An event is made of words:
//
//     words | TID << 8 | probe << 32,  time in TSC ticks,  the values, the last one first
//
// Who reads events sets their words to 0, and then raises the tail. So in a ring that several
// threads write at once, an event is complete once its first word is not 0.
//
// A ring that keeps the newest events overwrites the oldest ones. It is read once it is stopped: a
// tail that is not 0 stops it. `starts` leads to events that are still there: of each of the
// PP_RING_PARTS equal parts of the ring, to the first event that begins there. An entry may be of
// an event that was never published, or was overwritten; its position shows that.
struct EventRing {
  alignas(64) uint64_t head = 0;  // where the next event begins; written by the target
  alignas(64) uint64_t tail = 0;  // where the first one that was not read begins
  uint64_t triggered = 0;         // 1: a hit has triggered the end; only in the ring of area 0
  uint64_t busy = 0;              // 1: a thread writes here, where threads share the ring
  alignas(64) uint64_t starts[PP_RING_PARTS] = {};
};
// Which events a full ring keeps.
enum class EventRings : uint64_t {
  oldest,                // new events are dropped until older ones were read
  newest,                // until a hit triggers the end, or they are stopped
  newest_after_trigger,  // a hit that triggers the end stops nothing
};
inline constexpr uint64_t kMostEventWords = PP_EVENT_VALUES / 8 + PP_MOST_EVENT_VALUES;
constexpr uint64_t event_ring_size(uint32_t log2) {
  return sizeof(EventRing) + (uint64_t{1} << log2) + kMostEventWords * sizeof(uint64_t);
}

// In the start of a call that is not to be recorded.
inline constexpr uint64_t kTscDropped = uint64_t{1} << PP_TSC_DROPPED_BIT;

// The functions of an unwinder that the runtime calls when a slot's frame is unwound, and where the
// runtime then makes the unwinder land. Lies beside the hook in that unwinder.
struct UnwinderTable {
  uint64_t get_ip;   // _Unwind_GetIP
  uint64_t set_gr;   // _Unwind_SetGR
  uint64_t set_ip;   // _Unwind_SetIP
  uint64_t resume;   // _Unwind_Resume
  uint64_t landing;  // code of the runtime
};

// What a stub that calls handlers hands to the runtime. Lies after the stub.
struct HitRecord {
  uint64_t address;  // address of the probe, as handlers see it
  uint64_t point;    // the runtime's data for this site's handlers
  uint64_t resume;   // where the stub continues
  // Out-of-line copy of the displaced instructions, which continues in the function. 0: the stub
  // does not measure calls.
  uint64_t copy;
};

inline constexpr uint32_t kMaxCpus = PP_MAX_CPUS;
inline constexpr uint32_t kLockedStripes = 1u << PP_LOCKED_STRIPES_LOG2;

// Tables indexed by rseq's cpu_id have two entries before the first, for -1 (not registered yet)
// and -2 (registration failed). They are 0, which sends the thread to the locked path.
inline constexpr uint32_t kUnregisteredEntries = 2;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): pages, and cache lines, of their own
struct alignas(4096) RuntimeContext {
  uint64_t magic;
  // Pool of histogram blocks; 0: each histogram has its block. The target can overwrite the pool's
  // header, so that what is read from it is checked against these fields.
  uint64_t pool;
  uint64_t pool_last_taken;  // `taken` of the pool may be at most this when a block is given out
  uint64_t open_calls;       // table of OpenCall; 0: there is none
  alignas(64) uint64_t free_list;  // global: tag << 32 | index + 1 of the first free slot
  alignas(64) uint64_t slots;
  uint64_t ns_multiplier;  // nanoseconds per TSC tick, times 2^32
  uint64_t slot_count;     // slots that there is room and code addresses for
  uint64_t reuse_from;     // once this many slots were in use, slots of abandoned calls are reused
  uint64_t reusing;        // 1: that number has been reached
  uint64_t blocks;         // base of block offsets: the pool, if there is one
  uint64_t last_block;     // the largest offset that is valid for a block of any size
  uint64_t callers;        // table of code whose calls are timed (runtime/callers.h); 0: all calls
  // Slots that were never in use: from `fresh` up to `fresh_limit`, which the controller raises
  // after it has written more.
  alignas(64) uint64_t fresh;
  uint64_t fresh_limit;
  uint64_t hand;  // index of the slot to note next in the table of reusable slots
  // The return address of a call from code that is not in `callers`. The controller looks what is
  // there, and resets this to 0.
  uint64_t unknown_caller;
  // For spans. Before any thread uses these, the controller has written where a thread's TID lies,
  // relative to its control block.
  alignas(64) uint64_t threads;  // table of ThreadEntry
  uint64_t thread_size;          // size of an entry
  int64_t tid_offset;
  // For hits that are counted by keys.
  uint64_t key_mask;      // of the hash: one less than a power of two
  uint64_t key_counters;  // offset of the first key's counter in an area
  uint64_t key_sums;      // distance from a counter to the sum of its hits
  uint64_t key_times;     // offset of the first key's TimeCounters in an area, if keys have any
  // For hits that read texts.
  uint64_t text_mask;     // of the hash: one less than a power of two
  uint64_t text_entries;  // distance from the table's header to the first entry
  uint64_t text_count;    // of the entries
  // For hits that record events.
  uint64_t ring;           // offset of the EventRing in an area
  uint64_t ring_capacity;  // bytes
  uint64_t ring_mask;      // of a position: the capacity, less a word
  uint64_t dropped;        // offset in an area of the counters, by probe, of events without room
  // For hits that tell their stack (runtime/stacks.inc).
  uint64_t unwind;             // UnwindList; 0: no rules are known
  uint64_t unwind_generation;  // of that list, in the highest 10 bits; not 0
  uint64_t rows;               // table of rules that were looked up
  uint64_t limits;             // table of how far stacks can be read
  // Where rings keep the newest events.
  uint64_t ring_part_mask;  // positions of one part of a ring have these bits in common
  uint64_t ring_part_log2;  // of the size of a part
  uint64_t shared_rings;    // as many, from area 0 on, are written by threads that share them
  uint64_t area_count;      // all areas, which lie one after the other
  uint64_t area_size;
  uint64_t trigger_stops;  // 1: a hit that triggers the end stops all rings
  // For hits of which the least and the greatest number are kept.
  uint64_t extremes;       // of the whole time, by counter; those of intervals follow
  uint64_t extremes_size;  // bytes of each of these three tables
  uint64_t interval;       // address of the interval's number
  // For calls that have a time of their own (runtime/self_time.inc): where a ThreadEntry has the
  // nanoseconds that are accounted for.
  uint64_t accounted;
  // Where the per-CPU areas are, on pages of their own: in a child that must not count, the kernel
  // clears these pages (MADV_WIPEONFORK), and 0 means that nothing is counted.
  alignas(4096) uint64_t locked_areas[kLockedStripes];
  uint64_t cpu_areas_unregistered[kUnregisteredEntries];
  uint64_t cpu_areas[kMaxCpus];
  uint64_t keys;        // table of KeyEntry; 0: nothing is counted by keys
  uint64_t texts;       // TextsHeader; 0: no text is read
  uint64_t reads;       // 1: what pointers lead to may be read, by a system call
  uint64_t readers;     // threads that have begun to
  uint64_t slow_reads;  // roughly how often one has
  alignas(4096) uint64_t cpu_free_unregistered[kUnregisteredEntries];
  uint64_t cpu_free[kMaxCpus];
};

// Memory that hits may read without asking the kernel, and the threads that did
// (runtime/regions.inc). The controller fills it while all threads stand still. In a child, the
// kernel clears it.
struct Region {
  uint64_t begin;
  uint64_t length;  // bytes; 0: nothing may be read
};
struct alignas(4096) Regions {
  uint64_t bytes;                 // of the part of `list` that is searched; 0: nothing may be read
  uint64_t first_cs, last_cs;     // the descriptors of the sequences that read
  int64_t rseq;                   // of a thread's area, from its thread pointer
  uint64_t heap_begin, heap_end;  // what brk(2) changes
  uint64_t changes;               // how often pages were made that maps do not show
  alignas(2048) uint32_t hints[PP_REGION_HINTS];  // offset in `list`, by address
  // Thread pointers; 0: free.
  alignas(4096) uint64_t threads[PP_REGION_THREADS];
  // By address, a power of two of them, the rest begin at the last address. The first is empty.
  alignas(4096) Region list[PP_MOST_REGIONS];
  // The length up to which some thread may still read.
  uint64_t admitted[PP_MOST_REGIONS];
};

inline constexpr uint64_t kContextMagic = 0x30'5458'4e49'5050;  // "PPINTX0"

static_assert(sizeof(Slot) == PP_SLOT_SIZE && PP_SLOT_SIZE == 1 << PP_SLOT_SIZE_LOG2);
static_assert(offsetof(Slot, next) == PP_SLOT_NEXT);
static_assert(offsetof(Slot, return_address) == PP_SLOT_RETURN_ADDRESS);
static_assert(offsetof(Slot, copy) == PP_SLOT_COPY);
static_assert(offsetof(Slot, record) == PP_SLOT_RECORD);
static_assert(offsetof(Slot, tsc) == PP_SLOT_TSC);
static_assert(offsetof(Slot, stack) == PP_SLOT_STACK);
static_assert(offsetof(Slot, code) == PP_SLOT_CODE);
static_assert(offsetof(Slot, list_length) == PP_SLOT_LIST_LENGTH);
static_assert(offsetof(Slot, claimed) == PP_SLOT_CLAIMED);
static_assert(offsetof(Slot, reused) == PP_SLOT_REUSED);
static_assert(offsetof(Slot, global_next) == PP_SLOT_GLOBAL_NEXT);
static_assert(offsetof(ProbeRecord, copy) == PP_RECORD_COPY);
static_assert(offsetof(ProbeRecord, site) == PP_RECORD_SITE);
static_assert(offsetof(ProbeRecord, counters) == PP_RECORD_COUNTERS);
static_assert(offsetof(ProbeRecord, next) == PP_RECORD_NEXT);
static_assert(offsetof(ProbeRecord, unit) == PP_RECORD_UNIT);
static_assert(offsetof(ProbeRecord, bits) == PP_RECORD_BITS);
static_assert(offsetof(ProbeRecord, block_size) == PP_RECORD_BLOCK_SIZE);
static_assert(offsetof(ProbeRecord, span_start) == PP_RECORD_SPAN_START);
static_assert(offsetof(ProbeRecord, pass) == PP_RECORD_PASS);
static_assert(offsetof(ProbeRecord, flags) == PP_RECORD_FLAGS);
static_assert(sizeof(ProbeRecord) == PP_RECORD_SIZE);
static_assert(PP_RECORD_SIZE + offsetof(ReturnRecord, at_return) == PP_RECORD_AT_RETURN);
static_assert(PP_RECORD_SIZE + offsetof(ReturnRecord, unmeasured) == PP_RECORD_UNMEASURED);
static_assert(PP_RECORD_SIZE + offsetof(ReturnRecord, rest) == PP_RECORD_REST);
static_assert(sizeof(KeptValues) == PP_KEPT_SIZE && PP_KEPT_SIZE == PP_SLOT_SIZE);
static_assert(PP_KEPT_SIZE == 2 << PP_SLOT_CODE_SIZE_LOG2);
static_assert(offsetof(SpanCounters, missed) == PP_COUNTERS_MISSED);
static_assert(offsetof(SpanCounters, repeated) == PP_COUNTERS_REPEATED);
static_assert(offsetof(SpanCounters, unmatched) == PP_COUNTERS_UNMATCHED);
static_assert(offsetof(SpanCounters, block) == PP_COUNTERS_BLOCK);
static_assert(sizeof(SpanCounters) == sizeof(TimeCounters));
static_assert(offsetof(ThreadEntry, owner) == PP_THREAD_OWNER);
static_assert(offsetof(ThreadEntry, tid) == PP_THREAD_TID);
static_assert(offsetof(ThreadEntry, dead) == PP_THREAD_DEAD);
static_assert(sizeof(ThreadEntry) == PP_THREAD_STARTS);
static_assert(sizeof(OpenCall) == PP_OPEN_CALL_SIZE);
static_assert(PP_OPEN_CALL_SIZE == 1 << PP_OPEN_CALL_SIZE_LOG2);
static_assert(offsetof(OpenCall, stack) == PP_OPEN_CALL_STACK);
static_assert(offsetof(OpenCall, counters) == PP_OPEN_CALL_COUNTERS);
static_assert(offsetof(OpenCall, tsc) == PP_OPEN_CALL_TSC);
static_assert(offsetof(OpenCall, return_address) == PP_OPEN_CALL_RETURN_ADDRESS);
static_assert(offsetof(TimeCounters, missed) == PP_COUNTERS_MISSED);
static_assert(offsetof(TimeCounters, unwound) == PP_COUNTERS_UNWOUND);
static_assert(offsetof(TimeCounters, abandoned) == PP_COUNTERS_ABANDONED);
static_assert(offsetof(TimeCounters, from_generated) == PP_COUNTERS_FROM_GENERATED);
static_assert(offsetof(TimeCounters, block) == PP_COUNTERS_BLOCK);
static_assert(sizeof(TimeCounters) == PP_COUNTERS_SIZE && PP_GAP_BEGAN == PP_COUNTERS_SIZE);
static_assert(offsetof(UnwinderTable, get_ip) == PP_UNWINDER_GET_IP);
static_assert(offsetof(UnwinderTable, set_gr) == PP_UNWINDER_SET_GR);
static_assert(offsetof(UnwinderTable, set_ip) == PP_UNWINDER_SET_IP);
static_assert(offsetof(UnwinderTable, resume) == PP_UNWINDER_RESUME);
static_assert(offsetof(UnwinderTable, landing) == PP_UNWINDER_LANDING);
static_assert(offsetof(HitRecord, address) == PP_HIT_ADDRESS);
static_assert(offsetof(HitRecord, point) == PP_HIT_POINT);
static_assert(offsetof(HitRecord, resume) == PP_HIT_RESUME);
static_assert(offsetof(HitRecord, copy) == PP_HIT_COPY);
static_assert(sizeof(RuntimeContext) == PP_CONTEXT_SIZE);
static_assert(offsetof(RuntimeContext, open_calls) == PP_CONTEXT_OPEN_CALLS);
static_assert(offsetof(RuntimeContext, free_list) == PP_CONTEXT_FREE_LIST);
static_assert(offsetof(RuntimeContext, slots) == PP_CONTEXT_SLOTS);
static_assert(offsetof(RuntimeContext, ns_multiplier) == PP_CONTEXT_NS_MULTIPLIER);
static_assert(offsetof(RuntimeContext, slot_count) == PP_CONTEXT_SLOT_COUNT);
static_assert(offsetof(RuntimeContext, reuse_from) == PP_CONTEXT_REUSE_FROM);
static_assert(offsetof(RuntimeContext, reusing) == PP_CONTEXT_REUSING);
static_assert(offsetof(RuntimeContext, pool) == PP_CONTEXT_POOL);
static_assert(offsetof(RuntimeContext, pool_last_taken) == PP_CONTEXT_POOL_LAST_TAKEN);
static_assert(offsetof(RuntimeContext, blocks) == PP_CONTEXT_BLOCKS);
static_assert(offsetof(RuntimeContext, last_block) == PP_CONTEXT_LAST_BLOCK);
static_assert(offsetof(RuntimeContext, hand) == PP_CONTEXT_HAND);
static_assert(offsetof(RuntimeContext, callers) == PP_CONTEXT_CALLERS);
static_assert(offsetof(RuntimeContext, unknown_caller) == PP_CONTEXT_UNKNOWN_CALLER);
static_assert(offsetof(RuntimeContext, threads) == PP_CONTEXT_THREADS);
static_assert(offsetof(RuntimeContext, thread_size) == PP_CONTEXT_THREAD_SIZE);
static_assert(offsetof(RuntimeContext, tid_offset) == PP_CONTEXT_TID_OFFSET);
static_assert(PP_REUSABLE_SIZE == sizeof(uint32_t) << PP_REUSABLE_LOG2);
static_assert(offsetof(RuntimeContext, fresh) == PP_CONTEXT_FRESH);
static_assert(offsetof(RuntimeContext, fresh_limit) == PP_CONTEXT_FRESH_LIMIT);
static_assert(offsetof(RuntimeContext, locked_areas) == PP_CONTEXT_LOCKED_AREAS);
static_assert(offsetof(RuntimeContext, cpu_areas) == PP_CONTEXT_CPU_AREAS);
static_assert(offsetof(RuntimeContext, cpu_free) == PP_CONTEXT_CPU_FREE);
static_assert(offsetof(RuntimeContext, keys) == PP_CONTEXT_KEYS);
static_assert(offsetof(RuntimeContext, texts) == PP_CONTEXT_TEXTS);
static_assert(offsetof(RuntimeContext, reads) == PP_CONTEXT_READS);
static_assert(offsetof(RuntimeContext, readers) == PP_CONTEXT_READERS);
static_assert(PP_CONTEXT_READERS == PP_CONTEXT_READS + 8);  // stop_reads.S
static_assert(offsetof(RuntimeContext, slow_reads) == PP_CONTEXT_SLOW_READS);
static_assert(sizeof(Regions) == PP_REGIONS_SIZE && sizeof(Region) == PP_REGION_SIZE);
static_assert(offsetof(Regions, bytes) == PP_REGIONS_BYTES);
static_assert(offsetof(Regions, first_cs) == PP_REGIONS_FIRST_CS);
static_assert(offsetof(Regions, last_cs) == PP_REGIONS_LAST_CS);
static_assert(offsetof(Regions, rseq) == PP_REGIONS_RSEQ);
static_assert(offsetof(Regions, heap_begin) == PP_REGIONS_HEAP_BEGIN);
static_assert(offsetof(Regions, heap_end) == PP_REGIONS_HEAP_END);
static_assert(offsetof(Regions, changes) == PP_REGIONS_CHANGES);
static_assert(offsetof(Regions, hints) == PP_REGIONS_HINTS);
static_assert(offsetof(Regions, threads) == PP_REGIONS_THREADS);
static_assert(offsetof(Regions, list) == PP_REGIONS_LIST);
static_assert(offsetof(Regions, admitted) == PP_REGIONS_ADMITTED);
static_assert(PP_REGION_THREADS == (1 << PP_REGION_THREADS_LOG2) + PP_REGION_THREAD_WINDOW);
static_assert(offsetof(RuntimeContext, text_mask) == PP_CONTEXT_TEXT_MASK);
static_assert(offsetof(RuntimeContext, text_entries) == PP_CONTEXT_TEXT_ENTRIES);
static_assert(offsetof(RuntimeContext, text_count) == PP_CONTEXT_TEXT_COUNT);
static_assert(offsetof(RuntimeContext, ring) == PP_CONTEXT_RING);
static_assert(offsetof(RuntimeContext, ring_capacity) == PP_CONTEXT_RING_CAPACITY);
static_assert(offsetof(RuntimeContext, ring_mask) == PP_CONTEXT_RING_MASK);
static_assert(offsetof(RuntimeContext, dropped) == PP_CONTEXT_DROPPED);
static_assert(offsetof(EventRing, head) == PP_RING_HEAD &&
              offsetof(EventRing, tail) == PP_RING_TAIL &&
              offsetof(EventRing, triggered) == PP_RING_TRIGGERED &&
              offsetof(EventRing, busy) == PP_RING_BUSY &&
              offsetof(EventRing, starts) == PP_RING_STARTS && sizeof(EventRing) == PP_RING_EVENTS);
static_assert(offsetof(RuntimeContext, ring_part_mask) == PP_CONTEXT_RING_PART_MASK);
static_assert(offsetof(RuntimeContext, ring_part_log2) == PP_CONTEXT_RING_PART_LOG2);
static_assert(offsetof(RuntimeContext, shared_rings) == PP_CONTEXT_SHARED_RINGS);
static_assert(offsetof(RuntimeContext, area_count) == PP_CONTEXT_AREA_COUNT);
static_assert(offsetof(RuntimeContext, area_size) == PP_CONTEXT_AREA_SIZE);
static_assert(offsetof(RuntimeContext, trigger_stops) == PP_CONTEXT_TRIGGER_STOPS);
static_assert(offsetof(RuntimeContext, extremes) == PP_CONTEXT_EXTREMES);
static_assert(offsetof(RuntimeContext, extremes_size) == PP_CONTEXT_EXTREMES_SIZE);
static_assert(offsetof(RuntimeContext, interval) == PP_CONTEXT_INTERVAL);
static_assert(offsetof(RuntimeContext, accounted) == PP_CONTEXT_ACCOUNTED);
static_assert(offsetof(EventRecord, words) == PP_EVENT_RECORD_WORDS &&
              offsetof(EventRecord, probe) == PP_EVENT_RECORD_PROBE);
static_assert(sizeof(TextsHeader) == PP_TEXTS_SLOTS &&
              offsetof(TextsHeader, taken) == PP_TEXTS_TAKEN);
static_assert(PP_STACK_LINK == PP_STACK_PIECE * sizeof(uint64_t) &&
              PP_STACK_LINK + sizeof(uint64_t) == PP_MOST_TEXT);
static_assert(offsetof(RuntimeContext, unwind) == PP_CONTEXT_UNWIND);
static_assert(offsetof(RuntimeContext, unwind_generation) == PP_CONTEXT_UNWIND_GENERATION);
static_assert(offsetof(RuntimeContext, rows) == PP_CONTEXT_ROWS);
static_assert(offsetof(RuntimeContext, limits) == PP_CONTEXT_LIMITS);
static_assert(PP_WALK_TABLES_SIZE ==
              ((1 << PP_ROWS_LOG2) + (1 << PP_LIMITS_LOG2)) * sizeof(uint64_t));
static_assert(sizeof(TextEntry) == PP_TEXT_SIZE && offsetof(TextEntry, length) == PP_TEXT_LENGTH);
static_assert(PP_PAGE_SIZE == kPageSize);
static_assert(offsetof(RuntimeContext, key_mask) == PP_CONTEXT_KEY_MASK);
static_assert(offsetof(RuntimeContext, key_counters) == PP_CONTEXT_KEY_COUNTERS);
static_assert(offsetof(RuntimeContext, key_sums) == PP_CONTEXT_KEY_SUMS);
static_assert(offsetof(RuntimeContext, key_times) == PP_CONTEXT_KEY_TIMES);
static_assert(sizeof(KeyEntry) == 1 << PP_KEY_SIZE_LOG2);
static_assert(offsetof(KeyEntry, value) == PP_KEY_VALUE);
static_assert(offsetof(KeyEntry, owner) == PP_KEY_OWNER);

// How many spans one session can have, so that a ThreadEntry stays smaller than a page.
inline constexpr uint64_t kMostSpans = 254;
// Size of an entry of the table of threads.
constexpr uint64_t thread_entry_size(uint64_t spans) {
  return align_up(sizeof(ThreadEntry) + spans * sizeof(uint64_t), 64);
}
// One entry per hash value, and the rest of the last one's window.
inline constexpr uint64_t kThreadEntries = (1 << PP_THREADS_LOG2) + PP_THREAD_WINDOW - 1;
constexpr uint64_t thread_table_size(uint64_t spans) {
  return spans == 0 ? 0 : align_up(kThreadEntries * thread_entry_size(spans), kPageSize);
}
// Returns where a span's start lies in a ThreadEntry.
constexpr uint16_t span_start_offset(uint64_t span) {
  return static_cast<uint16_t>(sizeof(ThreadEntry) + span * sizeof(uint64_t));
}

// One entry per hash value, and the rest of the last one's window. `log2` is that of the hashes.
inline constexpr uint32_t kMostKeyLog2 = 24;
constexpr uint64_t key_entries(uint32_t log2) {
  return (uint64_t{1} << log2) + PP_KEY_WINDOW - 1;
}

// One slot per hash value, and the rest of the last one's window; and entries for half of them.
constexpr uint64_t text_entries_offset(uint32_t log2) {
  return sizeof(TextsHeader) + ((uint64_t{1} << log2) + PP_TEXT_WINDOW) * sizeof(uint64_t);
}
constexpr uint64_t text_count(uint32_t log2) {
  return log2 == 0 ? 0 : uint64_t{1} << (log2 - 1);
}
constexpr uint64_t texts_size(uint32_t log2) {
  return log2 == 0 ? 0 : text_entries_offset(log2) + text_count(log2) * sizeof(TextEntry);
}

// One entry per hash value, and the rest of the last one's window.
inline constexpr uint64_t kOpenCalls = (1 << PP_OPEN_CALLS_LOG2) + PP_OPEN_CALLS_WINDOW - 1;
inline constexpr uint64_t kOpenCallsSize = align_up(kOpenCalls * sizeof(OpenCall), kPageSize);

// The pages of a context that say where the per-CPU areas are.
inline constexpr uint64_t kAreaTablesBegin = offsetof(RuntimeContext, locked_areas);
inline constexpr uint64_t kAreaTablesEnd = offsetof(RuntimeContext, cpu_free_unregistered);

}  // namespace pinprick::layout
