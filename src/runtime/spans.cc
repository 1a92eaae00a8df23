#include "runtime/spans.h"

#include "layout/runtime_offsets.h"
#include "runtime/thread.h"
#include "stats/histogram.h"

namespace pinprick::runtime {

HistogramCells histogram_cells;

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
uint64_t this_area(const HistogramCells& cells) {
  if (!cells.has_rseq) return 0;
  int32_t cpu = 0;
  asm volatile("movl %%fs:%c1(%2), %0"
               : "=r"(cpu)
               : "i"(PP_RSEQ_CPU_ID), "r"(int64_t{cells.rseq_offset}));
  return cpu < 0 || static_cast<uint32_t>(cpu) >= cells.cpus ? 0 : static_cast<uint64_t>(cpu) + 1;
}

void record(const Span& span, uint64_t ticks) {
  const HistogramCells& cells = histogram_cells;
  __extension__ using Wide = unsigned __int128;
  const auto ns = static_cast<uint64_t>((Wide{ticks} * cells.ns_multiplier) >> 32);
  const uint32_t slot = stats::slot_of(ns, kFractionBits);
  auto* const all =
      reinterpret_cast<Cell*>(cells.areas + this_area(cells) * cells.area_size + span.histogram);
  __atomic_fetch_add(&all[slot].count, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&all[slot].sum, ns >> stats::sum_shift(slot, kFractionBits), __ATOMIC_RELAXED);
}

void count(std::atomic<uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

bool begin_span(Registers&, void* which, void*) noexcept {
  auto& span = *static_cast<Span*>(which);
  SpanBegin* const begins = span_begins(this_thread());
  if (begins == nullptr) {
    count(span.unmatched_begins);
    return true;
  }
  SpanBegin& begin = begins[span.index];
  if (begin.generation == span.generation) count(span.unmatched_begins);
  begin.generation = span.generation;
  begin.tsc = now();
  return true;
}

bool end_span(Registers&, void* which, void*) noexcept {
  const uint64_t end = now();
  auto& span = *static_cast<Span*>(which);
  const Thread& self = this_thread();
  SpanBegin* const begin = self.spans == nullptr ? nullptr : &self.spans[span.index];
  if (begin == nullptr || begin->generation != span.generation) {
    count(span.unmatched_ends);
    return true;
  }
  begin->generation = 0;
  // The clocks of two CPUs may differ by a tick.
  record(span, end > begin->tsc ? end - begin->tsc : 0);
  return true;
}

}  // namespace pinprick::runtime
