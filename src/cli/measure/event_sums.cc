#include "cli/measure/event_sums.h"

#include <algorithm>
#include <utility>

#include "layout/losses.h"
#include "session/results.h"

namespace pinprick::cli {

void EventSums::add(const session::Report& report) {
  const uint64_t dropped = session::losses_of(report.rows)[layout::Loss::dropped];
  if (report.is_final && final_.empty()) seconds_ = interval_s_ = 0, dropped_ = 0;
  if (report.is_final)
    seconds_ = std::max(seconds_, report.seconds);
  else
    interval_s_ = std::max(interval_s_, report.seconds);
  dropped_ += dropped;
  has_entries_ = has_entries_ || std::any_of(report.rows.begin(), report.rows.end(),
                                             [](const auto& row) { return !row.name.at_return; });
  if (report.is_final) final_.push_back(report);
}

double EventSums::end_turn() {
  seconds_ += std::exchange(interval_s_, 0);
  return seconds_;
}

}  // namespace pinprick::cli
