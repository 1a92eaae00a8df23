// Spans in our own process: the time from one site to another, in the same thread; and histograms.
//
// A span's two ends are handlers. The first notes the time in the record of its thread; the second
// takes it from there and records the time between:
//
//     start start end            the first start is unmatched; time counts from the second
//     end                        unmatched
//     start (thread ends) end    another thread that gets the record has no start
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
struct HistogramAreas {
  Address areas = 0;
  uint64_t area_size = 0;
  uint32_t cpus = 0;
  bool has_rseq = false;  // if so, a thread's CPU is known
  int32_t rseq_offset = 0;
  uint64_t ns_multiplier = 0;  // nanoseconds per TSC tick, times 2^32
};
extern HistogramAreas histogram_areas;

struct Span {
  uint32_t index = 0;       // in each thread's starts, below kMostSpans
  uint64_t generation = 0;  // never 0; tells this span's starts from those of an earlier one
  uint64_t histogram = 0;   // offset in an area
  std::atomic<uint64_t> unmatched_starts{0}, unmatched_ends{0};
};

// What a thread keeps of each span.
struct SpanStart {
  uint64_t generation;
  uint64_t tsc;
};

// The handlers; `span` is a Span. They use integer registers only.
bool begin_span(Registers& registers, void* span, void* activation) noexcept;
bool end_span(Registers& registers, void* span, void* activation) noexcept;

}  // namespace pinprick::runtime
