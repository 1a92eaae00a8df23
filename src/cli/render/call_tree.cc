#include "cli/render/call_tree.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <string_view>

#include "base/abandoned.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

constexpr size_t kIndentation = 2;
constexpr std::string_view kEmptyDuration = "             ";

}  // namespace

std::string CallTree::heading() const {
  if (style_ == Style::function_graph) return FunctionGraph::heading();
  return "    duration     TID | call\n";
}

CallTree::Place CallTree::place_in(const Calls& calls, size_t count,
                                   const std::string& function) const {
  const auto is_one_of = [&](const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
      return ::fnmatch(pattern.c_str(), function.c_str(), 0) == 0;
    });
  };
  const Place around = count == 0 ? Place{.is_inside = limits_.in.empty()} : calls[count - 1].place;
  return {.is_inside = around.is_inside || is_one_of(limits_.in),
          .is_left_out = around.is_left_out || is_one_of(limits_.not_in),
          .depth = count != 0 && around.is_inside ? around.depth + 1 : 0};
}

// As the kernel does, a graph names a function at its end only if its entry has no line.
std::string CallTree::text_of(const Event& event, Part part, const std::string& result) const {
  const bool is_graph = style_ == Style::function_graph;
  const std::string call = is_graph ? event.function + "()" : event.call;
  switch (part) {
    case Part::begins:
      return call + " {";
    case Part::leaf:
      return call + (is_graph ? "" : result) + ";";
    case Part::ends:
      return is_graph ? "}" : "} " + event.function + result;
    case Part::ends_alone:
      break;
  }
  return is_graph ? "} /* " + event.function + " */" : "} " + event.function + result;
}

void CallTree::print(const Event& event, const Event& at, const Place& place, Part part,
                     std::optional<uint64_t> latency_ns, std::string& lines) {
  if (!place.is_shown() || place.depth >= limits_.depth) return;
  const std::string text = text_of(event, part, at.result);
  if (style_ == Style::function_graph) {
    lines += graph_.line({at.cpu, at.number, at.thread_name}, latency_ns, place.depth, text);
    return;
  }
  const std::string duration = latency_ns
                                   ? fmt::format("{} {:>10} ", duration_mark(*latency_ns),
                                                 duration_ns(static_cast<double>(*latency_ns)))
                                   : std::string(kEmptyDuration);
  const std::string indentation(kIndentation * place.depth, ' ');
  lines += fmt::format("{}{:>7} | {}{}\n", duration, at.number, indentation, text);
  if (part == Part::ends) return;
  for (const std::string& frame : event.frames)
    lines += fmt::format("{}{:>7} | {}    {}\n", kEmptyDuration, "", indentation, frame);
}

void CallTree::print_open(Open& call, std::string& lines) {
  if (call.is_printed) return;
  print(call.entry, call.entry, call.place, Part::begins, std::nullopt, lines);
  call.is_printed = true;
}

void CallTree::print_open(Calls& calls, size_t count, std::string& lines) {
  for (size_t i = 0; i < count; ++i) print_open(calls[i], lines);
}

void CallTree::print_left(Calls& calls, std::string& lines) {
  const Open& left = calls.back();
  const bool is_shown =
      limits_.slower_ns == 0 && left.place.is_shown() && left.place.depth < limits_.depth;
  if (!is_shown || left.is_printed) return;
  print_open(calls, calls.size() - 1, lines);
  print(left.entry, left.entry, left.place, Part::leaf, std::nullopt, lines);
}

void CallTree::forget_ended(Calls& calls, const Event& event, std::string& lines) {
  const auto has_ended = [&](const Open& one) {
    return was_abandoned(one.entry.stack_pointer, event.stack_pointer,
                         event.function == one.entry.function);
  };
  const auto ended = std::find_if(calls.begin(), calls.end(), has_ended);
  if (ended == calls.end()) return;
  print_left(calls, lines);
  calls.erase(ended, calls.end());
}

std::string CallTree::add(const Event& event) {
  std::string lines;
  if (event.thread == 0) {
    if (limits_.slower_ns != 0 && event.latency_ns < limits_.slower_ns) return lines;
    const Place place = place_in({}, 0, event.function);
    const bool is_return = event.of == Event::Of::ret;
    print(event, event, place, is_return ? Part::ends_alone : Part::leaf,
          is_return ? std::optional(event.latency_ns) : std::nullopt, lines);
    return lines;
  }
  Calls& calls = threads_[event.thread];
  forget_ended(calls, event, lines);
  if (event.of == Event::Of::ret)
    add_return(calls, event, lines);
  else
    add_hit(calls, event, lines);
  if (calls.empty()) threads_.erase(event.thread);
  return lines;
}

// If an event lies too deep to be shown, its caller's line stays one line.
void CallTree::add_hit(Calls& calls, const Event& event, std::string& lines) {
  const Place place = place_in(calls, calls.size(), event.function);
  const bool is_shown = limits_.slower_ns == 0 && place.is_shown() && place.depth < limits_.depth;
  if (is_shown) print_open(calls, calls.size(), lines);
  if (event.of == Event::Of::entry)
    calls.push_back({event, place});
  else if (is_shown)
    print(event, event, place, Part::leaf, std::nullopt, lines);
}

// If the entry of a call was lost, or came before all others, its return stands alone. Calls above
// one that returns were left in another way: by an exception, or because their returns were lost.
void CallTree::add_return(Calls& calls, const Event& event, std::string& lines) {
  const auto found = std::find_if(calls.rbegin(), calls.rend(), [&](const Open& one) {
    return one.entry.function == event.function;
  });
  const bool is_shown = event.latency_ns >= limits_.slower_ns;
  if (found == calls.rend()) {
    const Place place = place_in(calls, calls.size(), event.function);
    if (!is_shown || !place.is_shown() || place.depth >= limits_.depth) return;
    if (limits_.slower_ns == 0) print_open(calls, calls.size(), lines);
    return print(event, event, place, Part::ends_alone, event.latency_ns, lines);
  }
  const auto at = static_cast<size_t>(calls.rend() - found) - 1;
  const Open& call = *found;
  if (is_shown && call.place.is_shown() && call.place.depth < limits_.depth) {
    if (at + 1 < calls.size()) print_left(calls, lines);
    print_open(calls, at, lines);
    print(call.entry, event, call.place, call.is_printed ? Part::ends : Part::leaf,
          event.latency_ns, lines);
  }
  calls.resize(at);
}

std::string CallTree::finish() {
  std::string lines;
  for (auto& [thread, calls] : threads_)
    if (limits_.slower_ns == 0) print_open(calls, calls.size(), lines);
  threads_.clear();
  return lines;
}

}  // namespace pinprick::cli
