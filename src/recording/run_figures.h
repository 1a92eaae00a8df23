// What a recording says of a measurement as a whole: the distribution of the times of each
// function's calls, with and without the calls in them, and how often other places were hit; second
// by second. Pure; not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "layout/losses.h"
#include "recording/function_times.h"
#include "recording/reader.h"
#include "stats/histogram.h"

namespace pinprick::recording {

class RunFigures : public Sink {
 public:
  // Identifies what has figures of its own.
  struct Name {
    enum class Of : uint8_t {
      calls,  // their times
      self,   // their times without the recorded calls in them
      hits,   // of a place that has no time
    } of = Of::calls;
    std::string object, function, condition;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  struct Figures {
    uint64_t calls = 0;  // or hits
    stats::Histogram times;
    uint64_t total_ns = 0;
  };
  using Round = std::map<Name, Figures>;
  // Takes the figures of a second, and how long it was: the last one may be shorter.
  using EndRound = std::function<void(const Round& round, double seconds)>;

  RunFigures(const Header& header, EndRound end_round);

  void event(const session::Event& event) override;
  void told_until(uint64_t tsc) override;
  void report(const session::Report& report) override;
  // To be called once, at the end.
  void finish();

  // Of all rounds.
  double seconds() const { return seconds_; }
  const layout::Losses& losses() const { return losses_; }
  // Did a call lie in another one?
  bool has_inner_calls() const { return has_inner_calls_; }

 private:
  struct Hit {
    uint64_t tsc = 0;
    const engine::ProbeName* place = nullptr;
  };
  void add_call(const TimedCall& call);
  void add_hit(const Hit& hit);
  Round& round_of(uint64_t tsc);
  void end_rounds_before(uint64_t number);
  double seconds_until(uint64_t tsc) const;

  Clocks clocks_;
  uint64_t after_, round_ticks_;
  bool is_tree_, has_inner_calls_ = false;
  EndRound end_round_;
  FunctionTimes times_;
  InOrder<Hit> hits_;
  std::map<uint64_t, Round> rounds_;  // that have not ended
  uint64_t next_round_ = 0;           // those before it have ended
  uint64_t last_tsc_;
  double seconds_ = 0, told_seconds_ = 0;
  layout::Losses losses_;
};

}  // namespace pinprick::recording
