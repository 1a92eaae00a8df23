#include "cli/render/ftrace.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <iterator>
#include <utility>

#include "cli/render/dump_text.h"
#include "cli/render/event_text.h"

namespace pinprick::cli {
namespace {

using ValueKind = session::EventValue::Kind;

// As the kernel's, but for the line with the numbers of entries, which are not known yet.
constexpr std::string_view kHeading =
    "#\n"
    "#                                _-----=> irqs-off/BH-disabled\n"
    "#                               / _----=> need-resched\n"
    "#                              | / _---=> hardirq/softirq\n"
    "#                              || / _--=> preempt-depth\n"
    "#                              ||| / _-=> migrate-disable\n"
    "#                              |||| /     delay\n"
    "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
    "#              | |         |   |||||     |         |\n";

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Returns what the kernel calls the event: without its group, or as perf names events of functions.
std::string event_of(const ProbeName& name) {
  if (!name.event.empty()) return std::string(name.event.substr(name.event.find(':') + 1));
  std::string event = text_of(name) + (name.at_return ? "__return" : "");
  std::ranges::replace_if(
      event, [](char c) { return !is_of_name(c); }, '_');
  return event;
}

// A name as in C, with which each value begins.
std::string value_name(const session::EventValue& value, size_t number) {
  std::string_view name = name_of(value);
  if (name.starts_with('$')) name.remove_prefix(1);
  const bool is_name = !name.empty() && std::ranges::all_of(name, is_of_name);
  return is_name ? std::string(name) : fmt::format("arg{}", number);
}

std::string shown_elements(const session::EventValue& value);

std::string value_text(const session::EventValue& value) {
  switch (value.kind) {
    case ValueKind::hexadecimal:
      return fmt::format("{:#x}", value.number);
    case ValueKind::unread:
    case ValueKind::none:
      return "(fault)";
    case ValueKind::elements:
      return shown_elements(value);
    default:
      return shown_value(value);
  }
}

std::string shown_elements(const session::EventValue& value) {
  std::string text = "{";
  for (const session::EventValue& one : value.inner)
    text += (text.size() == 1 ? "" : ",") + value_text(one);
  return text + "}";
}

// Returns where the call returns to, and the place of the function; or the place of the hit.
std::string addresses_of(const session::Event& event) {
  const auto returns_to =
      std::ranges::find(event.values, FtraceRenderer::kReturnsTo, &session::EventValue::name);
  if (!event.name.at_return || returns_to == event.values.end())
    return fmt::format("({:#x})", event.name.site);
  return fmt::format("({:#x} <- {:#x})", returns_to->number, event.name.site);
}

std::string stack_lines(const session::Event& event) {
  std::string frames;
  for (const session::EventValue& one : event.values) {
    if (one.kind != ValueKind::stack) continue;
    frames += "\n <stack trace>";
    for (const std::string_view name : split_lines(one.words))
      frames += "\n => " + printable(name, true);
  }
  return frames;
}

// Returns FUNCTION <-CALLER. As in the kernel's lines, the caller has no offset, unless no symbol
// has it: then it is an offset in its object.
std::string call_of(const session::Event& event) {
  std::string line = printable(text_of(event.name), true);
  const auto parent =
      std::ranges::find(event.values, FtraceRenderer::kParent, &session::EventValue::name);
  if (parent == event.values.end()) return line;
  const std::string caller = shown_value(*parent);
  const std::string function = caller.substr(0, caller.rfind("+0x"));
  return line + " <-" + (function == event.name.object ? caller : function);
}

}  // namespace

std::string FtraceRenderer::line_of(const session::Event& event) const {
  constexpr uint64_t kSecond = 1'000'000'000, kMicrosecond = 1'000;
  // The kernel rounds to the nearest microsecond.
  const uint64_t time_ns = clocks_.monotonic_of(event.tsc) + kMicrosecond / 2;
  std::string line = fmt::format(
      "{:>16}-{:<7} [{}] ..... {:>5}.{:06}: ", printable(std::string(event.command), true),
      number_of_thread(event), event.cpu ? fmt::format("{:03}", *event.cpu) : std::string("---"),
      time_ns / kSecond, time_ns % kSecond / kMicrosecond);
  if (tracer_ == Tracer::function) return line + call_of(event) + "\n";
  line += fmt::format("{}: {}", printable(event_of(event.name), true), addresses_of(event));
  if (const auto words = in_words(event)) line += " " + *words;
  size_t number = 0;
  for (const session::EventValue& one : event.values) {
    ++number;
    const bool is_apart = one.format != nullptr || one.kind == ValueKind::stack ||
                          one.name == kReturnsTo || (is_error_of_result(one) && one.number == 0);
    if (!is_apart) line += " " + value_name(one, number) + "=" + value_text(one);
  }
  return line + stack_lines(event) + "\n";
}

void FtraceRenderer::write_heading() {
  if (std::exchange(has_heading_, true)) return;
  event_lines(
      fmt::format("# tracer: {}\n{}", tracer_ == Tracer::function ? "function" : "nop", kHeading));
}

void FtraceRenderer::armed(const ProcessName& process, const engine::ArmReport& report,
                           uint64_t elapsed_ns, bool until_interrupt) {
  TextRenderer::armed(process, report, elapsed_ns, until_interrupt);
  write_heading();
}

void FtraceRenderer::replays(const recording::Header& header) {
  TextRenderer::replays(header);
  clocks_ = header.clocks;
  write_heading();
}

void FtraceRenderer::begin_dump(const Dump& dump) {
  write_heading();
  event_lines(fmt::format("# {}\n", heading_of(dump)));
}

void FtraceRenderer::files_armed(const FilesFigures& figures, bool until_interrupt) {
  TextRenderer::files_armed(figures, until_interrupt);
  write_heading();
}

}  // namespace pinprick::cli
