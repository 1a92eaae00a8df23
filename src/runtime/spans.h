// Spans in our own process: the time from one site to another, in the same thread; and histograms.
//
// A span's two ends are handlers. The first notes the time in the record of its thread; the second
// takes it from there and records the time between:
//
//     begin begin end            the first begin is unmatched; time counts from the second
//     end                        unmatched
//     begin (thread ends) end    another thread that gets the record starts without a begin
//
// On the hot path, like handlers.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/address.h"
#include "pinprick/registers.h"

namespace pinprick::runtime {

inline constexpr unsigned kFractionBits = 3;
inline constexpr uint32_t kMostSpans = 256;

// Where histograms are: an area for threads whose CPU is not known, then one for each CPU. Set
// once, before the first span.
struct HistogramCells {
  Address areas = 0;
  uint64_t area_size = 0;
  uint32_t cpus = 0;
  bool has_rseq = false;  // if so, a thread's CPU is known
  int32_t rseq_offset = 0;
  uint64_t ns_multiplier = 0;  // nanoseconds per TSC tick, times 2^32
};
extern HistogramCells histogram_cells;

struct Span {
  uint32_t index = 0;       // in each thread's begins, below kMostSpans
  uint64_t generation = 0;  // never 0; tells this span's begins from those of an earlier one
  uint64_t histogram = 0;   // offset in an area
  std::atomic<uint64_t> unmatched_begins{0}, unmatched_ends{0};
};

// What a thread keeps of each span.
struct SpanBegin {
  uint64_t generation;
  uint64_t tsc;
};

// The handlers; `span` is a Span. They use integer registers only.
bool begin_span(Registers& registers, void* span, void* activation) noexcept;
bool end_span(Registers& registers, void* span, void* activation) noexcept;

}  // namespace pinprick::runtime
