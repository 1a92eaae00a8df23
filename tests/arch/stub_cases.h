// Shared by the tests of stubs: counters to count in, and code to displace.
#pragma once

#include <sys/rseq.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/stub.h"
#include "bytes.h"

namespace pinprick::arch {

inline constexpr uint64_t kNoEnter = 0;

inline struct rseq* own_rseq_area() {
  return reinterpret_cast<struct rseq*>(static_cast<char*>(__builtin_thread_pointer()) +
                                        __rseq_offset);
}

inline std::optional<RseqArea> own_rseq() {
  if (__rseq_size == 0) return std::nullopt;
  return RseqArea{static_cast<int32_t>(__rseq_offset)};
}

// Counters as the controller lays them out: a per-CPU area for each CPU and one for each locked
// stripe.
class Counters {
 public:
  Counters(uint32_t cpus, uint32_t counter) : counter_(counter), cpus_(cpus) {
    areas_.resize((cpus + layout::kLockedStripes) * kArea / 8);
    for (uint32_t i = 0; i < cpus; ++i) cpu_areas_.push_back(area(i));
    for (uint32_t i = 0; i < layout::kLockedStripes; ++i) locked_areas_[i] = area(cpus + i);
  }

  ArenaSpec arena(uint64_t size, bool tables_apart = false) const {
    ArenaSpec spec;
    spec.size = size;
    spec.routines = {kNoEnter, kNoEnter, kNoEnter};
    spec.locked_areas = locked_areas_;
    spec.cpu_areas = cpu_areas_;
    spec.tables_apart = tables_apart;
    return spec;
  }
  // A counter other than the one under test.
  uint64_t total_of(uint32_t counter) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < cpus_ + layout::kLockedStripes; ++i)
      sum += areas_[(i * kArea + counter) / 8];
    return sum;
  }
  uint64_t of_cpu(uint32_t cpu) const { return counter(cpu); }
  uint64_t by_rseq() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < cpus_; ++i) sum += counter(i);
    return sum;
  }
  uint64_t by_lock() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < layout::kLockedStripes; ++i) sum += counter(cpus_ + i);
    return sum;
  }
  uint64_t stripes_used() const {
    uint64_t used = 0;
    for (uint32_t i = 0; i < layout::kLockedStripes; ++i) used += counter(cpus_ + i) != 0;
    return used;
  }
  uint64_t total() const { return by_rseq() + by_lock(); }
  uint32_t cpus() const { return cpus_; }
  // Every other word must be unchanged.
  uint64_t words_written() const {
    return static_cast<uint64_t>(
        std::count_if(areas_.begin(), areas_.end(), [](uint64_t word) { return word != 0; }));
  }

 private:
  static constexpr uint64_t kArea = 4096;
  Address area(uint32_t i) const { return reinterpret_cast<Address>(areas_.data()) + i * kArea; }
  uint64_t counter(uint32_t area) const { return areas_[(area * kArea + counter_) / 8]; }

  uint32_t counter_;
  uint32_t cpus_;
  std::vector<uint64_t> areas_;
  std::vector<Address> cpu_areas_;
  std::array<Address, layout::kLockedStripes> locked_areas_{};
};

inline constexpr uint32_t kCounter = 0x208;

// push %rbp; mov %rsp,%rbp; sub $16,%rsp
inline const Bytes kPrologue = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10};

// Counts at these offsets, each in a counter of its own; all but the first are in the middle of a
// function.
inline std::vector<StubAction> counts_at(const std::vector<uint8_t>& offsets) {
  std::vector<StubAction> actions;
  for (size_t i = 0; i < offsets.size(); ++i)
    actions.push_back({.offset = offsets[i],
                       .stack = offsets[i] == 0 ? StackUse::at_entry : StackUse::keep_red_zone,
                       .what = CountHit{kCounter + 8 * static_cast<uint32_t>(i)}});
  return actions;
}

}  // namespace pinprick::arch
