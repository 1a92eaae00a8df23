// Puts what a recording has into the order of time, up to where it ends. Pure; not thread-safe.
//
// Its member `tsc` is the time. A recording says up to when it is complete. One that does not, as
// it was made by another program, may not take all memory: once much waits, the earlier half of it
// is taken to be complete.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pinprick::recording {

inline constexpr size_t kMostWaiting = 1 << 22;

template <class Kept>
class InOrder {
 public:
  // `take` is called with those that do not wait any longer.
  template <class Take>
  void add(Kept kept, Take&& take) {
    is_sorted_ = is_sorted_ && (waiting_.empty() || waiting_.back().tsc <= kept.tsc);
    waiting_.push_back(std::move(kept));
    if (waiting_.size() - next_ < kMostWaiting) return;
    size_t remaining = kMostWaiting / 2;
    take_while([&](const Kept&) { return remaining-- != 0; }, take);
  }
  // What comes more than `ticks` after `tsc` is left out. The earliest of these ends counts.
  void end_after(uint64_t tsc, uint64_t ticks) {
    end_tsc_ = std::min(end_tsc_, tsc + std::min(ticks, UINT64_MAX - tsc));
  }
  // Calls `take` with each one that is earlier than `tsc`.
  template <class Take>
  void take_before(uint64_t tsc, Take&& take) {
    take_while([tsc](const Kept& one) { return one.tsc < tsc; }, take);
  }
  // The same of all.
  template <class Take>
  void take_all(Take&& take) {
    take_while([](const Kept&) { return true; }, take);
  }

 private:
  template <class IsDue, class Take>
  void take_while(IsDue&& is_due, Take&& take) {
    if (!std::exchange(is_sorted_, true))
      std::stable_sort(place(next_), waiting_.end(),
                       [](const Kept& a, const Kept& b) { return a.tsc < b.tsc; });
    for (; next_ != waiting_.size() && is_due(waiting_[next_]); ++next_)
      if (waiting_[next_].tsc <= end_tsc_) take(waiting_[next_]);
    // Few are moved, however often few are taken.
    if (next_ < waiting_.size() / 2) return;
    waiting_.erase(waiting_.begin(), place(next_));
    next_ = 0;
  }
  auto place(size_t number) { return waiting_.begin() + static_cast<std::ptrdiff_t>(number); }

  std::vector<Kept> waiting_;
  size_t next_ = 0;  // those before it were taken
  bool is_sorted_ = true;
  uint64_t end_tsc_ = UINT64_MAX;
};

}  // namespace pinprick::recording
