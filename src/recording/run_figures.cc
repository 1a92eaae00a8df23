#include "recording/run_figures.h"

#include <algorithm>
#include <utility>

#include "image/match.h"
#include "recording/expected_time.h"
#include "session/thread_identity.h"

namespace pinprick::recording {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
// A damaged recording may claim to last for years: the time after these rounds is one more.
constexpr uint64_t kMostRounds = 1 << 17;

}  // namespace

RunFigures::RunFigures(const Header& header, EndRound end_round)
    : clocks_(header.clocks),
      after_(ticks_of(header.after_ns, header.clocks.ns_multiplier)),
      round_ticks_(std::max<uint64_t>(ticks_of(kSecondNs, header.clocks.ns_multiplier), 1)),
      is_tree_(header.is_tree),
      end_round_(std::move(end_round)),
      last_tsc_(header.clocks.tsc) {}

RunFigures::Name RunFigures::name_of(const Row& row) {
  return {row.object, row.function, row.condition, row.has_times};
}

// Several probes, such as those of two instances of an object, may have one name.
uint32_t RunFigures::number_of(const engine::ProbeName& probe, bool has_times) {
  constexpr size_t kMostNames = 1 << 16;
  const auto [known, is_new] = by_probe_[has_times ? 1 : 0].try_emplace(&probe);
  if (!is_new) return known->second;
  Row row;
  row.function = "(other)";
  row.has_times = has_times;
  if (rows_.size() < kMostNames) {
    row.object = probe.object;
    row.function =
        has_times ? std::string(probe.function) : image::name_at(probe.function, probe.offset);
    if (!has_times) row.condition = probe.condition;
  }
  const auto same = by_name_.find(name_of(row));
  if (same != by_name_.end()) return known->second = same->second;
  known->second = static_cast<uint32_t>(rows_.size());
  rows_.push_back(std::move(row));
  by_name_.emplace(name_of(rows_.back()), known->second);
  return known->second;
}

void RunFigures::event(const session::Event& event) {
  if (event.triggers_end) return waiting_.end_after(event.tsc, after_);
  const bool is_entry = is_tree_ && event.has_return_event && !event.latency_ns;
  if (is_entry || event.span_part) return;
  waiting_.add({.tsc = event.tsc,
                .latency_ns = event.latency_ns.value_or(0),
                .thread = identity_of_thread(event),
                .row = number_of(event.name, event.latency_ns.has_value())},
               [this](const Kept& kept) { take(kept); });
}

// Rounds in which nothing happens end, too.
void RunFigures::told_until(uint64_t tsc) {
  waiting_.take_before(tsc, [this](const Kept& kept) { take(kept); });
  end_rounds_before(round_of(tsc));
}

void RunFigures::report(const session::Report& report) {
  losses_ += session::losses_of(report.rows);
  told_seconds_ = std::max(told_seconds_, report.seconds);
}

uint64_t RunFigures::round_of(uint64_t tsc) const {
  return tsc > clocks_.tsc ? std::min((tsc - clocks_.tsc) / round_ticks_, kMostRounds) : 0;
}

void RunFigures::take(const Kept& kept) {
  last_tsc_ = std::max(last_tsc_, kept.tsc);
  end_rounds_before(round_of(kept.tsc));
  Row& row = rows_[kept.row];
  if (row.count++ == 0) hit_.push_back(&row);
  if (!row.has_times) return;
  const uint64_t began =
      kept.tsc - std::min(kept.tsc, ticks_of(kept.latency_ns, clocks_.ns_multiplier));
  row.times.add(kept.latency_ns);
  row.self.add(self_times_.take(kept.thread, began, kept.tsc, kept.latency_ns));
}

void RunFigures::end_round(double seconds) {
  end_round_(hit_, seconds);
  for (Row* const row : std::exchange(hit_, {})) {
    row->count = 0;
    row->times = row->self = Times();
  }
  seconds_ += seconds;
}

void RunFigures::end_rounds_before(uint64_t number) {
  for (; round_ < number; ++round_) end_round(seconds_of(round_ticks_));
}

double RunFigures::seconds_of(uint64_t ticks) const {
  return static_cast<double>(expected_time(ticks, 0, 0, clocks_.ns_multiplier)) /
         static_cast<double>(kSecondNs);
}

// A recording that was cut short does not say how long it lasted, so it ends with its last event.
void RunFigures::finish() {
  waiting_.take_all([this](const Kept& kept) { take(kept); });
  const double until =
      std::max(told_seconds_, seconds_of(last_tsc_ - std::min(last_tsc_, clocks_.tsc)));
  const double length = std::max(until - seconds_, 0.0);
  if (!hit_.empty() || length != 0) end_round(length);
}

}  // namespace pinprick::recording
