#include "cli/render/ctf.h"

#include <fcntl.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "cli/render/event_text.h"

namespace pinprick::cli {
namespace {

using exports::CtfFields;
using exports::CtfTrace;

constexpr std::string_view kLatency = "latency_ns";

void add_field(const session::EventValue& value, CtfFields& fields) {
  using Kind = session::EventValue::Kind;
  const std::string_view name = name_of(value);
  switch (value.kind) {
    case Kind::number:
      return fields.add(name, value.number);
    case Kind::signed_number:
      return fields.add(name, static_cast<int64_t>(value.number));
    case Kind::hexadecimal:
      return fields.add_pointer(name, value.number);
    case Kind::floating:
      return fields.add(name, std::bit_cast<double>(value.number));
    case Kind::character:
      return fields.add(name, uint64_t{static_cast<uint8_t>(value.number)});
    case Kind::error:
      return fields.add(name, std::string_view(error_text(value.number)));
    case Kind::words:
    case Kind::code:
      return fields.add(name, value.words);
    case Kind::cut:
      return fields.add(name, std::string(value.words) + "...");
    case Kind::none:
    case Kind::members:
    case Kind::elements:
    case Kind::variant:
      return fields.add(name, std::string_view(shown_value(value)));
    case Kind::unread:
      return fields.add(name, std::string_view("?"));
    case Kind::other:
      return fields.add(name, std::string_view("(no room)"));
    case Kind::stack:
      return fields.add("stack", value.words);
  }
}

void add_values(const session::Event& event, CtfFields& fields) {
  for (const session::EventValue& one : event.values) {
    if (one.format != nullptr && !one.format->has_value) continue;
    if (!is_error_of_result(one) || one.number != 0) add_field(one, fields);
  }
  if (const auto words = in_words(event)) fields.add("text", std::string_view(*words));
}

// The file keeps its old content until there is a result, as other outputs do.
std::FILE* open_metadata(const std::string& path) {
  const std::string name = path + "/" + std::string(exports::kCtfMetadata);
  const int opened = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  return opened < 0 ? nullptr : ::fdopen(opened, "w");
}

std::string context_of(const session::Event& event) {
  return exports::ctf_context(
      {event.process.pid, event.tid, event.process.command, std::string(event.command)}, event.cpu);
}

}  // namespace

CtfRenderer::CtfRenderer(TextRenderer text, const std::string& path,
                         const recording::Header& header)
    : ExportRenderer(std::move(text), exports::Format::ctf, path),
      file_(open_metadata(path), &std::fclose),
      error_(file_ ? 0 : errno),
      metadata_(std::make_unique<Output>(file_ ? file_.get() : stderr, Color::never,
                                         Output::Kind::replaced)) {
  if (!file_) metadata_->give_up();
  start(header);
}

void CtfRenderer::start(const recording::Header& header) {
  clocks_ = header.clocks;
  trace_ = std::make_unique<CtfTrace>(
      exports::ClockReading{clocks_.boottime_ns, clocks_.monotonic_ns, clocks_.realtime_ns},
      header.command_line);
}

void CtfRenderer::replays(const recording::Header& header) {
  ExportRenderer::replays(header);
  start(header);
}

std::string CtfRenderer::write(const CtfTrace::Event& event) const {
  std::string packets = trace_->add(event);
  if (const std::string more = trace_->take_metadata(); !more.empty()) {
    metadata_->write(more);
    metadata_->flush();
  }
  return packets;
}

// At a return, the event is named as the pattern for returns is written.
exports::TraceEvent CtfRenderer::part_of_timeline(const session::Event& event) const {
  CtfFields fields;
  if (event.latency_ns) fields.add(kLatency, *event.latency_ns);
  add_values(event, fields);
  const bool is_return = event.name.at_return && event.name.event.empty();
  return {.name = (event.triggers_end ? "until " : "") + event_name(event.name) +
                  (is_return ? std::string(select::kReturnMark) : std::string()),
          .time_ns = clocks_.monotonic_of(event.tsc),
          .details = exports::TraceDetails::of_bytes(
              exports::packed_event(context_of(event), fields.packed()))};
}

std::string CtfRenderer::timeline(const exports::TraceEvent& event) {
  const auto [context, fields] = exports::unpacked_event(event.details.bytes());
  return write({event.name, event.time_ns, context, CtfFields::unpacked(fields)});
}

// A span is an event at its end, with the values of its start.
EventSpans::Event CtfRenderer::part_of_span(const session::Event& event) const {
  CtfFields fields;
  if (event.span_part->is_start) {
    fields.add(kLatency, uint64_t{0});  // which is known at the end
    add_values(event, fields);
  }
  return {.thread = identity_of_thread(event),
          .span = event.span_part->span,
          .is_start = event.span_part->is_start,
          .time_ns = clocks_.monotonic_of(event.tsc),
          .name = event_name(event.name),
          .text = event.span_part->is_start ? fields.packed() : context_of(event),
          .is_named = !event.name.event.empty()};
}

std::string CtfRenderer::line_of_span(const EventSpans::Ended& span) const {
  CtfFields latency;
  latency.add(kLatency, span.latency_ns());
  CtfFields::Encoded fields = CtfFields::unpacked(span.start.text);
  fields.values.replace(0, latency.encoded().values.size(), latency.encoded().values);
  return write({span.name(), span.end.time_ns, span.end.text, std::move(fields)});
}

void CtfRenderer::add(const Report& report) {
  if (report.kind != placement::Kind::event) return;
  const layout::Losses losses = session::losses_of(report.rows);
  dropped_ += losses[layout::Loss::dropped];
  CtfFields fields;
  losses.for_each([&](const layout::LossWords& words, uint64_t count) {
    if (count != 0) fields.add(std::string_view(words.key), count);
  });
  if (fields.encoded().declarations.empty()) return;
  const exports::TraceThread thread = {report.process.pid, 0, report.process.command, ""};
  event_lines(write(
      {"pinprick: what this trace lacks", 0, exports::ctf_context(thread, {}), fields.encoded()}));
}

void CtfRenderer::finish() {
  metadata_->write(trace_->take_metadata());
  metadata_->flush();
  event_lines(trace_->finish(dropped_));
}

int CtfRenderer::error_of_writing() const {
  const int error = ExportRenderer::error_of_writing();
  if (error != 0) return error;
  return error_ != 0 ? error_ : metadata_->error();
}

}  // namespace pinprick::cli
