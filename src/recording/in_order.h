// Puts the events of a recording into the order of time, up to its end. Pure; not thread-safe.
//
// A recording says up to which time it is complete, and later events wait. A file that pinprick did
// not write might never say so: once 4 million events wait, the earlier half counts as complete.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pinprick::recording {

inline constexpr size_t kMostWaiting = 1 << 22;

// `Kept` is the part of an event that its user needs. Its member `tsc` is the time.
template <class Kept>
class InOrder {
 public:
  // Calls `take` with each event that need not wait any longer.
  template <class Take>
  void add(Kept kept, Take&& take) {
    is_sorted_ = is_sorted_ && (waiting_.empty() || waiting_.back().tsc <= kept.tsc);
    waiting_.push_back(std::move(kept));
    if (waiting_.size() - next_ < kMostWaiting) return;
    size_t remaining = kMostWaiting / 2;
    take_while([&](const Kept&) { return remaining-- != 0; }, take);
  }
  // Events that come more than `ticks` after `tsc` are left out. The earliest of these ends counts.
  void end_after(uint64_t tsc, uint64_t ticks) {
    end_tsc_ = std::min(end_tsc_, tsc + std::min(ticks, UINT64_MAX - tsc));
  }
  // Calls `take` with each event that is earlier than `tsc`.
  template <class Take>
  void take_before(uint64_t tsc, Take&& take) {
    take_while([tsc](const Kept& one) { return one.tsc < tsc; }, take);
  }
  // Calls `take` with all events that wait.
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
    // Each event is moved once on average, however few are taken at a time.
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
