// Puts what a recording has into the order of time, up to where it ends. Pure; not thread-safe.
//
// Its member `tsc` is the time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace pinprick::recording {

template <class Kept>
class InOrder {
 public:
  void add(Kept kept) { waiting_.push_back(std::move(kept)); }
  // What is later is left out. The earliest of these ends counts.
  void end_at(uint64_t tsc) { end_tsc_ = std::min(end_tsc_, tsc); }
  // Calls `take` with each one that is earlier than `tsc`.
  template <class Take>
  void take_before(uint64_t tsc, Take&& take) {
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [](const Kept& a, const Kept& b) { return a.tsc < b.tsc; });
    auto next = waiting_.begin();
    for (; next != waiting_.end() && next->tsc < tsc; ++next)
      if (next->tsc <= end_tsc_) take(*next);
    waiting_.erase(waiting_.begin(), next);
  }

 private:
  std::vector<Kept> waiting_;
  uint64_t end_tsc_ = UINT64_MAX;
};

}  // namespace pinprick::recording
