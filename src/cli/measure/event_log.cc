#include "cli/measure/event_log.h"

#include <poll.h>

#include <algorithm>

#include "base/clock.h"
#include "cli/messages/warnings.h"

namespace pinprick::cli {

EventLog::EventLog(const Options& options, Renderer& renderer, Interrupts& interrupts)
    : spans_({options.limits.slower_ns.value_or(0), options.limits.faster_ns.value_or(UINT64_MAX)}),
      left_(options.limit == 0 ? SIZE_MAX : options.limit),
      renderer_(renderer),
      interrupts_(interrupts) {
  if (!options.tree || !renderer.shows_trees()) return;
  CallTree::Limits limits = {.slower_ns = options.limits.slower_ns.value_or(0),
                             .in = options.tree_in,
                             .not_in = options.tree_not_in};
  if (options.depth != 0) limits.depth = options.depth;
  tree_.emplace(std::move(limits));
  due_.push_back(CallTree::heading());
}

static size_t size_of(const CallTree::Event& event) {
  size_t size = sizeof event + event.function.size() + event.call.size() + event.result.size();
  for (const std::string& frame : event.frames) size += sizeof frame + frame.size();
  return size;
}

static size_t size_of(const EventSpans::Event& event) {
  return sizeof event + event.name.size() + event.text.size() + event.frames.size();
}

static size_t size_of(const exports::TraceEvent& event) {
  return sizeof event + event.name.size() + event.details.bytes().size();
}

void EventLog::event(const session::Event& event) {
  if (is_full()) return;
  Line& line = lines_.emplace_back();
  line.tsc = event.tsc;
  if (event.span_part) {
    line.in_span = renderer_.part_of_span(event);
    bytes_ += size_of(*line.in_span);
  } else if (renderer_.writes_timelines()) {
    line.in_timeline = renderer_.part_of_timeline(event);
    bytes_ += size_of(*line.in_timeline);
  } else if (tree_) {
    line.in_tree = renderer_.part_of_tree(event);
    bytes_ += size_of(*line.in_tree);
  } else {
    line.text = renderer_.line_of(event);
    bytes_ += line.text.size();
  }
}

// Makes the text of a line that is due, if it is not known yet: of a span it is empty at its start.
void EventLog::complete(Line& line) {
  if (line.in_tree) {
    bytes_ -= size_of(*line.in_tree);
    line.text = tree_->add(*line.in_tree);
    bytes_ += line.text.size();
  } else if (line.in_timeline) {
    bytes_ -= size_of(*line.in_timeline);
    line.text = renderer_.timeline(*line.in_timeline);
    bytes_ += line.text.size();
  } else if (line.in_span) {
    bytes_ -= size_of(*line.in_span);
    if (const auto ended = spans_.add(std::move(*line.in_span)))
      line.text = renderer_.line_of_span(*ended);
    bytes_ += line.text.size();
  }
}

void EventLog::make_due(uint64_t tsc) {
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.tsc < b.tsc; });
  auto next = lines_.begin();
  for (; next != lines_.end() && next->tsc < tsc && left_ != 0; ++next) {
    complete(*next);
    const bool is_told_by_another = next->in_span && next->text.empty();
    if (!next->text.empty()) due_.push_back(std::move(next->text));
    if (left_ != SIZE_MAX && !is_told_by_another) --left_;
  }
  lines_.erase(lines_.begin(), next);
}

// Whole lines, as many as the output takes at once.
void EventLog::print(Wait wait) {
  while (!due_.empty()) {
    const size_t room = renderer_.room();
    if (room == 0 && wait == Wait::no) break;
    if (room == 0 && !wait_for_room()) return give_up(due_.size() + lines_.size());
    if (room == 0) continue;
    std::string text;
    while (!due_.empty() && text.size() + due_.front().size() <= room) {
      text += due_.front();
      due_.pop_front();
    }
    if (text.empty()) {  // the text has more lines than the output takes
      text = due_.front().substr(0, room);
      due_.front().erase(0, room);
    }
    bytes_ -= std::min(bytes_, text.size());
    renderer_.event_lines(text);
    renderer_.flush();
  }
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
  due_.clear();
  lines_.clear();
}

void EventLog::print_due() {
  make_due(looked_tsc_);
  print(Wait::no);
  looked_tsc_ = read_tsc();
}

void EventLog::print_all() {
  make_due(UINT64_MAX);
  if (tree_)
    if (std::string rest = tree_->finish(); !rest.empty()) due_.push_back(std::move(rest));
  print(Wait::yes);
  if (const auto figures = spans_.figures(); !figures.empty()) renderer_.span_figures(figures);
}

}  // namespace pinprick::cli
