#include "cli/measure/event_log.h"

#include <poll.h>

#include <algorithm>

#include "base/clock.h"
#include "base/machine.h"
#include "cli/messages/warnings.h"

namespace pinprick::cli {

// Children that have probes of their own are further processes.
static bool is_of_one_process(const Options& options) {
  return options.files.empty() && !options.follow_children &&
         options.pids.size() + (options.has_command() ? 1 : 0) == 1;
}

EventLog::EventLog(const Options& options, Renderer& renderer, Interrupts& interrupts)
    : spans_({options.limits.slower_ns.value_or(0), options.limits.faster_ns.value_or(UINT64_MAX)}),
      left_(options.limit == 0 ? SIZE_MAX : options.limit),
      awaits_trigger_(!options.until.empty() || options.recorded.has_until),
      ns_multiplier_(options.recorded.ns_multiplier.value_or(ns_multiplier())),
      is_one_process_(is_of_one_process(options)),
      keeps_newest_(options.overwrite),
      after_ns_(options.after_ns),
      renderer_(renderer),
      interrupts_(interrupts) {
  if (!options.tree || !renderer.shows_trees()) return;
  CallTree::Limits limits = {.slower_ns = options.limits.slower_ns.value_or(0),
                             .in = options.tree_in,
                             .not_in = options.tree_not_in};
  if (options.depth != 0) limits.depth = options.depth;
  const auto style = options.event_format == EventFormat::function_graph
                         ? CallTree::Style::function_graph
                         : CallTree::Style::tree;
  tree_.emplace(std::move(limits), style, possible_cpus());
  due_.push_back(tree_->heading());
}

static size_t size_of(const std::string& text) {
  return text.size();
}

static size_t size_of(const CallTree::Event& event) {
  size_t size = event.function.size() + event.call.size() + event.result.size();
  for (const std::string& frame : event.frames) size += sizeof(std::string) + frame.size();
  return size;
}

static size_t size_of(const EventSpans::Event& event) {
  return event.name.size() + event.text.size() + event.frames.size();
}

static size_t size_of(const exports::TraceEvent& event) {
  return event.name.size() + event.details.bytes().size();
}

// Returns the bytes that a line takes, those of the structure included.
size_t EventLog::size_of_line(const Line& line) {
  return sizeof line + std::visit([](const auto& told) { return size_of(told); }, line.told);
}

bool EventLog::is_full() const {
  return left_ == 0 || (until_ns_ != UINT64_MAX && monotonic_ns() >= until_ns_);
}

void EventLog::triggered() {
  is_triggered_ = true;
  if (until_ns_ == UINT64_MAX) until_ns_ = monotonic_ns() + after_ns_;
}

void EventLog::event(const session::Event& event) {
  if (left_ == 0) return;
  if (event.triggers_end) triggered();
  if (renderer_.recorder() != nullptr) return record(event);
  Line line;
  line.tsc = event.tsc;
  line.triggers_end = event.triggers_end;
  if (event.span_part)
    line.told = renderer_.part_of_span(event);
  else if (renderer_.writes_timelines())
    line.told = renderer_.part_of_timeline(event);
  else if (tree_)
    line.told = renderer_.part_of_tree(event);
  else
    line.told = renderer_.line_of(event);
  bytes_ += size_of_line(line);
  lines_.add(std::move(line));
  // Those of one process come in the order of time.
  if (!is_one_process_ || ++events_ % kOften != 0) return;
  lines_.take_before(std::min(event.tsc, lines_.complete_tsc()),
                     [this](Line& due) { return make_due(due); });
  // All rings may have more than there is room for here. In the last turn, no process waits for us.
  print(is_last_turn_ && !has_room() ? Wait::yes : Wait::no);
}

// The reader of the recording finds the order, and where the trace ends.
void EventLog::record(const session::Event& event) {
  recording::Writer& recorder = *renderer_.recorder();
  recorder.add(event);
  if (event.triggers_end) awaits_trigger_ = false;
  if (left_ != SIZE_MAX) --left_;
  if (is_one_process_ && ++events_ % kOften == 0 && lines_.complete_tsc() != 0)
    recorder.told_until(std::min(event.tsc, lines_.complete_tsc()));
  take_chunks(recording::Writer::Rest::waits);
}

void EventLog::take_chunks(recording::Writer::Rest rest) {
  std::string chunks = renderer_.recorder()->take(rest);
  if (chunks.empty()) return;
  bytes_ += chunks.size();
  due_.push_back(std::move(chunks));
}

// The file has all that is older than a second, so it can be read while it grows, and after a
// crash.
void EventLog::end_turn_of_recording() {
  constexpr uint64_t kOftenNs = 1'000'000'000;
  if (lines_.complete_tsc() != 0) renderer_.recorder()->told_until(lines_.complete_tsc());
  const uint64_t now = monotonic_ns();
  if (now - flushed_ns_ < kOftenNs) return;
  flushed_ns_ = now;
  take_chunks(recording::Writer::Rest::comes);
}

// Returns the text of a line that is due, to be called once: of a span it is empty at its start.
std::string EventLog::text_of(Line& line) {
  bytes_ -= size_of_line(line);
  std::string text;
  if (auto* in_tree = std::get_if<CallTree::Event>(&line.told)) {
    text = tree_->add(*in_tree);
  } else if (auto* in_timeline = std::get_if<exports::TraceEvent>(&line.told)) {
    text = renderer_.timeline(*in_timeline);
  } else if (auto* in_span = std::get_if<EventSpans::Event>(&line.told)) {
    if (const auto ended = spans_.add(std::move(*in_span))) text = renderer_.line_of_span(*ended);
  } else {
    text = std::move(std::get<std::string>(line.told));
  }
  bytes_ += text.size();
  return text;
}

// Returns whether another one may become due.
bool EventLog::make_due(Line& line) {
  if (line.triggers_end && awaits_trigger_) {
    awaits_trigger_ = false;
    last_tsc_ = line.tsc + std::min(ticks_in(after_ns_, ns_multiplier_), UINT64_MAX - line.tsc);
  }
  if (line.tsc > last_tsc_) left_ = 0;
  if (left_ == 0) return false;
  const bool in_span = std::holds_alternative<EventSpans::Event>(line.told);
  std::string text = text_of(line);
  const bool is_told_by_another = in_span && text.empty();
  if (!text.empty()) due_.push_back(std::move(text));
  if (left_ != SIZE_MAX && !is_told_by_another) --left_;
  return left_ != 0;
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
  renderer_.warning(renderer_.recorder() != nullptr ? warning::recording_not_written()
                                                    : warning::events_not_printed(unprinted));
  left_ = 0;
  due_.clear();
  lines_.clear();
}

void EventLog::go_on() {
  if (renderer_.recorder() != nullptr) end_turn_of_recording();
  lines_.take_due([this](Line& line) { return make_due(line); });
  print(Wait::no);
}

void EventLog::print_before(uint64_t tsc) {
  lines_.take_before(tsc, [this](Line& line) { return make_due(line); });
  print(Wait::yes);
}

void EventLog::finish() {
  if (renderer_.recorder() != nullptr) take_chunks(recording::Writer::Rest::comes);
  lines_.take_all([this](Line& line) { return make_due(line); });
  // With --limit, a recording may not have been read up to that event.
  if (awaits_trigger_ && !is_triggered_ && left_ != 0)
    renderer_.warning(warning::never_triggered());
  if (tree_)
    if (std::string rest = tree_->finish(); !rest.empty()) due_.push_back(std::move(rest));
  print(Wait::yes);
  if (const auto figures = spans_.figures(); !figures.empty()) renderer_.span_figures(figures);
}

}  // namespace pinprick::cli
