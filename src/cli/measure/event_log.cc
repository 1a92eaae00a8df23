#include "cli/measure/event_log.h"

#include <poll.h>

#include <algorithm>

#include "base/clock.h"
#include "cli/messages/warnings.h"

namespace pinprick::cli {

void EventLog::event(const session::Event& event) {
  if (is_full()) return;
  lines_.push_back({event.tsc, renderer_.line_of(event)});
  bytes_ += lines_.back().text.size();
}

// Whole lines, as many as the output takes at once.
void EventLog::print_before(uint64_t tsc, Wait wait) {
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.tsc < b.tsc; });
  const auto end =
      static_cast<size_t>(std::partition_point(lines_.begin(), lines_.end(),
                                               [&](const Line& one) { return one.tsc < tsc; }) -
                          lines_.begin());
  size_t printed = 0;
  while (printed < end && left_ != 0) {
    const size_t room = renderer_.room();
    if (room == 0 && wait == Wait::no) break;
    if (room == 0 && !wait_for_room()) {
      give_up(lines_.size() - printed);
      break;
    }
    std::string text;
    for (; printed < end && left_ != 0; ++printed) {
      const std::string& line = lines_[printed].text;
      if (room == 0 || (!text.empty() && text.size() + line.size() > room)) break;
      text += line;
      if (left_ != SIZE_MAX) --left_;
    }
    bytes_ -= text.size();
    renderer_.event_lines(text);
    renderer_.flush();
  }
  lines_.erase(lines_.begin(), lines_.begin() + static_cast<ptrdiff_t>(printed));
}

// Returns false if a signal has come, and there is no room for a while.
bool EventLog::wait_for_room() {
  constexpr uint64_t kPatienceNs = 500'000'000;
  constexpr int kPauseMs = 20;
  for (uint64_t until_ns = 0; renderer_.room() == 0;) {
    const bool is_over = interrupts_.arrived() || interrupts_.signal() != 0;
    if (is_over && until_ns == 0) until_ns = monotonic_ns() + kPatienceNs;
    if (is_over && monotonic_ns() > until_ns) return false;
    ::poll(nullptr, 0, kPauseMs);
  }
  return true;
}

void EventLog::give_up(size_t unprinted) {
  renderer_.give_up();
  renderer_.warning(warning::events_not_printed(unprinted));
  left_ = 0;
}

void EventLog::print_due() {
  print_before(looked_tsc_, Wait::no);
  looked_tsc_ = read_tsc();
}

void EventLog::print_all() {
  print_before(UINT64_MAX, Wait::yes);
}

}  // namespace pinprick::cli
