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

#include "arch/x86_64/stub.h"
#include "base/address.h"

namespace pinprick::runtime {

struct RuntimeSpec {
  uint64_t slot_count = 0;
  uint32_t cpu_count = 0;
  uint32_t fraction_bits = 0;
  std::optional<arch::RseqArea> rseq;
  uint64_t ns_multiplier = 0;
  // Where the target has the cells: region 0 for locked threads, then one per CPU.
  Address cells = 0;
  uint64_t region_size = 0;
};

// Sizes in whole pages; data first, code right behind it.
struct RuntimeExtent {
  uint64_t data_size = 0;
  uint64_t code_size = 0;
  uint64_t size() const { return data_size + code_size; }
};

RuntimeExtent runtime_extent(uint64_t slot_count, uint32_t cpu_count);

struct RuntimeImage {
  std::vector<uint8_t> data;
  std::vector<uint8_t> code;
  Address data_address = 0;
  Address code_address = 0;
  Address enter = 0;  // what the stubs of return probes jump to
  Range slot_code;
  Address personality = 0, unwound = 0;  // for unwinder hooks
};

// Nothing if the target's rseq area is not within reach of an fs-relative displacement.
std::optional<RuntimeImage> build_runtime(Address address, const RuntimeSpec& spec);

// rendezvous.S: where the loader's hook waits. At any address; its argument is a LoaderCell.
std::span<const uint8_t> rendezvous_code();

// Cells of the locked stripes: with rseq all share region 0, which no CPU uses; without they are
// spread over all regions, each of which then sees locked instructions only.
std::array<Address, layout::kLockedStripes> locked_cells(const RuntimeSpec& spec);
std::vector<Address> cpu_cells(const RuntimeSpec& spec);

}  // namespace pinprick::runtime
