// Builds the runtime of return probes for one target: bytes to be written at addresses already
// chosen.
//
// Pure. The code is slots.S, fixed up, followed by the slots' own code; the data is what
// layout/runtime_data.h describes, ready to run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "runtime/callers.h"

namespace pinprick::runtime {

struct RuntimeSpec {
  uint64_t capacity = 0;    // slots that there is room for
  uint64_t slot_count = 0;  // that there are
  uint32_t cpu_count = 0;
  uint32_t most_fraction_bits = 0;  // of any metric
  std::optional<arch::RseqArea> rseq;
  uint64_t ns_multiplier = 0;
  // Where the target has the cells: region 0 for locked threads, then one per CPU. Or fewer, where
  // so many would take too much memory: then all threads lock, and spread over all regions.
  Address cells = 0;
  uint64_t region_size = 0;
  uint32_t cell_regions = 0;  // besides region 0; 0: one per CPU
  // Blocks for histograms, into which places lead. With `has_pool` it is one (layout::PoolHeader),
  // and places are empty at first; else each leads to a block already. Where metrics differ in
  // their fraction bits, what the largest histogram takes stays empty at the end.
  Range blocks;
  bool has_pool = false;
  // Of the table of code that calls are timed from, which is to be filled (CallerTable); 0: calls
  // from anywhere are timed.
  uint64_t callers_size = 0;
  // Between points of which the time is measured; 0: none.
  uint64_t spans = 0;
  int64_t tid_offset = 0;  // of a thread's TID in its control block, if it is known already

  bool has_cells_per_cpu() const {
    return rseq && (cell_regions == 0 || cell_regions >= cpu_count);
  }
};

// Sizes in whole pages; data first, code right behind it.
struct RuntimeExtent {
  uint64_t data_size = 0;
  uint64_t code_size = 0;
  uint64_t size() const { return data_size + code_size; }
};

RuntimeExtent runtime_extent(uint64_t capacity, uint32_t cpu_count, uint64_t callers_size = 0,
                             uint64_t spans = 0);
RuntimeExtent runtime_extent(const RuntimeSpec& spec);

// Where the table is, in a runtime at `address` that was made with that size for it.
Address callers_in(Address address, const RuntimeSpec& spec);

// The table of what threads keep of spans.
Range threads_in(Address address, const RuntimeSpec& spec);

struct RuntimeImage {
  std::vector<Piece> pieces;
  Address data_address = 0;
  Address code_address = 0;
  Address enter = 0;                     // what the stubs of return probes jump to
  Address add = 0;                       // what stubs call that record a value
  Address span = 0;                      // what stubs of a span's points call
  Range slot_code;                       // of all slots that there is room for
  Address personality = 0, unwound = 0;  // for unwinder hooks
};

// Nothing if the target's rseq area is not within reach of an fs-relative displacement.
std::optional<RuntimeImage> build_runtime(Address address, const RuntimeSpec& spec);

// Can a program see where its control blocks are, as the runtime of spans does?
bool can_read_thread_pointers();

// Where the callers of whoever is in the image are; the last row: behind the image.
std::vector<arch::CodeRow> image_frames(Address image);

// The return address of an unwinder that goes on from a frame of the image's own.
Address resumed_at(Address image);

// loader handshake.S: where the loader's hook waits. At any address; its argument is a LoaderCell.
std::span<const uint8_t> loader_handshake_code();

// Slots from `first` on, up to `spec.slot_count`; to be written before the context's `fresh_limit`
// says that they are there. Nothing: out of reach.
std::optional<std::vector<Piece>> build_slots(Address address, const RuntimeSpec& spec,
                                              uint64_t first);

// Cells of the locked stripes: with cells per CPU all share region 0, which no CPU uses; without
// they are spread over all regions, each of which then sees locked instructions only.
std::array<Address, layout::kLockedStripes> locked_cells(const RuntimeSpec& spec);
std::vector<Address> cpu_cells(const RuntimeSpec& spec);

}  // namespace pinprick::runtime
