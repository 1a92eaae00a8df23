// Spans: the time from one site to another, in the same thread; and the histograms in one's own
// process.
//
// A span's two ends are handlers. The first notes the time with its thread, the second takes it and
// records what has passed:
//
//     begin begin end      the first begin has no end: from the second one is measured
//     end                  of no begin
//     begin (ends) end     a thread that ends, or gets another's record, begins anew
//
// Hot, like handlers.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/address.h"
#include "pinprick/registers.h"

namespace pinprick::runtime {

inline constexpr unsigned kFractionBits = 3;
inline constexpr uint32_t kMostSpans = 256;

// Where histograms are: one region for threads whose CPU is not known, then one for each CPU. Set
// once, before there are any.
struct HistogramCells {
  Address regions = 0;
  uint64_t region_size = 0;
  uint32_t cpus = 0;
  bool has_rseq = false;  // then a thread's CPU is known
  int32_t rseq_offset = 0;
  uint64_t ns_multiplier = 0;  // nanoseconds per TSC tick, times 2^32
};
extern HistogramCells histogram_cells;

struct Span {
  uint32_t index = 0;       // in each thread's begins, below kMostSpans
  uint64_t generation = 0;  // never 0; of the index: tells a begin of this span from one before
  uint64_t histogram = 0;   // offset in a region
  std::atomic<uint64_t> unmatched_begins{0}, unmatched_ends{0};
};

// What a thread keeps of each span.
struct SpanBegin {
  uint64_t generation;
  uint64_t tsc;
};

// Handlers; `span` is a Span. They use integer registers only.
bool begin_span(Registers& registers, void* span, void* activation) noexcept;
bool end_span(Registers& registers, void* span, void* activation) noexcept;

}  // namespace pinprick::runtime
