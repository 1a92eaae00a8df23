#include "recording/run_figures.h"

#include <algorithm>
#include <utility>

#include "image/match.h"
#include "recording/expected_time.h"

namespace pinprick::recording {
namespace {

constexpr double kNsPerSecond = 1e9;
// A damaged recording may go on for years; what is left then is one round.
constexpr uint64_t kMostRounds = 1 << 17;

}  // namespace

RunFigures::RunFigures(const Header& header, EndRound end_round)
    : clocks_(header.clocks),
      after_(ticks_of(header.after_ns, header.clocks.ns_multiplier)),
      round_ticks_(std::max<uint64_t>(ticks_of(1'000'000'000, header.clocks.ns_multiplier), 1)),
      is_tree_(header.is_tree),
      end_round_(std::move(end_round)),
      times_(header.clocks.ns_multiplier),
      last_tsc_(header.clocks.tsc) {
  times_.tell_calls([this](const TimedCall& call) { add_call(call); });
}

void RunFigures::event(const session::Event& event) {
  if (event.triggers_end) {
    const uint64_t end = event.tsc + std::min(after_, UINT64_MAX - event.tsc);
    times_.end_at(end);
    hits_.end_at(end);
    return;
  }
  times_.add(event);
  const bool is_entry = is_tree_ && event.has_return_event;
  if (!event.latency_ns && !is_entry && !event.span_part) hits_.add({event.tsc, &event.name});
}

void RunFigures::told_until(uint64_t tsc) {
  times_.told_until(tsc);
  hits_.take_before(tsc, [this](const Hit& hit) { add_hit(hit); });
  if (tsc > clocks_.tsc && tsc != UINT64_MAX) end_rounds_before((tsc - clocks_.tsc) / round_ticks_);
}

void RunFigures::report(const session::Report& report) {
  losses_ += session::losses_of(report.rows);
  told_seconds_ = std::max(told_seconds_, report.seconds);
}

RunFigures::Round& RunFigures::round_of(uint64_t tsc) {
  last_tsc_ = std::max(last_tsc_, tsc);
  const uint64_t number = tsc > clocks_.tsc ? (tsc - clocks_.tsc) / round_ticks_ : 0;
  return rounds_[std::clamp(number, next_round_, kMostRounds)];
}

void RunFigures::add_call(const TimedCall& call) {
  Round& round = round_of(call.tsc);
  has_inner_calls_ = has_inner_calls_ || call.self_ns != call.latency_ns;
  const auto add = [&](Name::Of of, uint64_t ns) {
    Figures& figures = round[{of, call.function.object, call.function.function, {}}];
    ++figures.calls;
    figures.times.record(ns);
    figures.total_ns += ns;
  };
  add(Name::Of::calls, call.latency_ns);
  add(Name::Of::self, call.self_ns);
}

void RunFigures::add_hit(const Hit& hit) {
  const engine::ProbeName& place = *hit.place;
  ++round_of(hit.tsc)[{Name::Of::hits, std::string(place.object),
                       image::name_at(place.function, place.offset), std::string(place.condition)}]
        .calls;
}

void RunFigures::end_rounds_before(uint64_t number) {
  for (; next_round_ < std::min(number, kMostRounds); ++next_round_) {
    const double length =
        static_cast<double>(expected_time(round_ticks_, 0, 0, clocks_.ns_multiplier)) /
        kNsPerSecond;
    const auto round = rounds_.extract(next_round_);
    end_round_(round.empty() ? Round() : round.mapped(), length);
    seconds_ += length;
  }
}

double RunFigures::seconds_until(uint64_t tsc) const {
  return static_cast<double>(expected_time(tsc, clocks_.tsc, 0, clocks_.ns_multiplier)) /
         kNsPerSecond;
}

// What a recording that was cut short lacks is not known, so that it lasts until its last event.
void RunFigures::finish() {
  told_until(UINT64_MAX);
  if (!rounds_.empty()) end_rounds_before(rounds_.rbegin()->first);
  const Round last = rounds_.empty() ? Round() : std::move(rounds_.begin()->second);
  const double until = std::max(told_seconds_, seconds_until(last_tsc_));
  const double length = std::max(until - seconds_, 0.0);
  if (last.empty() && length == 0) return;
  end_round_(last, length);
  seconds_ += length;
}

}  // namespace pinprick::recording
