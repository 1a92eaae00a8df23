// Sums a recording up, second by second: the distribution of the times of each function's calls,
// with and without the calls in them, and how often other places were hit. Pure; not thread-safe.
//
// A recording may be hostile: beyond 65,536 names all others are one row, `(other)`, and the time
// after the first 36 hours is one round.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "layout/losses.h"
#include "recording/in_order.h"
#include "recording/reader.h"
#include "recording/self_times.h"
#include "stats/histogram.h"

namespace pinprick::recording {

class RunFigures : public Sink {
 public:
  struct Times {
    stats::Histogram histogram = stats::Histogram();
    uint64_t total_ns = 0;
    void add(uint64_t ns) {
      histogram.record(ns);
      total_ns += ns;
    }
  };
  // The calls of a function, or the hits of a place that has no times.
  struct Row {
    std::string object = {}, function = {}, condition = {};
    bool has_times = false;
    uint64_t count = 0;
    Times times = {}, self = {};  // of calls; without the recorded calls in them
  };
  // Takes the rows that were hit in a round, and its length: a second, or less for the last round.
  // The rows are emptied afterwards, so histograms may be moved out of them.
  using EndRound = std::function<void(std::span<Row* const> rows, double seconds)>;

  RunFigures(const Header& header, EndRound end_round);

  // The names of events must outlive this.
  void event(const session::Event& event) override;
  void told_until(uint64_t tsc) override;
  void report(const session::Report& report) override;
  // To be called once, at the end.
  void finish();

  // These return the sums of all rounds.
  double seconds() const { return seconds_; }
  const layout::Losses& losses() const { return losses_; }
  // Returns whether some call lay in another one.
  bool has_inner_calls() const { return self_times_.has_inner_calls(); }

 private:
  struct Kept {
    uint64_t tsc = 0, latency_ns = 0, thread = 0;
    uint32_t row = 0;
  };
  using Name = std::tuple<std::string_view, std::string_view, std::string_view, bool>;
  static Name name_of(const Row& row);
  uint32_t number_of(const engine::ProbeName& probe, bool has_times);
  void take(const Kept& kept);
  void end_round(double seconds);
  void end_rounds_before(uint64_t number);
  uint64_t round_of(uint64_t tsc) const;
  double seconds_of(uint64_t ticks) const;

  Clocks clocks_;
  uint64_t after_, round_ticks_;
  bool is_tree_;
  EndRound end_round_;
  InOrder<Kept> waiting_;
  SelfTimes self_times_;
  std::deque<Row> rows_;  // with the figures of the current round
  std::unordered_map<const void*, uint32_t> by_probe_[2];
  std::map<Name, uint32_t> by_name_;
  std::vector<Row*> hit_;  // in the current round, by their first hits
  uint64_t round_ = 0;     // those before it have ended
  uint64_t last_tsc_;
  double seconds_ = 0, told_seconds_ = 0;
  layout::Losses losses_;
};

}  // namespace pinprick::recording
