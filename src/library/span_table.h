// The spans that there are, among those of all threads: each has an index of its own, and the
// histogram of that index.
//
// A span ends when nobody holds it any more; its index and histogram then are another's, and the
// generation tells the two apart. The registry's lock is held. Indices, histograms and memory may
// run out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "library/timing.h"
#include "runtime/spans.h"

namespace pinprick::library {

struct NewSpan {
  std::shared_ptr<runtime::Span> span;
  uint32_t histogram = 0;
};

class SpanTable {
 public:
  // `timing` outlives it.
  explicit SpanTable(Timing& timing) : timing_(timing) {}

  // A span whose ends are then to be placed. Nothing: there are no more.
  std::optional<NewSpan> add();

 private:
  struct Place {
    std::weak_ptr<runtime::Span> span;
    uint64_t generation = 0;
    std::optional<uint32_t> histogram;
  };

  Timing& timing_;
  std::array<Place, runtime::kMostSpans> places_;
};

}  // namespace pinprick::library
