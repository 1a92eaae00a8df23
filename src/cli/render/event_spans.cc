#include "cli/render/event_spans.h"

namespace pinprick::cli {

std::optional<EventSpans::Ended> EventSpans::add(Event event) {
  const std::pair key(event.thread, event.span);
  if (event.is_start) {
    if (!open_.try_emplace(key, std::move(event)).second) ++figures_.repeated;
    return std::nullopt;
  }
  const auto start = open_.find(key);
  if (start == open_.end()) {
    ++figures_.unmatched;
    return std::nullopt;
  }
  Ended ended = {std::move(start->second), std::move(event)};
  open_.erase(start);
  const uint64_t latency_ns = ended.latency_ns();
  if (latency_ns < limits_.slower_ns || latency_ns > limits_.faster_ns) return std::nullopt;
  return ended;
}

EventSpans::Figures EventSpans::figures() const {
  Figures all = figures_;
  all.open = open_.size();
  return all;
}

}  // namespace pinprick::cli
