// All spans of the program. Each has an index of its own, for the starts that threads keep, and the
// histogram of that index.
//
// A span is freed with its last owner. A later span then gets its index and histogram, and the
// generation tells the two apart. The caller holds the registry's lock. Indices, histograms and
// memory may run out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "library/statistics/histogram_store.h"
#include "runtime/spans.h"

namespace pinprick::library {

struct NewSpan {
  std::shared_ptr<runtime::Span> span;
  uint32_t histogram = 0;
};

class SpanTable {
 public:
  // `histograms` must outlive it.
  explicit SpanTable(HistogramStore& histograms) : histograms_(histograms) {}

  // Makes a span, whose ends the caller places. Returns nullopt if there are no more.
  std::optional<NewSpan> add();

 private:
  struct Entry {
    std::weak_ptr<runtime::Span> span;
    uint64_t generation = 0;
    std::optional<uint32_t> histogram;
  };

  HistogramStore& histograms_;
  std::array<Entry, runtime::kMostSpans> entries_;
};

}  // namespace pinprick::library
