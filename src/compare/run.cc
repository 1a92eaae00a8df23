#include "compare/run.h"

#include <algorithm>
#include <cmath>

#include "stats/typical.h"

namespace pinprick::compare {
namespace {

void add_histogram(stats::Histogram& sum, const stats::Histogram& added) {
  if (sum.cells().empty() && added.bits() <= sum.bits()) {
    sum = added;
    return;
  }
  const unsigned bits = std::min(sum.bits(), added.bits());
  if (sum.bits() != bits) sum = stats::coarser(sum, bits);
  sum.merge(stats::coarser(added, bits));
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double per_second(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

}  // namespace

void RowFigures::add(const Figures& figures) {
  RowFigures added;
  added.calls = figures.calls;
  added.histogram = figures.histogram;
  added.negative = figures.negative;
  added.total = figures.total;
  added.sum = figures.sum;
  add(added);
}

void RowFigures::add(const RowFigures& figures) {
  const bool is_first = calls == 0;
  calls += figures.calls;
  if (is_first && histogram.cells().empty())
    histogram = figures.histogram;
  else
    add_histogram(histogram, figures.histogram);
  negative += figures.negative;
  total += figures.total;
  sum += figures.sum;
}

Observation observation_of(const RowFigures& figures, double seconds) {
  constexpr uint64_t kEnoughForTail = 500;
  const auto calls = static_cast<double>(figures.calls);
  Observation result = {
      0, seconds, calls, per_second(calls, seconds), per_second(figures.sum, seconds), {}, {}, {}};
  if (const uint64_t values = figures.histogram.count(); values != 0)
    result.mean = figures.total / static_cast<double>(values);
  if (const auto typical = stats::typical(figures.histogram))
    result.typical = typical->mean;
  else if (figures.histogram.count() == 1)
    result.typical = figures.histogram.sum();
  if (figures.histogram.count() >= kEnoughForTail) result.p99 = quantile(figures, 0.99);
  return result;
}

std::optional<double> quantile(const RowFigures& figures, double p) {
  const auto others = static_cast<double>(figures.histogram.count());
  const auto negative = static_cast<double>(figures.negative);
  if (others == 0) return std::nullopt;
  const double rank = p * (others + negative) - negative;
  if (rank < 0) return std::nullopt;
  return static_cast<double>(figures.histogram.quantile(rank / others));
}

// The last interval ends when the measurement does, so it may be too short to say anything.
size_t Run::compared_intervals() const {
  constexpr double kShort = 0.5;
  const double least = kShort * median_of(intervals);
  return intervals.empty() || intervals.back() >= least ? intervals.size() : intervals.size() - 1;
}

void RunBuilder::Rows::add(const Figures& figures) {
  has_any_ = true;
  if (figures.is_partial && figures.is_final) ++partial_;
  if (figures.is_final)
    add_final(figures);
  else
    add_to_round(figures);
}

// A process that has executed several programs has a report of each, one after the other.
void RunBuilder::Rows::add_final(const Figures& figures) {
  has_final_ = true;
  rows_[figures.name].add(figures);
  losses_ += figures.losses;
  const Source source = {figures.pid, figures.name.measure, figures.name.kind};
  const auto last = last_lengths_.find(source);
  if (last != last_lengths_.end() && last->second == figures.seconds) return;
  last_lengths_[source] = figures.seconds;
  all_lengths_[source] += figures.seconds;
}

void RunBuilder::Rows::add_to_round(const Figures& figures) {
  const Source source = {figures.pid, figures.name.measure, figures.name.kind};
  const auto length = lengths_now_.find(source);
  if (length != lengths_now_.end() && length->second != figures.seconds) end_round();
  lengths_now_[source] = figures.seconds;
  Now& now = now_[figures.name];
  now.figures.add(figures);
  now.calls_per_second += per_second(static_cast<double>(figures.calls), figures.seconds);
  now.sum_per_second += per_second(figures.sum, figures.seconds);
  now.seconds = std::max(now.seconds, figures.seconds);
  losses_of_rounds_ += figures.losses;
}

void RunBuilder::Rows::end_round() {
  double length = 0;
  for (const auto& [source, seconds] : lengths_now_) length = std::max(length, seconds);
  for (auto& [name, now] : now_) {
    Observation observation = observation_of(now.figures, now.seconds);
    observation.round = rounds_.size();
    observation.calls_per_second = now.calls_per_second;
    observation.sum_per_second = now.sum_per_second;
    RowFigures& row = rows_of_rounds_[name];
    row.intervals.push_back(observation);
    row.add(now.figures);
  }
  rounds_.push_back(length);
  now_.clear();
  lengths_now_.clear();
}

void RunBuilder::Rows::move_to(Run& run) {
  if (!now_.empty()) end_round();
  if (has_final_)
    for (auto& [name, row] : rows_of_rounds_) rows_[name].intervals = std::move(row.intervals);
  run.intervals = rounds_;
  run.rows = std::move(has_final_ ? rows_ : rows_of_rounds_);
  run.losses = has_final_ ? losses_ : losses_of_rounds_;
  run.has_no_end = !has_final_;
  run.partial_rows = partial_;
  for (const auto& [source, seconds] : all_lengths_) run.seconds = std::max(run.seconds, seconds);
  if (!has_final_)
    for (const double seconds : rounds_) run.seconds += seconds;
}

void RunBuilder::add(const Record& record) {
  if (first_type_.empty() || first_type_ == "warning") first_type_ = record.type;
  if (record.type == "armed" && command_.empty()) {
    command_ = record.command;
    starts_command_ = record.starts_command;
  }
  if (record.type == "error") error_ = record.message;
  if (record.has_ended) has_ended_ = true;
  if (record.type == "skipped") skipped_.emplace(record.object, record.function);
  if (record.figures) (record.figures->pid == 0 ? sums_ : processes_).add(*record.figures);
}

Run RunBuilder::finish() {
  Run run;
  (sums_.has_any() ? sums_ : processes_).move_to(run);
  run.command = command_;
  run.skipped = std::move(skipped_);
  run.is_program = starts_command_ && has_ended_;
  return run;
}

}  // namespace pinprick::compare
