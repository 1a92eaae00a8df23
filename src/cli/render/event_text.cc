#include "cli/render/event_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <iterator>
#include <vector>

#include "cli/render/text_width.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

using ValueKind = session::EventValue::Kind;

constexpr std::string_view kResult = "$retval";

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

std::string shown_value(const session::EventValue& value) {
  switch (value.kind) {
    case ValueKind::number:
      return fmt::format("{}", value.number);
    case ValueKind::signed_number:
      return fmt::format("{}", static_cast<int64_t>(value.number));
    case ValueKind::hexadecimal:
      return value.number == 0 ? "0" : fmt::format("{:#x}", value.number);
    case ValueKind::words:
      return quoted(value.words, false);
    case ValueKind::code:
      return printable(value.words, true);
    case ValueKind::cut:
      return quoted(value.words, true) + "...";
    case ValueKind::none:
      return "NULL";
    case ValueKind::unread:
      return "?";
    case ValueKind::other:
      return "(no room)";
    case ValueKind::stack:
      break;
  }
  return "?";
}

bool is_result(const session::EventValue& value) {
  return value.name.empty() && name_of(value) == kResult;
}

}  // namespace

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
  const bool has_type = colon + 1 < value.text.size();
  return has_type && !before.empty() && is_word(before, "_$@") &&
                 is_word(value.text.substr(colon + 1), "[]")
             ? before
             : value.text;
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

std::string text_of(const session::Event& event, std::string_view function) {
  fmt::memory_buffer line;
  const auto out = std::back_inserter(line);
  fmt::format_to(out, "{} {:>7} {:<15} {}(", time_of_day(event.time_ns),
                 event.tid == 0 ? event.process.pid : event.tid,
                 printable(std::string(event.command), true), function);
  const session::EventValue* result = nullptr;
  const char* separator = "";
  std::vector<const session::EventValue*> stacks;
  for (const session::EventValue& one : event.values) {
    if (event.name.at_return && is_result(one)) {
      result = &one;
      continue;
    }
    if (one.kind == ValueKind::stack) {
      stacks.push_back(&one);
      continue;
    }
    fmt::format_to(out, "{}{}={}", separator, name_of(one), shown_value(one));
    separator = ", ";
  }
  line.push_back(')');
  if (result != nullptr) fmt::format_to(out, " = {}", shown_value(*result));
  if (event.latency_ns)
    fmt::format_to(out, " <{}>", duration_ns(static_cast<double>(*event.latency_ns)));
  for (const session::EventValue* one : stacks)
    for (std::string_view rest = one->words; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      fmt::format_to(out, "\n{:17}{}", "", printable(std::string(rest.substr(0, end)), true));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  return fmt::to_string(line);
}

}  // namespace pinprick::cli
