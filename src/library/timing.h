// Histograms of one's own process: where the times of calls and spans are kept, and the slots of
// calls that are timed.
//
// Calls are timed as in an attached session, by the same code (runtime/image.h), which needs no
// handler. Made when it is needed first; stays. One thread at a time makes and takes; reading is
// anybody's.
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

class Timing {
 public:
  static constexpr uint32_t kMostHistograms = 8192;
  static constexpr uint32_t kSlots = 8192;  // calls that are timed at once

  // Room for histograms; from then on new_histogram() answers.
  Result<void, SystemError> make_histograms();
  // And slots; from then on enter() does.
  Result<void, SystemError> make_slots();
  Address enter() const { return enter_; }

  // A new one; nothing where there are no more.
  std::optional<uint32_t> new_histogram();

  static arch::Metric metric_of(uint32_t histogram);
  // Offset in a region.
  static uint64_t histogram_at(uint32_t histogram);
  stats::Histogram read(uint32_t histogram) const;
  uint64_t missed(uint32_t histogram) const;     // calls without a slot
  uint64_t unwound(uint32_t histogram) const;    // that were left by unwinding
  uint64_t abandoned(uint32_t histogram) const;  // whose slot was used again before they returned

 private:
  layout::TimeCells& cells_of(uint32_t histogram, uint64_t region) const;
  uint64_t sum(uint32_t histogram, uint64_t layout::TimeCells::*counter) const;

  Address cells_ = 0;
  uint64_t regions_ = 0;
  Address enter_ = 0;
  uint32_t used_ = 0;
};

}  // namespace pinprick::library
