#include "library/statistics/span_table.h"

#include <utility>

namespace pinprick::library {

std::optional<NewSpan> SpanTable::add() {
  if (!histograms_.make_histograms()) return std::nullopt;
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (!entry.span.expired()) continue;
    if (!entry.histogram) entry.histogram = histograms_.new_histogram();
    if (!entry.histogram) return std::nullopt;
    auto span = std::make_shared<runtime::Span>();
    span->index = i;
    span->generation = ++entry.generation;
    span->histogram = HistogramStore::histogram_at(*entry.histogram);
    entry.span = span;
    return NewSpan{std::move(span), *entry.histogram};
  }
  return std::nullopt;
}

}  // namespace pinprick::library
