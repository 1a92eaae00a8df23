#include "library/statistics/histogram_store.h"

#include <sys/mman.h>
#include <sys/rseq.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/machine.h"
#include "layout/session_file.h"
#include "library/probes/return_slots.h"
#include "library/process/children.h"
#include "library/process/own_ledger.h"
#include "library/process/unwinding.h"
#include "runtime/activations.h"
#include "runtime/image.h"
#include "runtime/spans.h"

namespace pinprick::library {
namespace {

// A per-CPU area has layout::TimeCounters for each histogram, then the histograms.
constexpr uint64_t kCounters =
    uint64_t{HistogramStore::kMostHistograms} * sizeof(layout::TimeCounters);

uint64_t one_histogram() {
  return layout::histogram_size(runtime::kFractionBits);
}

uint64_t area_size() {
  return align_up(kCounters + HistogramStore::kMostHistograms * one_histogram(), kPageSize);
}

uint32_t cpu_count() {
  return std::min(possible_cpus(), layout::kMaxCpus);
}

_Unwind_Reason_Code timed_personality(int, _Unwind_Action actions, uint64_t,
                                      _Unwind_Exception* exception, _Unwind_Context* context) {
  if ((actions & _UA_CLEANUP_PHASE) == 0) return _URC_CONTINUE_UNWIND;
  return land(__builtin_return_address(0), exception, context, runtime::timed_slot_code,
              runtime::timed_slots, pp_landed_timed);
}

}  // namespace

Result<void, SystemError> HistogramStore::make_histograms() {
  if (memory_ != 0) return {};
  // Memory is only taken where something is recorded.
  const uint64_t areas = cpu_count() + 1;
  void* const memory = ::mmap(nullptr, areas * area_size(), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return fail(SystemError{errno});
  memory_ = reinterpret_cast<Address>(memory);
  areas_ = areas;
  runtime::HistogramAreas& where = runtime::histogram_areas;
  where.areas = memory_;
  where.area_size = area_size();
  where.cpus = cpu_count();
  where.has_rseq = can_mark_children();
  where.rseq_offset = static_cast<int32_t>(__rseq_offset);
  where.ns_multiplier = ns_multiplier();
  return {};
}

Result<void, SystemError> HistogramStore::make_slots() {
  if (enter_ != 0) return {};
  if (auto made = make_histograms(); !made) return made;
  const auto extent = runtime::runtime_extent(kSlots, cpu_count());
  void* const memory =
      ::mmap(nullptr, extent.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail(SystemError{errno});

  const runtime::HistogramAreas& where = runtime::histogram_areas;
  runtime::RuntimeSpec spec;
  spec.capacity = spec.slot_count = kSlots;
  spec.cpu_count = where.cpus;
  spec.most_fraction_bits = runtime::kFractionBits;
  if (where.has_rseq) spec.rseq = arch::RseqArea{where.rseq_offset};
  spec.ns_multiplier = where.ns_multiplier;
  spec.areas = memory_;
  spec.area_size = where.area_size;
  spec.blocks = {memory_, memory_ + areas_ * where.area_size};
  const auto begin = reinterpret_cast<Address>(memory);
  const auto image = runtime::build_runtime(begin, spec);
  if (!image) return fail(SystemError{EFAULT});
  for (const runtime::Piece& piece : image->pieces)
    std::memcpy(reinterpret_cast<void*>(piece.address), piece.bytes.data(), piece.bytes.size());
  if (::mprotect(reinterpret_cast<void*>(image->code_address), extent.code_size,
                 PROT_READ | PROT_EXEC) != 0)
    return fail(SystemError{errno});
  OwnLedger::get().note_code({image->code_address, image->code_address + extent.code_size});

  runtime::timed_slots = static_cast<layout::Slot*>(memory);
  runtime::timed_slot_code = image->slot_code;
  pp_timed_unwound = image->unwound;
  const arch::SlotFrames slots = {image->slot_code, begin, PP_RECORD_SITE};
  cover_slots(slots, &timed_personality);
  OwnLedger::get().note_slots({begin, image->slot_code.begin, kSlots});
  const auto rows = runtime::image_frames(image->code_address);
  cover({rows.front().from, rows.back().from}, arch::RangeKind::stubs,
        [&](arch::Assembler& table) { return arch::emit_code_unwind_table(table, rows, slots); });
  tell_unwinders();
  enter_ = image->enter;
  return {};
}

std::optional<uint32_t> HistogramStore::new_histogram() {
  if (memory_ == 0 || used_ == kMostHistograms) return std::nullopt;
  for (uint64_t area = 0; area < areas_; ++area)
    counters_of(used_, area).block = area * area_size() + histogram_at(used_);
  return used_++;
}

uint64_t HistogramStore::histogram_at(uint32_t histogram) {
  return kCounters + histogram * one_histogram();
}

arch::Metric HistogramStore::metric_of(uint32_t histogram) {
  return {histogram * sizeof(layout::TimeCounters), runtime::kFractionBits};
}

layout::TimeCounters& HistogramStore::counters_of(uint32_t histogram, uint64_t area) const {
  return *reinterpret_cast<layout::TimeCounters*>(memory_ + area * area_size() +
                                                  metric_of(histogram).counters);
}

stats::Histogram HistogramStore::read(uint32_t histogram) const {
  stats::Histogram all(runtime::kFractionBits);
  const uint64_t offset = histogram_at(histogram);
  for (uint64_t area = 0; area < areas_; ++area) {
    const auto* cell = reinterpret_cast<const uint64_t*>(memory_ + area * area_size() + offset);
    for (uint32_t slot = 0; slot < stats::slot_count(all.bits()); ++slot, cell += 2)
      all.add(slot, {__atomic_load_n(cell, __ATOMIC_RELAXED),
                     __atomic_load_n(cell + 1, __ATOMIC_RELAXED)});
  }
  return all;
}

uint64_t HistogramStore::sum(uint32_t histogram, uint64_t layout::TimeCounters::*counter) const {
  uint64_t sum = 0;
  for (uint64_t area = 0; area < areas_; ++area)
    sum += __atomic_load_n(&(counters_of(histogram, area).*counter), __ATOMIC_RELAXED);
  return sum;
}

uint64_t HistogramStore::missed(uint32_t histogram) const {
  return sum(histogram, &layout::TimeCounters::missed);
}

uint64_t HistogramStore::unwound(uint32_t histogram) const {
  return sum(histogram, &layout::TimeCounters::unwound);
}

uint64_t HistogramStore::abandoned(uint32_t histogram) const {
  return sum(histogram, &layout::TimeCounters::abandoned);
}

}  // namespace pinprick::library
