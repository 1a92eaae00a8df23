// Builds the runtime of return probes for one process: bytes to be written at addresses already
// chosen. Pure.
//
// The code is slots.S, fixed up, followed by the slots' own code. The data is described by
// layout/runtime_data.h, and is ready to run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "layout/runtime_data.h"
#include "runtime/callers.h"

namespace pinprick::runtime {

// How the code of spans finds the control block of the thread that runs it.
enum class ThreadPointer : uint8_t {
  by_instruction,  // rdfsbase, which needs FSGSBASE: it is 0 in a thread that has none
  in_memory,       // a control block starts with its own address: each thread must have one
};

struct RuntimeSpec {
  uint64_t capacity = 0;    // how many slots there is room for
  uint64_t slot_count = 0;  // how many there are
  uint32_t cpu_count = 0;
  uint32_t most_fraction_bits = 0;  // of any metric
  std::optional<arch::RseqArea> rseq;
  uint64_t ns_multiplier = 0;
  // Where the process has the counters: area 0, a shared area for threads that lock, then one
  // per-CPU area for each CPU. If these would take too much memory, there are fewer
  // areas; then all threads lock, and are spread over all areas.
  Address areas = 0;
  uint64_t area_size = 0;
  uint32_t area_count = 0;  // besides area 0; 0 for one per CPU
  // Histogram storage: the blocks to which block offsets (TimeCounters::block) lead. With
  // `has_pool` it is a pool (layout::PoolHeader), and the offsets are 0 at first; otherwise each
  // leads to a block already. If metrics differ in their fraction bits, the size of the largest
  // histogram stays unused at the end.
  Range blocks;
  bool has_pool = false;
  // Size of the table of code from which calls are timed, which the caller fills (CallerTable); 0
  // if calls from anywhere are timed.
  uint64_t callers_size = 0;
  // Hits that are counted by keys: the table of keys in the process, and the offset of the first
  // one's counter in an area. Empty: there is none.
  Address keys = 0;
  uint32_t key_log2 = 0;
  uint64_t key_counters = 0;
  uint64_t key_sums = 0;   // distance from a counter to the sum of its hits
  uint64_t key_times = 0;  // offset of the first one's TimeCounters, if keys have any
  // If extremes are kept: where they are in the process, how many bytes the tables take each, and
  // where the number of the interval is.
  Address extremes = 0;
  uint64_t extremes_size = 0;
  Address interval = 0;
  // The table of texts in the process, if any are read.
  Address texts = 0;
  uint32_t text_log2 = 0;
  // Of hits that record events: the offset of the EventRing in an area, that of the counters of
  // dropped events, and the ring's capacity. 0: there are none.
  uint32_t event_log2 = 0;
  layout::EventRings rings = layout::EventRings::oldest;
  uint64_t ring = 0;
  uint64_t dropped = 0;
  // How many words a thread has: one for each span that is measured, and for the gap; and as the
  // last one what calls with a self time account for, if there are any.
  uint64_t spans = 0;
  // Are calls timed by exits (open_call.inc)?
  bool times_by_exits = false;
  // Do calls keep values from their entry to their return (arch::KeptAtEntry)?
  bool keeps_values = false;
  // Room for the rules of frames (layout/frame_rows.h), which the caller fills; 0: none. With it,
  // there are tables of what walks have found.
  uint64_t unwind_size = 0;
  ThreadPointer thread_pointer = ThreadPointer::by_instruction;
  int64_t tid_offset = 0;  // of a thread's TID in its control block, if it is known already

  bool has_area_per_cpu() const { return rseq && (area_count == 0 || area_count >= cpu_count); }
};

// Sizes in whole pages; the data comes first, the code directly after it.
struct RuntimeExtent {
  uint64_t data_size = 0;
  uint64_t code_size = 0;
  uint64_t size() const { return data_size + code_size; }
};

RuntimeExtent runtime_extent(uint64_t capacity, uint32_t cpu_count, uint64_t callers_size = 0,
                             uint64_t spans = 0, bool times_by_exits = false,
                             bool keeps_values = false, uint64_t unwind_size = 0);
RuntimeExtent runtime_extent(const RuntimeSpec& spec);

// Where the table of callers is in a runtime at `address`.
Address callers_in(Address address, const RuntimeSpec& spec);

// Where the threads' entries for spans are.
Range threads_in(Address address, const RuntimeSpec& spec);

struct RuntimeImage {
  std::vector<Piece> pieces;
  Address data_address = 0;
  Address code_address = 0;
  Address enter = 0;         // stubs of return probes jump here
  Address add = 0;           // stubs that record a value call this
  Address span = 0;          // stubs of a span's points call this
  Address key = 0;           // stubs that count by a key call this
  Address key_sum = 0;       // and this, if they add something up
  Address key_extremes = 0;  // and this, if they keep extremes of it, too
  Address add_by_key = 0;    // stubs that record a value by a key call this
  Address reads = 0;         // RuntimeContext::reads
  // layout::Regions, and the descriptors of the sequences that read them (all from the first to the
  // last).
  Address regions = 0, first_reading = 0, last_reading = 0;
  Address load = 0, text = 0, compare = 0;  // and these, to read what pointers lead to
  Address event = 0;                        // stubs that record an event call this
  Address every = 0;                        // and those that record each Nth hit call this before
  Address pair = 0;                         // stubs whose keys have several parts call this
  Address stack = 0;                        // stubs that tell the stack call this
  Address thread = 0;                       // stubs that tell the thread call this
  Address accounted = 0, self_time = 0;     // stubs of calls that have a self time call these
  Range slot_code;                          // of all slots for which there is room
  Address kept_values = 0;                  // layout::KeptValues of the slots, if they keep any
  Range unwind;                             // room for the rules of frames
  Address unwind_list = 0;               // RuntimeContext::unwind, which unwind_generation follows
  Address personality = 0, unwound = 0;  // for unwinder hooks
};

// Returns nullopt if the code of the slots cannot be emitted, because a target is out of reach.
std::optional<RuntimeImage> build_runtime(Address address, const RuntimeSpec& spec);

// How programs on this machine can read thread pointers.
ThreadPointer thread_pointer_here();

// The unwind rows of the image: where the caller of the code at each address is found. The last row
// is that of the image's end.
std::vector<arch::CodeRow> image_frames(Address image);

// The return address of the call by which the image resumes unwinding (pp_resumed).
Address resumed_at(Address image);

// The code of loader_handshake.S, in which the loader hook waits. It runs at any address.
std::span<const uint8_t> loader_handshake_code();

// The code of stop_reads.S. It runs at any address.
std::span<const uint8_t> stop_reads_code();

// The same of unmaps.S, which starts at its first byte before a system call, and at
// before_syscall_function() before a function that makes the call it is given. At
// before_ending_reads() it takes all regions away.
std::span<const uint8_t> before_call_code();
// The same code for one of arch::unmapping_calls(), whose number is not loaded yet where the code
// starts, at before_number().
std::span<const uint8_t> before_call_code(uint32_t number);
size_t before_number();
size_t before_syscall_function();
size_t before_ending_reads();

// The same of exec_handshake.S, in which a thread waits before it executes a program.
std::span<const uint8_t> exec_handshake_code();

// Builds the code of the slots from `first` up to `spec.slot_count`, and the first slot itself: the
// others are zero. They must be written before the context's `fresh_limit` includes them. Returns
// nullopt if something is out of reach.
std::optional<std::vector<Piece>> build_slots(Address address, const RuntimeSpec& spec,
                                              uint64_t first);

// The counters of the locked stripes. With an area per CPU, all stripes share area 0, which no
// CPU uses. Otherwise they are spread over all areas, and these are only changed by locked
// instructions.
std::array<Address, layout::kLockedStripes> locked_areas(const RuntimeSpec& spec);
std::vector<Address> cpu_areas(const RuntimeSpec& spec);

}  // namespace pinprick::runtime
