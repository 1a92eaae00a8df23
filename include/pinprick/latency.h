// How long calls, and ways from one site to another, take in one's own process: histograms, without
// any handler.
//
//     auto reads = pinprick::Latency::place("libc:read");
//     ...
//     const pinprick::Histogram times = reads->snapshot();
//     std::cout << times.quantile(0.99) << " ns\n";
//
// Functions here may be called from where those of probe.h may be. Times are measured with the
// processor's time stamp counter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pinprick/error.h"
#include "pinprick/probe.h"

namespace pinprick {

namespace stats {
class Histogram;
}
namespace detail {
struct LatencyState;
struct SpanState;
}  // namespace detail

// Times in nanoseconds, as they were when it was taken. Log-linear: 8 slots for each power of two,
// so that what it answers is exact to 12.5%. Copies are cheap.
class Histogram {
 public:
  Histogram();  // empty

  uint64_t count() const;
  uint64_t sum() const;
  double mean() const;  // 0 if empty
  // The time below which the fraction p (0..1) of all lies; 0 if empty.
  uint64_t quantile(double p) const;
  uint64_t maximum() const;  // not less than the longest one
  // What came since `earlier`, an older state of the same histogram.
  Histogram since(const Histogram& earlier) const;

  struct Slot {
    uint64_t from = 0, to = 0;  // from <= time < to
    uint64_t count = 0;
  };
  std::vector<Slot> slots() const;  // those that are not empty, ascending

 private:
  friend class Latency;
  friend class Span;
  explicit Histogram(stats::Histogram times);
  std::shared_ptr<const stats::Histogram> times_;
};

// Times each call of a function, from behind the handlers of probes at its entry to its return.
// Other than with handlers, calls from handlers and from the library itself are timed, too.
//
// Exceptions, cancellation and backtraces find their way through timed calls; a call that ends so
// is counted as unwound. One that longjmp leaves is counted as abandoned, when what it holds is
// needed again. Calls that began before it was placed are not timed. What cannot be return probed
// cannot be timed.
class Latency {
 public:
  static Result<Latency, Error> place(Where where);
  // All of them, or none. find_functions() has those that a pattern means.
  static Result<std::vector<Latency>, Error> place(std::vector<Where> where);
  static void remove(std::vector<Latency> latencies);

  Latency(Latency&&) noexcept;
  Latency& operator=(Latency&&) noexcept;
  ~Latency();

  const void* address() const;
  std::string name() const;
  // Since it was placed. Calls that were under way when one before it was removed may be among
  // them.
  Histogram snapshot() const;
  uint64_t missed() const;     // calls beyond 8192 at once, in the process
  uint64_t unwound() const;    // by exceptions and the like: not in the histogram
  uint64_t abandoned() const;  // as far as it is known

 private:
  explicit Latency(detail::LatencyState* state) : state_(state) {}
  detail::LatencyState* state_;
};

struct SpanSpec {
  Where from;
  Where to;                       // may be the same: the time from one hit to the next
  bool allow_breakpoint = false;  // as of a probe
};

// The time from a hit of one site to the next hit of another, in the same thread: from the latest
// `from`, where several come before a `to`. At most 256 at once in a process.
class Span {
 public:
  static Result<Span, Error> place(SpanSpec spec);

  Span(Span&&) noexcept;
  Span& operator=(Span&&) noexcept;
  ~Span();

  Histogram snapshot() const;
  uint64_t unmatched_starts() const;  // another one came before the end
  uint64_t unmatched_ends() const;    // without a start
  uint64_t missed() const;            // hits of either site that came from a handler or the library

 private:
  explicit Span(std::unique_ptr<detail::SpanState> state);
  std::unique_ptr<detail::SpanState> state_;
};

}  // namespace pinprick
