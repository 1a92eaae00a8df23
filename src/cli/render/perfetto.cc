#include "cli/render/perfetto.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/render/event_text.h"

namespace pinprick::cli {
namespace {

void add_value(const session::EventValue& value, exports::TraceDetails& details) {
  using Kind = session::EventValue::Kind;
  const std::string_view name = name_of(value);
  switch (value.kind) {
    case Kind::number:
      return details.add(name, value.number);
    case Kind::signed_number:
      return details.add(name, static_cast<int64_t>(value.number));
    case Kind::hexadecimal:
      return details.add_pointer(name, value.number);
    case Kind::error:
      return details.add(name, std::string_view(error_text(value.number)));
    case Kind::words:
    case Kind::code:
      return details.add(name, value.words);
    case Kind::cut:
      return details.add(name, std::string(value.words) + "...");
    case Kind::none:
    case Kind::floating:
    case Kind::members:
    case Kind::elements:
      return details.add(name, std::string_view(shown_value(value)));
    case Kind::unread:
      return details.add(name, std::string_view("?"));
    case Kind::other:
      return details.add(name, std::string_view("(no room)"));
    case Kind::stack:
      return details.add_stack(split_lines(value.words));
  }
}

exports::TraceDetails details_of(const session::Event& event) {
  exports::TraceDetails details;
  if (const auto words = in_words(event)) details.add("text", std::string_view(*words));
  for (const session::EventValue& one : event.values)
    if (one.format == nullptr || one.format->has_value) add_value(one, details);
  return details;
}

}  // namespace

// The clocks are read at one moment, as far as that can be: the shortest of several looks counts.
PerfettoRenderer::PerfettoRenderer(TextRenderer text, const std::string& path, bool makes_tree)
    : ExportRenderer(std::move(text), exports::Format::perfetto, path), makes_tree_(makes_tree) {
  constexpr int kLooks = 10;
  exports::ClockReading best;
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < kLooks; ++i) {
    const uint64_t first = read_tsc();
    const exports::ClockReading now = {boottime_ns(), monotonic_ns(), realtime_ns()};
    const uint64_t passed = read_tsc() - first;
    if (passed >= shortest) continue;
    shortest = passed;
    best = now;
    first_tsc_ = first + passed / 2;
  }
  first_ns_ = best.boottime;
  trace_ = std::make_unique<exports::PerfettoTrace>(best);
}

// At one rate, which latencies have as well: calls stay within the calls that they lie in.
uint64_t PerfettoRenderer::boottime_of(uint64_t tsc) const {
  __extension__ using Wide = unsigned __int128;
  const auto at_rate = [](uint64_t ticks) {
    return static_cast<uint64_t>(Wide{ticks} * ns_multiplier() >> 32);
  };
  return tsc >= first_tsc_ ? first_ns_ + at_rate(tsc - first_tsc_)
                           : first_ns_ - at_rate(first_tsc_ - tsc);
}

exports::TraceEvent PerfettoRenderer::part_of_timeline(const session::Event& event) const {
  using Of = exports::TraceEvent::Of;
  const bool is_entry = makes_tree_ && event.has_return_event;
  return {
      .thread = {event.process.pid, event.tid, event.process.command, std::string(event.command)},
      .of = event.triggers_end     ? Of::point
            : event.name.at_return ? (makes_tree_ ? Of::ret : Of::call)
            : is_entry             ? Of::entry
                                   : Of::point,
      .name = (event.triggers_end ? "until " : "") + text_of(event.name),
      .time_ns = boottime_of(event.tsc),
      .latency_ns = event.latency_ns.value_or(0),
      .stack_pointer = event.stack_pointer,
      .details = details_of(event)};
}

// The texts of both ends are what the span needs of them: details and names.
EventSpans::Event PerfettoRenderer::part_of_span(const session::Event& event) const {
  return {
      .thread = identity_of_thread(event),
      .span = event.span_part->span,
      .is_start = event.span_part->is_start,
      .time_ns = boottime_of(event.tsc),
      .name = text_of(event.name),
      .text = event.span_part->is_start ? details_of(event).bytes() : std::string(event.command),
      .frames = event.span_part->is_start ? std::string() : event.process.command};
}

std::string PerfettoRenderer::line_of_span(const EventSpans::Ended& span) const {
  const auto& [start, end] = span;
  const auto [pid, tid] = numbers_of_thread(start.thread);
  const std::string name = start.name + ".." + end.name;
  return trace_->add_span({pid, tid, end.frames, end.text},
                          {start.span, name, start.time_ns, end.time_ns, start.text});
}

void PerfettoRenderer::add(const Report& report) {
  if (report.kind != placement::Kind::event) return;
  const layout::Losses losses = session::losses_of(report.rows);
  exports::PerfettoTrace::Losses told = {.dropped = losses[layout::Loss::dropped]};
  losses.for_each([&](const layout::LossWords& words, uint64_t count) {
    told.by_cause.emplace_back(words.key, count);
  });
  event_lines(trace_->add_losses(report.process.pid, told));
}

}  // namespace pinprick::cli
