#include "library/span_table.h"

#include <utility>

namespace pinprick::library {

std::optional<NewSpan> SpanTable::add() {
  if (!histograms_.make_histograms()) return std::nullopt;
  for (uint32_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (!place.span.expired()) continue;
    if (!place.histogram) place.histogram = histograms_.new_histogram();
    if (!place.histogram) return std::nullopt;
    auto span = std::make_shared<runtime::Span>();
    span->index = i;
    span->generation = ++place.generation;
    span->histogram = HistogramStore::histogram_at(*place.histogram);
    place.span = span;
    return NewSpan{std::move(span), *place.histogram};
  }
  return std::nullopt;
}

}  // namespace pinprick::library
