#include "runtime/spans.h"

#include "layout/runtime_offsets.h"
#include "runtime/thread.h"
#include "stats/histogram.h"

namespace pinprick::runtime {

HistogramAreas histogram_areas;

namespace {

struct Cell {
  uint64_t count;
  uint64_t sum;
};

uint64_t now() {
  uint32_t low = 0, high = 0;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return uint64_t{high} << 32 | low;
}

// The area of the CPU that runs this. The thread may be on another CPU before it counts, so
// counters there are changed by locked instructions.
uint64_t this_area(const HistogramAreas& where) {
  if (!where.has_rseq) return 0;
  int32_t cpu = 0;
  asm volatile("movl %%fs:%c1(%2), %0"
               : "=r"(cpu)
               : "i"(PP_RSEQ_CPU_ID), "r"(int64_t{where.rseq_offset}));
  return cpu < 0 || static_cast<uint32_t>(cpu) >= where.cpus ? 0 : static_cast<uint64_t>(cpu) + 1;
}

void record(const Span& span, uint64_t ticks) {
  const HistogramAreas& where = histogram_areas;
  __extension__ using Wide = unsigned __int128;
  const auto ns = static_cast<uint64_t>((Wide{ticks} * where.ns_multiplier) >> 32);
  const uint32_t slot = stats::slot_of(ns, kFractionBits);
  auto* const all =
      reinterpret_cast<Cell*>(where.areas + this_area(where) * where.area_size + span.histogram);
  __atomic_fetch_add(&all[slot].count, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&all[slot].sum, ns >> stats::sum_shift(slot, kFractionBits), __ATOMIC_RELAXED);
}

void count(std::atomic<uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

bool begin_span(Registers&, void* which, void*) noexcept {
  auto& span = *static_cast<Span*>(which);
  SpanStart* const starts = span_starts(this_thread());
  if (starts == nullptr) {
    count(span.unmatched_starts);
    return true;
  }
  SpanStart& start = starts[span.index];
  if (start.generation == span.generation) count(span.unmatched_starts);
  start.generation = span.generation;
  start.tsc = now();
  return true;
}

bool end_span(Registers&, void* which, void*) noexcept {
  const uint64_t end = now();
  auto& span = *static_cast<Span*>(which);
  const Thread& self = this_thread();
  SpanStart* const start = self.spans == nullptr ? nullptr : &self.spans[span.index];
  if (start == nullptr || start->generation != span.generation) {
    count(span.unmatched_ends);
    return true;
  }
  start->generation = 0;
  // The clocks of two CPUs may differ by a tick.
  record(span, end > start->tsc ? end - start->tsc : 0);
  return true;
}

}  // namespace pinprick::runtime
