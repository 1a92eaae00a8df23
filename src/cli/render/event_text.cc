#include "cli/render/event_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <ctime>
#include <iterator>
#include <utility>
#include <vector>

#include "cli/render/text_width.h"
#include "cli/render/units.h"
#include "select/error_names.h"

namespace pinprick::cli {
namespace {

using ValueKind = session::EventValue::Kind;

constexpr std::string_view kResult = "$retval";

// As in C.
std::string quoted_character(char c) {
  if (c == '\'' || c == '\\') return fmt::format("'\\{}'", c);
  if (c == '\n') return "'\\n'";
  if (c == '\t') return "'\\t'";
  if (c == '\r') return "'\\r'";
  const auto byte = static_cast<unsigned char>(c);
  const bool is_plain = byte >= ' ' && byte < '\x7f';
  return is_plain ? fmt::format("'{}'", c) : fmt::format("'\\x{:02x}'", byte);
}

// As in C, so that a line stays a line, and each byte can be told. What was cut may end within a
// character, which is left out.
std::string quoted(std::string_view words, bool is_cut) {
  std::string text = "\"";
  while (!words.empty()) {
    const char c = words.front();
    const Decoded next = first_character(words);
    if (is_cut && next.length == 0) break;
    const size_t length = next.is_valid ? std::max<size_t>(next.length, 1) : 1;
    const std::string_view character = words.substr(0, length);
    words.remove_prefix(length);
    if (c == '"' || c == '\\')
      text += {'\\', c};
    else if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (c == '\r')
      text += "\\r";
    else if (!next.is_valid || static_cast<unsigned char>(c) < ' ' || c == '\x7f')
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      text += character;
  }
  return printable(text + "\"", true);
}

}  // namespace

std::string error_text(uint64_t number) {
  return select::name_of_error(number).value_or(fmt::format("{}", static_cast<int64_t>(number)));
}

static std::string shown_inner(const session::EventValue& value, std::string_view around = "{}") {
  std::string text = value.kind == ValueKind::elements ? fmt::format("[{}]", value.number) : "";
  text += around.front();
  const char* separator = "";
  for (const session::EventValue& one : value.inner) {
    text += std::exchange(separator, ",");
    if (!one.name.empty()) text += printable(std::string(one.name), true) + "=";
    text += shown_value(one);
  }
  const bool has_more =
      value.kind == ValueKind::elements ? value.inner.size() < value.number : value.is_cut;
  if (has_more) text += std::string(separator) + "...";
  return text + around.back();
}

// As Rust writes it: None, Some(5), Line{from=1,to=2}.
static std::string shown_variant(const session::EventValue& value) {
  std::string name = printable(value.words, true);
  if (value.inner.empty() && !value.is_cut) return name;
  const bool has_names = value.inner.empty() || !value.inner.front().name.empty();
  return name + shown_inner(value, has_names ? "{}" : "()");
}

std::string shown_value(const session::EventValue& value) {
  switch (value.kind) {
    case ValueKind::number:
      return fmt::format("{}", value.number);
    case ValueKind::signed_number:
      return fmt::format("{}", static_cast<int64_t>(value.number));
    case ValueKind::hexadecimal:
      return value.number == 0 ? "0" : fmt::format("{:#x}", value.number);
    case ValueKind::error:
      return error_text(value.number);
    case ValueKind::character:
      return quoted_character(static_cast<char>(value.number));
    case ValueKind::words:
      return quoted(value.words, false);
    case ValueKind::code:
      return printable(value.words, true);
    case ValueKind::cut:
      return quoted(value.words, true) + "...";
    case ValueKind::none:
      return value.words.empty() ? "NULL" : std::string(value.words);
    case ValueKind::floating:
      return fmt::format("{}", std::bit_cast<double>(value.number));
    case ValueKind::members:
    case ValueKind::elements:
      return shown_inner(value);
    case ValueKind::variant:
      return shown_variant(value);
    case ValueKind::unread:
      return "?";
    case ValueKind::other:
      return "(no room)";
    case ValueKind::stack:
      break;
  }
  return "?";
}

namespace {

bool is_result(const session::EventValue& value) {
  return value.name.empty() && name_of(value) == kResult;
}

}  // namespace

bool is_error_of_result(const session::EventValue& value) {
  return value.kind == ValueKind::error && value.name == "$errno";
}

std::string_view name_of(const session::EventValue& value) {
  if (!value.name.empty()) return value.name;
  // A word, and a type after it.
  const size_t colon = std::min(value.text.find(':'), value.text.size());
  const std::string_view before = value.text.substr(0, colon);
  const auto is_word = [](std::string_view text, std::string_view others) {
    return std::all_of(text.begin(), text.end(), [&](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || others.find(c) != others.npos;
    });
  };
  const std::string_view type = value.text.substr(std::min(colon + 1, value.text.size()));
  const bool is_type = (!type.empty() && is_word(type, "[]")) || type.starts_with("bytes[");
  return is_type && !before.empty() && is_word(before, "_$@") ? before : value.text;
}

std::string time_of_day(uint64_t realtime_ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  // Many events share a second, so its broken-down time is kept.
  static time_t second = -1;
  static std::tm time = {};
  const auto now = static_cast<time_t>(realtime_ns / kSecond);
  if (now != second && ::localtime_r(&now, &time) != nullptr) second = now;
  return fmt::format("{:02}:{:02}:{:02}.{:06}", time.tm_hour, time.tm_min, time.tm_sec,
                     realtime_ns % kSecond / 1000);
}

namespace {

// Writes all values but the result, the stacks, and those in the user's words. Returns the result,
// with the error if the call has failed; empty if there is none.
std::string write_values(const session::Event& event, fmt::memory_buffer& line) {
  std::string result, error;
  const char* separator = "";
  for (const session::EventValue& one : event.values) {
    if (one.format != nullptr) continue;
    if (event.name.at_return && is_result(one)) {
      result = shown_value(one);
    } else if (is_error_of_result(one)) {
      if (one.number != 0) error = " " + shown_value(one);
    } else if (one.kind != ValueKind::stack) {
      fmt::format_to(std::back_inserter(line), "{}{}={}", separator, name_of(one),
                     shown_value(one));
      separator = ", ";
    }
  }
  return result + error;
}

// In the user's words a text has no quotes.
std::string shown_in_words(const session::EventValue& value) {
  std::string shown = shown_value(value);
  const bool is_quoted = value.kind == ValueKind::words || value.kind == ValueKind::cut;
  if (!is_quoted) return shown;
  shown.erase(shown.rfind('"'), 1);
  return shown.substr(1);
}

}  // namespace

std::optional<std::string> in_words(const session::Event& event) {
  std::optional<std::string> text;
  for (const session::EventValue& one : event.values) {
    if (one.format == nullptr) continue;
    text = text.value_or(std::string()) + printable_lines(one.format->before, false) +
           (one.format->has_value ? shown_in_words(one) : std::string()) +
           printable_lines(one.format->after, false);
  }
  // As they stand at the end of what printf() is told elsewhere.
  while (text && text->ends_with('\n')) text->pop_back();
  return text;
}

namespace {

std::vector<std::string> frames_of_event(const session::Event& event) {
  std::vector<std::string> frames;
  for (const session::EventValue& one : event.values) {
    if (one.kind != ValueKind::stack) continue;
    for (const std::string_view name : split_lines(one.words))
      frames.push_back(printable(name, true));
  }
  return frames;
}

// Writes what the event says, but for its time, its thread and how long a call took.
void write_told(const session::Event& event, std::string_view function, fmt::memory_buffer& line) {
  const auto out = std::back_inserter(line);
  fmt::memory_buffer values;
  const std::string result = write_values(event, values);
  const std::string_view inside(values.data(), values.size());
  if (event.triggers_end) line.append(std::string_view("until "));
  if (const auto words = in_words(event); !words)
    fmt::format_to(out, "{}({})", function, inside);
  else if (inside.empty())
    line.append(*words);
  else
    fmt::format_to(out, "{} ({})", *words, inside);
  if (!result.empty()) fmt::format_to(out, " = {}", result);
}

std::string shown_frames(const session::Event& event) {
  std::string frames;
  for (const std::string& frame : frames_of_event(event))
    frames += fmt::format("\n{:17}{}", "", frame);
  return frames;
}

std::string time_and_thread(const session::Event& event) {
  return fmt::format("{} {:>7} {:<15} ", time_of_day(event.time_ns), number_of_thread(event),
                     printable(std::string(event.command), true));
}

std::string shown_latency(uint64_t ns) {
  return fmt::format(" <{}>", duration_ns(static_cast<double>(ns)));
}

}  // namespace

std::string text_of(const session::Event& event, std::string_view function) {
  fmt::memory_buffer line;
  line.append(time_and_thread(event));
  write_told(event, function, line);
  if (event.latency_ns) line.append(shown_latency(*event.latency_ns));
  line.append(shown_frames(event));
  return fmt::to_string(line);
}

EventSpans::Event in_span(const session::Event& event, std::string_view point) {
  EventSpans::Event part = {.thread = identity_of_thread(event),
                            .span = event.span_part->span,
                            .is_start = event.span_part->is_start,
                            .time_ns = event.time_ns,
                            .name = std::string(point),
                            .text = time_and_thread(event),
                            .is_named = !event.name.event.empty()};
  if (!part.is_start) return part;
  fmt::memory_buffer told;
  write_told(event, "", told);
  part.text = fmt::to_string(told);
  part.frames = shown_frames(event);
  part.is_in_words = in_words(event).has_value();
  return part;
}

std::string line_of_span(const EventSpans::Ended& span) {
  const auto& [start, end] = span;
  const std::string names = start.is_in_words ? "" : span.name();
  return end.text + names + start.text + shown_latency(span.latency_ns()) + start.frames;
}

pid_t number_of_thread(const session::Event& event) {
  return event.tid == 0 ? event.process.pid : event.tid;
}

CallTree::Event in_tree(const session::Event& event, std::string_view function) {
  using Of = CallTree::Event::Of;
  fmt::memory_buffer values;
  const std::string result = write_values(event, values);
  const std::string_view inside(values.data(), values.size());
  CallTree::Event part = {.number = number_of_thread(event), .function = std::string(function)};
  if (event.tid != 0) part.thread = identity_of_thread(event);
  part.stack_pointer = event.stack_pointer;
  part.cpu = event.cpu;
  part.thread_name = printable(std::string(event.command), true);
  part.of = event.triggers_end       ? Of::point
            : event.name.at_return   ? Of::ret
            : event.has_return_event ? Of::entry
                                     : Of::point;
  const auto words = in_words(event);
  const std::string in_parentheses = inside.empty() ? "" : fmt::format(" ({})", inside);
  if (event.triggers_end) {
    fmt::memory_buffer told;
    write_told(event, function, told);
    part.call = fmt::to_string(told);
    if (event.latency_ns) part.call += shown_latency(*event.latency_ns);
  } else if (part.of == Of::ret) {
    part.call = fmt::format("{}()", function);
    if (words) part.result = ": " + *words;
    if (!result.empty()) part.result += " = " + result;
    part.result += in_parentheses;
  } else {
    part.call = words ? *words + in_parentheses : fmt::format("{}({})", function, inside);
  }
  part.frames = frames_of_event(event);
  part.latency_ns = event.latency_ns.value_or(0);
  return part;
}

}  // namespace pinprick::cli
