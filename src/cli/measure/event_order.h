// Puts the events of all processes into the order of time.
//
// They come process by process, and those of one process in the order of time. When a turn has read
// all rings, what is older than its start is handed over. Events of the last 10 ms wait for the
// next turn: a virtual CPU may have been away between the clock's reading and the end of the event.
// One whose thread was interrupted while it was recorded, where threads share a ring, may still
// come later, and is handed over then. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "recording/expected_time.h"

namespace pinprick::cli {

enum class EventTurn : bool { one_of_many, last };

// `multiplier` is that of ns_multiplier(), and not 0.
inline uint64_t ticks_in(uint64_t ns, uint64_t multiplier = ns_multiplier()) {
  return recording::ticks_of(ns, multiplier);
}

// `Kept` is the part of an event that its user needs. Its member `tsc` is the time.
template <class Kept>
class EventOrder {
 public:
  // To be called before the rings are read. In the last turn, no thread can be in the midst of an
  // event any more.
  void begin_turn(EventTurn turn) {
    constexpr uint64_t kAwayNs = 10'000'000;
    const uint64_t now = read_tsc();
    complete_tsc_ = turn == EventTurn::last ? now : now - std::min(now, ticks_in(kAwayNs));
  }
  // All events that are older have come, once this turn has read the rings.
  uint64_t complete_tsc() const { return complete_tsc_; }

  void add(Kept event) { waiting_.push_back(std::move(event)); }
  size_t size() const { return waiting_.size(); }
  void clear() { waiting_.clear(); }

  // Hands over what is older, in the order of time. Ends early if `take` returns false; the rest
  // stays.
  template <class Take>
  void take_before(uint64_t tsc, Take&& take) {
    const auto is_earlier = [](const Kept& a, const Kept& b) { return a.tsc < b.tsc; };
    if (!std::is_sorted(waiting_.begin(), waiting_.end(), is_earlier))
      std::stable_sort(waiting_.begin(), waiting_.end(), is_earlier);
    auto next = waiting_.begin();
    bool goes_on = true;
    for (; goes_on && next != waiting_.end() && next->tsc < tsc; ++next) goes_on = take(*next);
    waiting_.erase(waiting_.begin(), next);
  }
  // The same of what is complete: to be called once in each turn, after all processes were read.
  template <class Take>
  void take_due(Take&& take) {
    take_before(complete_tsc_, take);
  }
  // The same of all that there is.
  template <class Take>
  void take_all(Take&& take) {
    take_before(UINT64_MAX, take);
  }

 private:
  std::vector<Kept> waiting_;
  uint64_t complete_tsc_ = 0;
};

}  // namespace pinprick::cli
