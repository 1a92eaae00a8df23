#include "cli/measure/event_log.h"

#include <algorithm>

#include "base/clock.h"

namespace pinprick::cli {

void EventLog::event(const session::Event& event) {
  if (!is_full()) lines_.push_back({event.tsc, renderer_.line_of(event)});
}

void EventLog::print_before(uint64_t tsc) {
  if (lines_.empty() || is_full()) return;
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.tsc < b.tsc; });
  const auto end = std::partition_point(lines_.begin(), lines_.end(),
                                        [&](const Line& one) { return one.tsc < tsc; });
  const auto due = std::min(left_, static_cast<size_t>(end - lines_.begin()));
  std::string text;
  for (size_t i = 0; i < due; ++i) text += lines_[i].text;
  left_ -= left_ == SIZE_MAX ? 0 : due;
  if (due != 0) renderer_.event_lines(text);
  lines_.erase(lines_.begin(), lines_.begin() + static_cast<ptrdiff_t>(due));
}

void EventLog::print_due() {
  print_before(looked_tsc_);
  looked_tsc_ = read_tsc();
}

void EventLog::print_all() {
  print_before(UINT64_MAX);
}

}  // namespace pinprick::cli
