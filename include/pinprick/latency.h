// Latency, Span: how long calls take, and how long it takes from one site to another, in one's own
// process. Histograms, without a handler.
//
//     auto reads = pinprick::Latency::place("libc:read");
//     ...
//     const pinprick::Histogram times = reads->snapshot();
//     std::cout << times.quantile(0.99) << " ns\n";
//
// All functions here may be called from any thread and from handlers, but not from signal handlers.
// A Latency or a Span that was moved from measures nothing: its histogram is empty, and its counts
// are zero.
// Times are measured with the processor's time stamp counter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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

// A snapshot of times in nanoseconds. Log-linear: 8 slots for each power of two, so that results
// are exact to 12.5%. Copies are cheap. Like any value, it is not synchronised.
class Histogram {
 public:
  Histogram();  // empty
  // Moving copies it, so that one that was moved from is as good as before.
  Histogram(const Histogram&) = default;
  Histogram& operator=(const Histogram&) = default;

  uint64_t count() const;  // of times
  uint64_t sum() const;
  double mean() const;  // 0 if empty
  // Returns the time below which the fraction p (0..1) of all times lies; 0 if empty.
  uint64_t quantile(double p) const;
  uint64_t maximum() const;  // upper bound of the longest time
  // Returns what was recorded after `earlier`, an older snapshot of the same Latency or Span. If
  // `earlier` is not older, slots that have more there count as empty.
  Histogram since(const Histogram& earlier) const;

  struct Slot {
    uint64_t from = 0, to = 0;  // from <= time < to
    uint64_t count = 0;
  };
  std::vector<Slot> slots() const;  // the non-empty ones, ascending

 private:
  friend class Latency;
  friend class Span;
  explicit Histogram(stats::Histogram times);
  std::shared_ptr<const stats::Histogram> times_;
};

// Times each call of a function, from after the handlers of probes at its entry to its return.
// Unlike for handlers, calls that a handler or the library itself makes are timed, too.
//
// Exceptions, cancellation and backtraces work through timed calls. A call that ends in one of
// these ways is counted as unwound. A call that longjmp leaves is counted as abandoned, once its
// slot is needed again. Calls that started before place() are not timed. A function that cannot
// have a return probe cannot be timed.
class Latency {
 public:
  // Places a probe that times the function. On error nothing has changed, and error().cause says
  // why (error.h).
  static Result<Latency, Error> place(Where where, PlaceOptions options = {});
  // Places all of them, or none. find_functions() returns those that a pattern matches.
  static Result<std::vector<Latency>, Error> place(std::vector<Where> where,
                                                   PlaceOptions options = {});
  // Places those that can be placed, as Probe::place_possible().
  static Result<PlacedSome<Latency>, Error> place_possible(std::vector<Where> where,
                                                           PlaceOptions options = {});
  static void remove(std::vector<Latency> latencies);  // as Probe::remove()

  Latency(Latency&&) noexcept;
  Latency& operator=(Latency&&) noexcept;
  ~Latency();

  // As for a Probe. A call that returns while it is disabled is not in the histogram.
  Result<void, Error> enable();
  Result<void, Error> disable();
  static Result<void, Error> enable(std::span<Latency> latencies);
  static Result<void, Error> disable(std::span<Latency> latencies);

  const void* address() const;  // of the function's first probed instruction
  std::string name() const;     // as a Probe's
  // As for a Probe.
  Placement placement() const;
  NoJump why_no_jump() const;
  // Returns the times of the calls that returned while it was enabled. They may include calls that
  // were running when it was disabled, or when an earlier Latency on this function was removed.
  Histogram snapshot() const;
  // These return numbers of calls while it was enabled that the histogram does not have.
  uint64_t missed() const;     // no slot was free: more than 8192 calls at once in the process
  uint64_t unwound() const;    // ended by an exception or the like
  uint64_t abandoned() const;  // left by longjmp, as far as is known yet

 private:
  explicit Latency(detail::LatencyState* state) : state_(state) {}
  detail::LatencyState* state_;
};

struct SpanSpec {
  Where from;
  Where to;                       // may equal `from`: the time from one hit to the next
  bool allow_breakpoint = false;  // as for a Probe
};

// Measures the time from a hit of one site to the next hit of another on the same thread. If `from`
// is hit several times before `to`, the time counts from the latest hit. At most 256 spans exist at
// once in a process.
class Span {
 public:
  // Places the probes of both ends, or none. Fails with Cause::too_many if there are 256 spans,
  // else as Probe::place().
  static Result<Span, Error> place(SpanSpec spec);

  Span(Span&&) noexcept;
  Span& operator=(Span&&) noexcept;
  ~Span();

  Histogram snapshot() const;         // the times since place()
  uint64_t unmatched_starts() const;  // `from` was hit again before `to`
  uint64_t unmatched_ends() const;    // `to` was hit without a `from`
  uint64_t missed() const;            // hits of either site that a handler or the library caused
  uint64_t missed(Miss why) const;

 private:
  explicit Span(std::unique_ptr<detail::SpanState> state);
  std::unique_ptr<detail::SpanState> state_;
};

}  // namespace pinprick
