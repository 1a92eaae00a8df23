#include "cli/render/function_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pinprick::cli {
namespace {

constexpr size_t kColumnsOfDepth = 2;
constexpr std::string_view kNoDuration = "              |  ";
constexpr std::string_view kRuler = " ------------------------------------------\n";

// Returns NAME-PID, with at most 7 bytes of the name, in the middle of 14 columns.
std::string thread_column(int number, std::string_view name) {
  constexpr size_t kName = 7, kWidth = 14;
  const std::string text = fmt::format("{}-{}", name.substr(0, kName), number);
  const size_t blanks = kWidth - std::min(kWidth, text.size());
  return fmt::format("{:{}}{}{:{}}", "", blanks / 2, text, "", blanks - blanks / 2);
}

}  // namespace

char duration_mark(uint64_t ns) {
  constexpr std::pair<uint64_t, char> kMarks[] = {{1'000'000'000, '$'}, {100'000'000, '@'},
                                                  {10'000'000, '*'},    {1'000'000, '#'},
                                                  {100'000, '!'},       {10'000, '+'}};
  for (const auto& [from, mark] : kMarks)
    if (ns > from) return mark;
  return ' ';
}

// Numbers of up to six digits have as many decimals as fit into seven digits, at most three.
std::string graph_duration(uint64_t ns) {
  constexpr size_t kDigits = 7, kWidth = 8, kFraction = 3;
  std::string text = fmt::format("{}", ns / 1000);
  if (text.size() < kDigits)
    text +=
        "." + fmt::format("{:03}", ns % 1000).substr(0, std::min(kFraction, kDigits - text.size()));
  const size_t blanks = kWidth - std::min(kWidth, text.size());
  return text + " us " + std::string(blanks, ' ');
}

std::string FunctionGraph::cpu_column(std::optional<uint32_t> cpu) const {
  return fmt::format(" {:>{}}) ", cpu ? std::to_string(*cpu) : "-", cpu_digits_);
}

std::string FunctionGraph::heading() {
  return "# tracer: function_graph\n"
         "#\n"
         "# CPU  DURATION                  FUNCTION CALLS\n"
         "# |     |   |                     |   |   |   |\n";
}

std::string FunctionGraph::line(const Thread& thread, std::optional<uint64_t> latency_ns,
                                size_t depth, std::string_view text) {
  std::string lines;
  const auto [last, is_first] = last_.try_emplace(thread.cpu);
  if (!is_first && last->second.number != thread.number)
    lines = fmt::format("{}{}{} => {}\n{}\n", kRuler, cpu_column(thread.cpu),
                        thread_column(last->second.number, last->second.name),
                        thread_column(thread.number, thread.name), kRuler);
  if (is_first || last->second.number != thread.number)
    last->second = {thread.number, std::string(thread.name)};
  const std::string duration =
      latency_ns ? fmt::format("{} {}|  ", duration_mark(*latency_ns), graph_duration(*latency_ns))
                 : std::string(kNoDuration);
  return lines + fmt::format("{}{}{:{}}{}\n", cpu_column(thread.cpu), duration, "",
                             kColumnsOfDepth * depth, text);
}

}  // namespace pinprick::cli
