// Offsets that assembly and C++ share. C++ asserts each of them where it defines the structure, so
// that neither side can drift. Plain #defines: the assembly of runtime/ includes this file.
#pragma once

#define PP_SLOT_SIZE 64
#define PP_SLOT_SIZE_LOG2 6
#define PP_SLOT_NEXT 0
#define PP_SLOT_RETURN_ADDRESS 8
#define PP_SLOT_BODY 16
#define PP_SLOT_RECORD 24
#define PP_SLOT_TSC 32
#define PP_SLOT_STACK 40
#define PP_SLOT_CODE 48
#define PP_SLOT_LIST_LENGTH 56
#define PP_SLOT_CLAIMED 58
#define PP_SLOT_REUSED 59
#define PP_SLOT_GLOBAL_NEXT 60

// A slot that one call left, and another has taken; and that one has returned from.
#define PP_SLOT_REUSED_TAKEN 1
#define PP_SLOT_REUSED_FREE 2

#define PP_RECORD_BODY 0
#define PP_RECORD_SITE 8
#define PP_RECORD_CELLS 16
#define PP_RECORD_NEXT 24
#define PP_RECORD_UNIT 32
#define PP_RECORD_BITS 36
#define PP_RECORD_BLOCK_SIZE 40
// Of a point of a span.
#define PP_RECORD_SPAN_START 44
#define PP_RECORD_SPAN_ENDS 46

// What a CPU counts of a timed point (TimeCells).
#define PP_CELLS_MISSED 0
#define PP_CELLS_UNWOUND 8
#define PP_CELLS_ABANDONED 16
#define PP_CELLS_FROM_GENERATED 24
#define PP_CELLS_PLACE 32
#define PP_CELLS_SIZE 40
// Of a span (SpanCells), in place of those of calls.
#define PP_CELLS_REPEATED 8
#define PP_CELLS_UNMATCHED 16

// The context ends where the runtime image begins.
#define PP_CONTEXT_SIZE 28672
#define PP_CONTEXT_POOL 8
#define PP_CONTEXT_POOL_LAST_TAKEN 16
#define PP_CONTEXT_FREE_LIST 64
#define PP_CONTEXT_SLOTS 128
#define PP_CONTEXT_NS_MULTIPLIER 136
#define PP_CONTEXT_SLOT_COUNT 144
#define PP_CONTEXT_REUSE_FROM 152
#define PP_CONTEXT_REUSING 160
#define PP_CONTEXT_BLOCKS 168
#define PP_CONTEXT_LAST_PLACE 176
#define PP_CONTEXT_CALLERS 184
#define PP_CONTEXT_FRESH 192
#define PP_CONTEXT_FRESH_LIMIT 200
#define PP_CONTEXT_HAND 208
#define PP_CONTEXT_UNKNOWN_CALLER 216
#define PP_CONTEXT_THREADS 256
#define PP_CONTEXT_THREAD_SIZE 264
#define PP_CONTEXT_TID_OFFSET 272
#define PP_CONTEXT_LOCKED_CELLS 4096
#define PP_CONTEXT_CPU_CELLS 4176
#define PP_CONTEXT_CPU_FREE 16400

// In the table of code that calls are timed from (runtime/callers.h): where the first level begins.
#define PP_CALLERS_FIRST 262144

// Before the context: the numbers of slots, plus one, by a hash of whose calls have them.
#define PP_REUSABLE_LOG2 14
#define PP_REUSABLE_SIZE 65536

// In the table of threads (ThreadEntry): a thread's entry is one of so many, the first of which is
// found by a hash of its control block's address.
#define PP_THREADS_LOG2 13
#define PP_THREAD_WINDOW 16
#define PP_THREAD_OWNER 0
#define PP_THREAD_TID 8
#define PP_THREAD_DEAD 12
#define PP_THREAD_STARTS 16

#define PP_MAX_CPUS 1024
#define PP_LOCKED_STRIPES_LOG2 3

// A CPU's list of free slots gives to the global list what it has beyond this.
#define PP_CPU_FREE_LIMIT 64

// What the code of an unwinder hook hands to the runtime (UnwinderTable).
#define PP_UNWINDER_GET_IP 0
#define PP_UNWINDER_SET_GR 8
#define PP_UNWINDER_SET_IP 16
#define PP_UNWINDER_RESUME 24
#define PP_UNWINDER_LANDING 32

// PoolHeader, and what lies behind it, in the session file.
#define PP_POOL_TAKEN 0
#define PP_POOL_LIMIT 8
#define PP_POOL_OWN_LIMIT 16
#define PP_POOL_REFUSED 24
#define PP_POOL_BLOCKS 4096

// LoaderCell, in the session file.
#define PP_LOADER_REQUESTS 0
#define PP_LOADER_ANSWERED 4
#define PP_LOADER_HEARTBEAT 8
#define PP_LOADER_CONTROLLER_GONE 12
#define PP_LOADER_TIMEOUT 16

// From the code of one slot to that of the next.
#define PP_SLOT_CODE_SIZE_LOG2 5
// From a slot's code to where its call returns to.
#define PP_SLOT_CODE_RETURN 6

// What a stub that calls handlers hands to the runtime (HitRecord).
#define PP_HIT_ADDRESS 0
#define PP_HIT_POINT 8
#define PP_HIT_RESUME 16
#define PP_HIT_BODY 24

// A thread's registers while handlers run (pinprick::Registers), and what lies above.
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
