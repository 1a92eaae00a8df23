#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <utility>

#include "cli/render/event_text.h"
#include "cli/render/json.h"
#include "cli/render/json_record.h"

namespace pinprick::cli {

EventSpans::Event JsonRenderer::part_of_span(const session::Event& event) const {
  return {.thread = identity_of_thread(event),
          .span = event.span_part->span,
          .is_start = event.span_part->is_start,
          .time_ns = event.time_ns,
          .name = name_fields(event.name)["function"],
          .text = line_of(event)};
}

// As a call's at its return, with the place and the values of the start.
std::string JsonRenderer::line_of_span(const EventSpans::Ended& span) const {
  Json record = Json::parse(span.start.text);
  record["function"] = span.start.name + ".." + span.end.name;
  record["time_ns"] = span.end.time_ns;
  record["latency_ns"] = span.latency_ns();
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void JsonRenderer::span_figures(const EventSpans::Figures& figures) {
  put_record(data_, {{"type", "spans"},
                     {"repeated_starts", figures.repeated},
                     {"unmatched_ends", figures.unmatched},
                     {"open", figures.open}});
}

namespace {

// The paths of those values of an event that are cut, could not be read, or found no room.
struct Lacks {
  Json cut = Json::array(), unreadable = Json::array(), other = Json::array();
};

Json json_of(const session::EventValue& one, const std::string& path, Lacks& lacks);

Json members_of(const session::EventValue& structure, const std::string& path, Lacks& lacks) {
  Json members = Json::object();
  for (const session::EventValue& one : structure.inner) {
    std::string name = one.name.empty() ? fmt::format("{}", members.size()) : std::string(one.name);
    // A class may have members of the same names as its base classes.
    if (members.contains(name)) name += fmt::format("#{}", members.size());
    members[name] = json_of(one, path + "." + name, lacks);
  }
  if (structure.is_cut) lacks.cut.push_back(path);
  return members;
}

Json elements_of(const session::EventValue& list, const std::string& path, Lacks& lacks) {
  Json elements = Json::array();
  for (const session::EventValue& one : list.inner)
    elements.push_back(json_of(one, fmt::format("{}[{}]", path, elements.size()), lacks));
  return {{"size", list.number}, {"elements", std::move(elements)}};
}

// A variant without members is a text, its name. That of one member without a name is an object
// with that value; others have objects, or arrays, of their members.
Json variant_of(const session::EventValue& one, const std::string& path, Lacks& lacks) {
  const std::string name(one.words);
  if (one.inner.empty() && !one.is_cut) return name;
  const std::string inner_path = path + "." + name;
  if (one.inner.empty() || !one.inner.front().name.empty())
    return {{name, members_of(one, inner_path, lacks)}};
  if (one.is_cut) lacks.cut.push_back(path);
  if (one.inner.size() == 1) return {{name, json_of(one.inner.front(), inner_path, lacks)}};
  Json parts = Json::array();
  for (const session::EventValue& part : one.inner)
    parts.push_back(json_of(part, fmt::format("{}[{}]", inner_path, parts.size()), lacks));
  return {{name, std::move(parts)}};
}

Json json_of(const session::EventValue& one, const std::string& path, Lacks& lacks) {
  using Kind = session::EventValue::Kind;
  switch (one.kind) {
    case Kind::number:
    case Kind::signed_number:
    case Kind::hexadecimal:
      return number(one.number, one.kind == Kind::signed_number
                                    ? layout::NumberOrder::with_sign
                                    : layout::NumberOrder::without_sign);
    case Kind::character:
      return static_cast<uint8_t>(one.number);
    case Kind::floating:
      return std::bit_cast<double>(one.number);
    case Kind::error:
      return number_of_error(one.number);
    case Kind::cut:
      lacks.cut.push_back(path);
      return std::string(one.words);
    case Kind::words:
    case Kind::code:
      return std::string(one.words);
    case Kind::none:
      if (one.is_cut) lacks.cut.push_back(path);
      break;
    case Kind::stack:
      return frames(one.words);
    case Kind::unread:
      lacks.unreadable.push_back(path);
      break;
    case Kind::other:
      lacks.other.push_back(path);
      break;
    case Kind::members:
      return members_of(one, path, lacks);
    case Kind::elements:
      return elements_of(one, path, lacks);
    case Kind::variant:
      return variant_of(one, path, lacks);
  }
  return {};
}

}  // namespace

// After the values come the names of those that are cut, unreadable and so on, by reason.
std::string JsonRenderer::line_of(const session::Event& event) const {
  Json record = {{"type", "event"},
                 {"pid", event.process.pid},
                 {"tid", event.tid},
                 {"command", std::string(event.command)},
                 {"time_ns", event.time_ns}};
  record.update(name_fields(event.name));
  Json values = Json::object();
  Lacks lacks;
  for (const session::EventValue& one : event.values) {
    if (one.format != nullptr && !one.format->has_value) continue;
    if (is_error_of_result(one) && one.number == 0) continue;
    // Two values of one expression may have different types.
    const std::string name(values.contains(name_of(one)) ? one.text : name_of(one));
    values[name] = json_of(one, name, lacks);
  }
  record["values"] = std::move(values);
  if (auto words = in_words(event)) record["text"] = *std::move(words);
  if (event.triggers_end) record["until"] = true;
  if (event.latency_ns) record["latency_ns"] = *event.latency_ns;
  if (!lacks.cut.empty()) record["cut"] = std::move(lacks.cut);
  if (!lacks.unreadable.empty()) record["unreadable"] = std::move(lacks.unreadable);
  if (!lacks.other.empty()) record["other"] = std::move(lacks.other);
  return line_of_record(std::move(record));
}

void JsonRenderer::dumped(const Dump& dump) {
  using Cause = Dump::Cause;
  Json record = {{"type", "dump"},
                 {"number", dump.number},
                 {"cause", dump.cause == Cause::hit       ? "until"
                           : dump.cause == Cause::request ? "request"
                           : dump.cause == Cause::key     ? "key"
                           : dump.cause == Cause::left    ? "left"
                                                          : "end"},
                 {"time_ns", dump.time_ns},
                 {"events", dump.events},
                 {"dropped", dump.dropped}};
  if (dump.cause == Cause::left) record["controller"] = dump.recorder;
  if (dump.lacks_older_events) record["older_overwritten"] = true;
  if (const auto& hit = dump.trigger)
    record["until"] = {{"function", hit->point},
                       {"pid", hit->pid},
                       {"tid", hit->tid},
                       {"command", hit->command},
                       {"time_ns", hit->time_ns}};
  record["pause_ns"] = dump.pause_ns ? Json(*dump.pause_ns) : Json();
  put_record(data_, std::move(record));
}

}  // namespace pinprick::cli
