#include "cli/render/perfetto.h"

#include <utility>
#include <vector>

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
    case Kind::character:
    case Kind::none:
    case Kind::floating:
    case Kind::members:
    case Kind::elements:
    case Kind::variant:
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

std::unique_ptr<exports::PerfettoTrace> trace_by(const recording::Clocks& clocks) {
  return std::make_unique<exports::PerfettoTrace>(
      exports::ClockReading{clocks.boottime_ns, clocks.monotonic_ns, clocks.realtime_ns});
}

}  // namespace

PerfettoRenderer::PerfettoRenderer(TextRenderer text, const std::string& path, bool makes_tree)
    : ExportRenderer(std::move(text), exports::Format::perfetto, path),
      makes_tree_(makes_tree),
      clocks_(recording::Clocks::now()),
      trace_(trace_by(clocks_)) {}

void PerfettoRenderer::replays(const recording::Header& header) {
  ExportRenderer::replays(header);
  makes_tree_ = header.is_tree;
  clocks_ = header.clocks;
  trace_ = trace_by(clocks_);
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
      .name = (event.triggers_end ? "until " : "") + event_name(event.name),
      .time_ns = clocks_.boottime_of(event.tsc),
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
      .time_ns = clocks_.boottime_of(event.tsc),
      .name = event_name(event.name),
      .text = event.span_part->is_start ? details_of(event).bytes() : std::string(event.command),
      .frames = event.span_part->is_start ? std::string() : event.process.command,
      .is_named = !event.name.event.empty()};
}

std::string PerfettoRenderer::line_of_span(const EventSpans::Ended& span) const {
  const auto& [start, end] = span;
  const auto [pid, tid] = session::numbers_of_thread(start.thread);
  const std::string name = span.name();
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
