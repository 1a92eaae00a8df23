#include "cli/render/call_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

constexpr size_t kIndentation = 2;
constexpr std::string_view kEmptyDuration = "             ";

// As the kernel's function graph marks them.
char mark_of(uint64_t ns) {
  constexpr std::pair<uint64_t, char> kMarks[] = {{1'000'000'000, '$'}, {100'000'000, '@'},
                                                  {10'000'000, '*'},    {1'000'000, '#'},
                                                  {100'000, '!'},       {10'000, '+'}};
  for (const auto& [from, mark] : kMarks)
    if (ns >= from) return mark;
  return ' ';
}

}  // namespace

std::string CallTree::heading() {
  return "    duration     TID | call\n";
}

void CallTree::print(const Event& event, size_t depth, const std::string& text,
                     std::optional<uint64_t> latency_ns, std::string& lines) const {
  if (depth >= limits_.depth) return;
  const std::string duration = latency_ns
                                   ? fmt::format("{} {:>10} ", mark_of(*latency_ns),
                                                 duration_ns(static_cast<double>(*latency_ns)))
                                   : std::string(kEmptyDuration);
  const std::string indentation(kIndentation * depth, ' ');
  lines += fmt::format("{}{:>7} | {}{}\n", duration, event.number, indentation, text);
  for (const std::string& frame : event.frames)
    lines += fmt::format("{}{:>7} | {}    {}\n", kEmptyDuration, "", indentation, frame);
}

void CallTree::print_open(Open& call, size_t depth, std::string& lines) const {
  if (call.is_printed) return;
  print(call.entry, depth, call.entry.call + " {", std::nullopt, lines);
  call.is_printed = true;
}

void CallTree::print_open(Calls& calls, size_t count, std::string& lines) const {
  for (size_t depth = 0; depth < count; ++depth) print_open(calls[depth], depth, lines);
}

void CallTree::print_left(Calls& calls, std::string& lines) const {
  const size_t depth = calls.size() - 1;
  if (limits_.slower_ns != 0 || depth >= limits_.depth || calls.back().is_printed) return;
  print_open(calls, depth, lines);
  print(calls.back().entry, depth, calls.back().entry.call + ";", std::nullopt, lines);
}

// What lies in a call is below it on the stack, or at the same place after a jump from one function
// to another. Other stacks are far away.
void CallTree::forget_ended(Calls& calls, const Event& event, std::string& lines) const {
  constexpr uint64_t kMostStack = 8 << 20;
  if (event.stack_pointer == 0) return;
  const auto has_ended = [&](const Open& one) {
    const uint64_t above = event.stack_pointer - one.entry.stack_pointer;
    return one.entry.stack_pointer != 0 && above < kMostStack &&
           (above != 0 || event.function == one.entry.function);
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
    if (event.of == Event::Of::ret)
      print(event, 0, "} " + event.function + event.result, event.latency_ns, lines);
    else
      print(event, 0, event.call + ";", std::nullopt, lines);
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
void CallTree::add_hit(Calls& calls, const Event& event, std::string& lines) const {
  const bool is_shown = limits_.slower_ns == 0 && calls.size() < limits_.depth;
  if (is_shown) print_open(calls, calls.size(), lines);
  if (event.of == Event::Of::entry)
    calls.push_back({event});
  else if (is_shown)
    print(event, calls.size(), event.call + ";", std::nullopt, lines);
}

// If the entry of a call was lost, or came before all others, its return stands alone. Calls above
// one that returns were left in another way: by an exception, or because their returns were lost.
void CallTree::add_return(Calls& calls, const Event& event, std::string& lines) const {
  const auto found = std::find_if(calls.rbegin(), calls.rend(), [&](const Open& one) {
    return one.entry.function == event.function;
  });
  const bool is_shown = event.latency_ns >= limits_.slower_ns;
  const std::string end = "} " + event.function + event.result;
  if (found == calls.rend()) {
    if (!is_shown || calls.size() >= limits_.depth) return;
    if (limits_.slower_ns == 0) print_open(calls, calls.size(), lines);
    return print(event, calls.size(), end, event.latency_ns, lines);
  }
  const auto depth = static_cast<size_t>(calls.rend() - found) - 1;
  if (is_shown && depth < limits_.depth) {
    if (depth + 1 < calls.size()) print_left(calls, lines);
    print_open(calls, depth, lines);
    const Open& call = calls[depth];
    if (call.is_printed)
      print({.number = event.number}, depth, end, event.latency_ns, lines);
    else
      print(call.entry, depth, call.entry.call + event.result + ";", event.latency_ns, lines);
  }
  calls.resize(depth);
}

std::string CallTree::finish() {
  std::string lines;
  for (auto& [thread, calls] : threads_)
    if (limits_.slower_ns == 0) print_open(calls, calls.size(), lines);
  threads_.clear();
  return lines;
}

}  // namespace pinprick::cli
