// Offsets that assembly and C++ share. C++ asserts each of them where it defines the structure, so
// that the two cannot drift apart. Plain #defines, since the assembly of runtime/ includes this
// file.
#pragma once

#define PP_SLOT_SIZE 64
#define PP_SLOT_SIZE_LOG2 6
#define PP_SLOT_NEXT 0
#define PP_SLOT_RETURN_ADDRESS 8
#define PP_SLOT_COPY 16
#define PP_SLOT_RECORD 24
#define PP_SLOT_TSC 32
#define PP_SLOT_STACK 40
#define PP_SLOT_CODE 48
#define PP_SLOT_LIST_LENGTH 56
#define PP_SLOT_CLAIMED 58
#define PP_SLOT_REUSED 59
#define PP_SLOT_GLOBAL_NEXT 60

// This bit of PP_SLOT_TSC, or of PP_OPEN_CALL_TSC, is set in a call that is not to be recorded: no
// clock gets there. The rest still says when it started.
#define PP_TSC_DROPPED_BIT 63

// PP_SLOT_REUSED of a slot whose call was abandoned: taken by a later call; that call has returned.
#define PP_SLOT_REUSED_TAKEN 1
#define PP_SLOT_REUSED_FREE 2

#define PP_RECORD_COPY 0
#define PP_RECORD_SITE 8
#define PP_RECORD_COUNTERS 16
#define PP_RECORD_NEXT 24
#define PP_RECORD_UNIT 32
#define PP_RECORD_BITS 36
#define PP_RECORD_BLOCK_SIZE 40
// For a point of a span, and for gaps.
#define PP_RECORD_SPAN_START 44
#define PP_RECORD_PASS 46
#define PP_RECORD_FLAGS 47
#define PP_RECORD_SIZE 48
// After a record with PP_RECORD_RETURNS (ReturnRecord).
#define PP_RECORD_AT_RETURN 48
#define PP_RECORD_UNMEASURED 56
#define PP_RECORD_REST 64

// PP_RECORD_FLAGS: the call has another record after this one, or something to compute at its
// return; it has a ReturnRecord; and that has code to run at the return. What is computed has a
// key: by it the call is timed, or only counted, and a number may be added up.
#define PP_RECORD_GOES_ON 1
#define PP_RECORD_RETURNS 2
#define PP_RECORD_COMPUTES 4
#define PP_RECORD_KEYED 8
#define PP_RECORD_COUNTS 16
#define PP_RECORD_SUMS 32
// From this bit on, the flags have the order of the numbers whose extremes are kept (NumberOrder).
#define PP_RECORD_ORDER_SHIFT 6

// Counters of a timed point in a per-CPU area (TimeCounters).
#define PP_COUNTERS_MISSED 0
#define PP_COUNTERS_UNWOUND 8
#define PP_COUNTERS_ABANDONED 16
#define PP_COUNTERS_FROM_GENERATED 24
#define PP_COUNTERS_BLOCK 32
#define PP_COUNTERS_SIZE 40
// After the TimeCounters of gaps: when the CPU's last call or span ended, in TSC ticks; 0: none did
// since the last gap.
#define PP_GAP_BEGAN 40
// What a hit does (PP_RECORD_PASS): what starts a span or a gap, and what ends it and records its
// time. A gap of a thread is ended like a span.
#define PP_PASS_STARTS 0
#define PP_PASS_ENDS 1
#define PP_PASS_STARTS_GAP_OF_CPU 2
#define PP_PASS_ENDS_GAP_OF_CPU 3
#define PP_PASS_STARTS_GAP_OF_THREAD 4
// A call that is timed by exits: its start, and its end.
#define PP_PASS_STARTS_CALL 5
#define PP_PASS_ENDS_CALL 6
// What had the position of a call that starts here was left, and the call may not be timed.
#define PP_PASS_LEAVES_CALL 7

// Counters of a span (SpanCounters), instead of those of calls.
#define PP_COUNTERS_REPEATED 8
#define PP_COUNTERS_UNMATCHED 16

// The context ends where the runtime image starts.
#define PP_CONTEXT_SIZE 28672
#define PP_CONTEXT_POOL 8
#define PP_CONTEXT_POOL_LAST_TAKEN 16
#define PP_CONTEXT_OPEN_CALLS 24
#define PP_CONTEXT_FREE_LIST 64
#define PP_CONTEXT_SLOTS 128
#define PP_CONTEXT_NS_MULTIPLIER 136
#define PP_CONTEXT_SLOT_COUNT 144
#define PP_CONTEXT_REUSE_FROM 152
#define PP_CONTEXT_REUSING 160
#define PP_CONTEXT_BLOCKS 168
#define PP_CONTEXT_LAST_BLOCK 176
#define PP_CONTEXT_CALLERS 184
#define PP_CONTEXT_FRESH 192
#define PP_CONTEXT_FRESH_LIMIT 200
#define PP_CONTEXT_HAND 208
#define PP_CONTEXT_UNKNOWN_CALLER 216
#define PP_CONTEXT_THREADS 256
#define PP_CONTEXT_THREAD_SIZE 264
#define PP_CONTEXT_TID_OFFSET 272
#define PP_CONTEXT_KEY_MASK 280
#define PP_CONTEXT_KEY_COUNTERS 288
#define PP_CONTEXT_KEY_SUMS 296
#define PP_CONTEXT_KEY_TIMES 304
#define PP_CONTEXT_TEXT_MASK 312
#define PP_CONTEXT_TEXT_ENTRIES 320
#define PP_CONTEXT_TEXT_COUNT 328
#define PP_CONTEXT_RING 336
#define PP_CONTEXT_RING_CAPACITY 344
#define PP_CONTEXT_RING_MASK 352
#define PP_CONTEXT_DROPPED 360
#define PP_CONTEXT_UNWIND 368
#define PP_CONTEXT_UNWIND_GENERATION 376
#define PP_CONTEXT_ROWS 384
#define PP_CONTEXT_LIMITS 392
#define PP_CONTEXT_RING_PART_MASK 400
#define PP_CONTEXT_RING_PART_LOG2 408
#define PP_CONTEXT_SHARED_RINGS 416
#define PP_CONTEXT_AREA_COUNT 424
#define PP_CONTEXT_AREA_SIZE 432
#define PP_CONTEXT_TRIGGER_STOPS 440
#define PP_CONTEXT_EXTREMES 448
#define PP_CONTEXT_EXTREMES_SIZE 456
#define PP_CONTEXT_INTERVAL 464
#define PP_CONTEXT_ACCOUNTED 472
#define PP_CONTEXT_LOCKED_AREAS 4096
#define PP_CONTEXT_CPU_AREAS 4176
#define PP_CONTEXT_KEYS 12368
#define PP_CONTEXT_TEXTS 12376
#define PP_CONTEXT_READS 12384
#define PP_CONTEXT_READERS 12392
#define PP_CONTEXT_SLOW_READS 12400
#define PP_CONTEXT_CPU_FREE 16400

// Table of code whose calls are timed (runtime/callers.h): offset of its first level.
#define PP_CALLERS_FIRST 262144

// Before the context, the table of reusable slots: slot index plus one, by a hash of the call.
#define PP_REUSABLE_LOG2 14
#define PP_REUSABLE_SIZE 65536
#define PP_REUSABLE_WAYS 4  // entries for each hash

// Before that table, what hits may read without asking the kernel (Regions).
#define PP_REGIONS_SIZE 122880
#define PP_REGIONS_BYTES 0
#define PP_REGIONS_FIRST_CS 8
#define PP_REGIONS_LAST_CS 16
#define PP_REGIONS_RSEQ 24
#define PP_REGIONS_HEAP_BEGIN 32
#define PP_REGIONS_HEAP_END 40
#define PP_REGIONS_CHANGES 48
#define PP_REGIONS_HINTS 2048
#define PP_REGION_HINTS 512
#define PP_REGION_HINT_SHIFT 16  // addresses that differ only below have the same hint
#define PP_REGIONS_THREADS 4096
#define PP_REGION_THREADS_LOG2 11
#define PP_REGION_THREAD_WINDOW 8
#define PP_REGION_THREADS 2056  // one per hash value, and the rest of the last one's window
#define PP_REGIONS_LIST 24576
#define PP_REGION_SIZE 16
#define PP_MOST_REGIONS 4096
#define PP_REGIONS_ADMITTED 90112

// Table of threads (ThreadEntry): a thread's entry is one of PP_THREAD_WINDOW, the first of which
// is found by a hash of the address of its control block.
#define PP_THREADS_LOG2 13
#define PP_THREAD_WINDOW 16
#define PP_THREAD_OWNER 0
#define PP_THREAD_TID 8
#define PP_THREAD_DEAD 12
#define PP_THREAD_STARTS 16

// How numbers are ordered (NumberOrder); 0 means that their extremes are not kept.
#define PP_ORDER_WITHOUT_SIGN 1
#define PP_ORDER_WITH_SIGN 2
#define PP_ORDER_REAL 3
// Extremes of the hits of a counter.
#define PP_EXTREMES_SIZE_LOG2 4
#define PP_EXTREMES_LOW 0
#define PP_EXTREMES_HIGH 8

// Table of keys (KeyEntry): the entry of a key is one of PP_KEY_WINDOW, the first of which is found
// by a hash of the key and its owner.
#define PP_KEY_WINDOW 64
#define PP_KEY_SIZE_LOG2 4
#define PP_KEY_VALUE 0
#define PP_KEY_OWNER 8
// In the owner of an entry whose key is not written yet.
#define PP_KEY_FILLING 2

// Table of texts (TextsHeader, TextEntry): the slot of a text is one of PP_TEXT_WINDOW, the first
// of which is found by a hash. A text's number is the index of its entry plus 1.
#define PP_TEXT_WINDOW 64
#define PP_TEXTS_TAKEN 0
#define PP_TEXTS_SLOTS 64
#define PP_MOST_TEXT 64
#define PP_TEXT_LENGTH 64
#define PP_TEXT_SIZE 72
#define PP_TEXT_CUT 0x100
#define PP_TEXT_PAIR 0x200
#define PP_TEXT_STACK 0x400  // plus the number of its addresses
// Numbers of texts that could not be read, and that the table has no room for; and of none, where
// the address is 0, for those who want to know.
#define PP_TEXT_UNREAD 0
#define PP_TEXT_OTHER (-1)
#define PP_TEXT_NULL (-2)
// Bytes of a text that is compared with another, or with a pattern.
#define PP_MOST_COMPARED 256

// Stacks (runtime/stacks.inc). One is a list of entries of the table of texts, the innermost first.
// An entry has at most PP_STACK_PIECE addresses, and in its last word the number of the next entry,
// or why the stack has no more.
#define PP_MOST_FRAMES 63
#define PP_STACK_PIECE 7
#define PP_FRAME_IS_NEXT_BIT 63  // in an address: no call returns there, but it is executed next
#define PP_STACK_LINK 56
#define PP_STACK_COMPLETE 0
#define PP_STACK_CUT (-3)      // as many frames as were asked for
#define PP_STACK_UNKNOWN (-4)  // there is no rule for the code of the last one
#define PP_STACK_OUTSIDE (-5)  // a rule led to where no stack is

// What walks have found is kept in two tables of words (runtime/stacks.inc): rules by address, and
// by 64 KB of stack how far it can be read.
#define PP_ROWS_LOG2 13
#define PP_LIMITS_LOG2 10
#define PP_LIMIT_PAGES_BITS 28
#define PP_WALK_TABLES_SIZE 73728
#define PP_GENERATION_SHIFT 54

// The list of objects (UnwindList, UnwindObject), and the rules of their code (FrameRow).
#define PP_UNWIND_OBJECTS 8
#define PP_UNWIND_OBJECT_SIZE_LOG2 5
#define PP_UNWIND_BEGIN 0
#define PP_UNWIND_SIZE 8
#define PP_UNWIND_ROWS 16
#define PP_UNWIND_ROW_COUNT 24
// A rule: its kind, and what that needs (FrameRow).
#define PP_FRAME_KIND 7
#define PP_FRAME_UNKNOWN 0
#define PP_FRAME_NORMAL 1
#define PP_FRAME_END 2
#define PP_FRAME_SIGNAL 3
#define PP_FRAME_PLT 4
#define PP_FRAME_LOADED 5
#define PP_FRAME_BY_RBP 8
#define PP_FRAME_SAVED_SHIFT 4
#define PP_FRAME_SAVED_MASK 127
#define PP_FRAME_RBP_LOST 127
#define PP_FRAME_SIZE_SHIFT 11
#define PP_FRAME_PUSH_SHIFT 4
#define PP_FRAME_PUSH_MASK 15
#define PP_FRAME_RBP_AT_RBP 16
#define PP_FRAME_AT_SHIFT 5
#define PP_FRAME_AT_MASK 1023
#define PP_FRAME_AT_BIAS 512
#define PP_FRAME_PLUS_SHIFT 15
#define PP_FRAME_PLUS_MASK 255
#define PP_FRAME_LOADED_SAVED_SHIFT 23

// The ring of events in an area (EventRing), and an event's words: the header, the time, and the
// values.
#define PP_RING_HEAD 0
#define PP_RING_TAIL 64
#define PP_RING_TRIGGERED 72
#define PP_RING_BUSY 80
#define PP_RING_STARTS 128
#define PP_RING_PARTS 64
#define PP_RING_EVENTS 640
#define PP_EVENT_VALUES 16
#define PP_MOST_EVENT_VALUES 60
// Which event a stub records (EventRecord).
#define PP_EVENT_RECORD_WORDS 0
#define PP_EVENT_RECORD_PROBE 4
// In the number of a probe: its event triggers the end of the recording.
#define PP_EVENT_TRIGGERS_BIT 31

#define PP_PAGE_SIZE 4096
#define PP_SYS_GETTID 186
#define PP_SYS_PROCESS_VM_READV 310

// Table of calls that are timed by exits (OpenCall): a call's entry is one of PP_OPEN_CALLS_WINDOW,
// the first of which is found by a hash of its position on the stack.
#define PP_OPEN_CALLS_LOG2 16
#define PP_OPEN_CALLS_WINDOW 32
#define PP_OPEN_CALL_SIZE 32
#define PP_OPEN_CALL_SIZE_LOG2 5
#define PP_OPEN_CALL_STACK 0
#define PP_OPEN_CALL_COUNTERS 8
#define PP_OPEN_CALL_TSC 16
#define PP_OPEN_CALL_RETURN_ADDRESS 24
// PP_OPEN_CALL_STACK of an entry that had a call, and has none; 0: it never had one.
#define PP_OPEN_CALL_FREE 1
// This bit of PP_OPEN_CALL_STACK, which no position has, is set until the entry is complete.
#define PP_OPEN_CALL_FILLING 1

#define PP_MAX_CPUS 1024
#define PP_LOCKED_STRIPES_LOG2 3

// What pp_leave has on the stack while code for the return runs: words, and where those with the
// program's registers are. They count down from the stack pointer as after the return.
#define PP_LEAVE_WORDS 8
#define PP_LEAVE_RAX 2
#define PP_LEAVE_RCX 3
#define PP_LEAVE_RDX 5
#define PP_LEAVE_RSI 6
#define PP_LEAVE_RDI 7
#define PP_LEAVE_R8 8

// A CPU's list of free slots gives what it has beyond this to the global list.
#define PP_CPU_FREE_LIMIT 64

// What an unwinder hook's code hands to the runtime (UnwinderTable).
#define PP_UNWINDER_GET_IP 0
#define PP_UNWINDER_SET_GR 8
#define PP_UNWINDER_SET_IP 16
#define PP_UNWINDER_RESUME 24
#define PP_UNWINDER_LANDING 32

// PoolHeader in the session file, and the offset of the first block after it.
#define PP_POOL_TAKEN 0
#define PP_POOL_LIMIT 8
#define PP_POOL_OWN_LIMIT 16
#define PP_POOL_REFUSED 24
#define PP_POOL_BLOCKS 4096

// LoaderHandshake, in the session file.
#define PP_LOADER_REQUESTS 0
#define PP_LOADER_ANSWERED 4
#define PP_LOADER_HEARTBEAT 8
#define PP_LOADER_CONTROLLER_GONE 12
#define PP_LOADER_TIMEOUT 16

// ExecHandshake, in the session file.
#define PP_EXEC_HEARTBEAT 0
#define PP_EXEC_CONTROLLER_GONE 4
#define PP_EXEC_TIMEOUT 8
#define PP_EXEC_TID_OFFSET 16
#define PP_EXEC_MISSED 24
#define PP_EXEC_SLOTS 32
#define PP_EXEC_SLOT_COUNT 128
#define PP_EXEC_SLOT_TID 4
#define PP_EXEC_TAKEN 1
#define PP_EXEC_ASKS 2
#define PP_EXEC_ANSWERED 3

// Distance from one slot's code to the next slot's.
#define PP_SLOT_CODE_SIZE_LOG2 5
// Offset in a slot's code of the address that its call returns to.
#define PP_SLOT_CODE_RETURN 6

// Entry values that are kept with a call (KeptValues). An entry is as long as a slot, so that the
// distance between them is the same for all, and no two threads write into one cache line.
#define PP_KEPT_SIZE 64
#define PP_KEPT_VALUES 8
// A value that could not be read when it was to be kept.
#define PP_KEPT_UNREAD 0x8000000000000000

// What a stub that calls handlers hands to the runtime (HitRecord).
#define PP_HIT_ADDRESS 0
#define PP_HIT_POINT 8
#define PP_HIT_RESUME 16
#define PP_HIT_COPY 24

// A thread's registers while handlers run (pinprick::Registers), and what lies above them.
#define PP_REGISTERS_VECTOR_STATE 0
#define PP_REGISTERS_GENERAL 8
#define PP_REGISTERS_RSP 40
#define PP_REGISTERS_IP 136
#define PP_REGISTERS_FLAGS 144
#define PP_REGISTERS_SIZE 152

#define PP_RSEQ_CPU_ID_START 0
#define PP_RSEQ_CPU_ID 4
#define PP_RSEQ_CS 8
#define PP_RSEQ_SIGNATURE 0x53053053

// runtime::Recorder
#define PP_RECORDER_CONTROL 0
#define PP_RECORDER_AREAS 8
#define PP_RECORDER_AREA_SIZE 16
#define PP_RECORDER_RSEQ 24
#define PP_RECORDER_CPUS 32
#define PP_RECORDER_BITS 36
#define PP_RECORDER_UNIT 40
