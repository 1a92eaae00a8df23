// What one of several attachments has of a count that all of them at a site share: what was counted
// while it was enabled.
//
// The count itself only grows, and stays with the site. A share is told the count at the moment
// from which on it counts, and at the moment from which on it does not. Values; pure, and cannot
// fail. The caller holds the registry's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "stats/histogram.h"

namespace pinprick::library {

// What the timed calls of a site were counted as.
struct Timings {
  stats::Histogram times = stats::Histogram();
  uint64_t missed = 0, unwound = 0, abandoned = 0;
};

// Returns what was counted between two moments. Not below zero: the parts of a count, one for each
// CPU, are not read at the same moment.
inline uint64_t difference(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}
inline Timings difference(const Timings& now, const Timings& before) {
  return {now.times.since(before.times), difference(now.missed, before.missed),
          difference(now.unwound, before.unwound), difference(now.abandoned, before.abandoned)};
}
inline void add(uint64_t& to, uint64_t more) {
  to += more;
}
inline void add(Timings& to, const Timings& more) {
  to.times.merge(more.times);
  to.missed += more.missed;
  to.unwound += more.unwound;
  to.abandoned += more.abandoned;
}

template <class T>
class Share {
 public:
  // Begins anew, with nothing. It counts only once it is started.
  void reset(const T& now) {
    others_ = now;
    stopped_at_ = now;
  }
  void start(const T& now) {
    if (!stopped_at_) return;
    add(others_, difference(now, *stopped_at_));
    stopped_at_.reset();
  }
  void stop(T now) {
    if (!stopped_at_) stopped_at_ = std::move(now);
  }
  // Returns what of the count is its own.
  T of(const T& now) const { return difference(stopped_at_ ? *stopped_at_ : now, others_); }

 private:
  T others_{};                         // counted while it did not count
  std::optional<T> stopped_at_ = T{};  // nullopt: it counts
};

}  // namespace pinprick::library
