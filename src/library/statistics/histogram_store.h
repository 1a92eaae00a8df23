// The histograms of our own process, for the times of calls and spans, and the slots of timed
// calls.
//
// Calls are timed as in an attached session, by the same code (runtime/image.h), which runs no
// handler. The memory is allocated when it is first needed, and never freed. The functions that
// make something are for one thread at a time; any thread may read.
#pragma once

#include <cstdint>
#include <optional>

#include "arch/stub.h"
#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "layout/runtime_data.h"
#include "stats/histogram.h"

namespace pinprick::library {

class HistogramStore {
 public:
  static constexpr uint32_t kMostHistograms = 8192;
  static constexpr uint32_t kSlots = 8192;  // how many calls can be timed at once

  // Allocates memory for histograms. To be called before new_histogram().
  Result<void, SystemError> make_histograms();
  // Makes the slots, and allocates memory for histograms. To be called before enter().
  Result<void, SystemError> make_slots();
  Address enter() const { return enter_; }

  // Returns the number of a new histogram; nullopt if there are no more.
  std::optional<uint32_t> new_histogram();

  static arch::Metric metric_of(uint32_t histogram);
  // Offset in a per-CPU area.
  static uint64_t histogram_at(uint32_t histogram);
  stats::Histogram read(uint32_t histogram) const;
  uint64_t missed(uint32_t histogram) const;     // calls without a slot
  uint64_t unwound(uint32_t histogram) const;    // calls left by unwinding
  uint64_t abandoned(uint32_t histogram) const;  // calls whose slot was reused before they returned

 private:
  layout::TimeCounters& counters_of(uint32_t histogram, uint64_t area) const;
  uint64_t sum(uint32_t histogram, uint64_t layout::TimeCounters::*counter) const;

  Address memory_ = 0;
  uint64_t areas_ = 0;
  Address enter_ = 0;
  uint32_t used_ = 0;
};

}  // namespace pinprick::library
