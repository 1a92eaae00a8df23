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
  for (std::string_view rest = event.below; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    lines +=
        fmt::format("{}{:>7} | {}    {}\n", kEmptyDuration, "", indentation, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void CallTree::print_open(Open& call, size_t depth, std::string& lines) const {
  if (call.is_printed) return;
  print(call.entry, depth, call.entry.call + " {", std::nullopt, lines);
  call.is_printed = true;
}

// Prints the lines of all calls that the thread is in.
void CallTree::open_up(Calls& calls, std::string& lines) const {
  for (size_t depth = 0; depth < calls.size(); ++depth) print_open(calls[depth], depth, lines);
}

// Forgets calls that have ended without a return, as by an exception: what lies in a call is below
// it on the stack, or at the same place after a jump from one function to another. Other stacks are
// far away.
void CallTree::leave_calls(Calls& calls, const Event& event, std::string& lines) const {
  constexpr uint64_t kMostStack = 8 << 20;
  if (event.stack_pointer == 0) return;
  const auto has_ended = [&](const Open& one) {
    const uint64_t above = event.stack_pointer - one.entry.stack_pointer;
    return one.entry.stack_pointer != 0 && above < kMostStack &&
           (above != 0 || event.function == one.entry.function);
  };
  const auto ended = std::find_if(calls.begin(), calls.end(), has_ended);
  if (ended == calls.end()) return;
  if (const Open& last = calls.back(); limits_.slower_ns == 0 && !last.is_printed) {
    const size_t depth = calls.size() - 1;
    for (size_t i = 0; i < depth; ++i) print_open(calls[i], i, lines);
    print(last.entry, depth, last.entry.call + ";", std::nullopt, lines);
  }
  calls.erase(ended, calls.end());
}

// If the entry of a call was lost, or came before all others, its return stands alone. Calls above
// one that returns were left in another way: by an exception, or because their returns were lost.
std::string CallTree::add(const Event& event) {
  std::string lines;
  if (event.thread == 0) {  // which one is not known
    if (limits_.slower_ns != 0 && event.latency_ns < limits_.slower_ns) return lines;
    if (event.of == Event::Of::ret)
      print(event, 0, "} " + event.function + event.result, event.latency_ns, lines);
    else
      print(event, 0, event.call + ";", std::nullopt, lines);
    return lines;
  }
  Calls& calls = threads_[event.thread];
  leave_calls(calls, event, lines);
  // What lies too deep to be shown opens no call.
  const bool prints_all = limits_.slower_ns == 0 && calls.size() < limits_.depth;
  if (event.of != Event::Of::ret) {
    if (prints_all) open_up(calls, lines);
    if (event.of == Event::Of::entry)
      calls.push_back({event});
    else if (prints_all)
      print(event, calls.size(), event.call + ";", std::nullopt, lines);
    return lines;
  }
  const auto found = std::find_if(calls.rbegin(), calls.rend(), [&](const Open& one) {
    return one.entry.function == event.function;
  });
  const bool is_shown = event.latency_ns >= limits_.slower_ns;
  if (found == calls.rend()) {
    if (!is_shown) return lines;
    if (prints_all) open_up(calls, lines);
    print(event, calls.size(), "} " + event.function + event.result, event.latency_ns, lines);
    return lines;
  }
  const auto depth = static_cast<size_t>(calls.rend() - found) - 1;
  if (is_shown && depth < limits_.depth) {
    const bool has_left_others = depth + 1 < calls.size();
    if (has_left_others && limits_.slower_ns == 0)
      open_up(calls, lines);
    else
      for (size_t i = 0; i < depth; ++i) print_open(calls[i], i, lines);
    const Open& call = calls[depth];
    if (call.is_printed)
      print({.number = event.number}, depth, "} " + event.function + event.result, event.latency_ns,
            lines);
    else
      print(call.entry, depth, call.entry.call + event.result + ";", event.latency_ns, lines);
  }
  calls.resize(depth);
  if (calls.empty()) threads_.erase(event.thread);
  return lines;
}

std::string CallTree::finish() {
  std::string lines;
  for (auto& [thread, calls] : threads_)
    if (limits_.slower_ns == 0) open_up(calls, lines);
  threads_.clear();
  return lines;
}

}  // namespace pinprick::cli
