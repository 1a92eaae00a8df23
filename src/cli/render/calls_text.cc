// TextRenderer: the calls in flight, as a table.
#include <fmt/format.h>

#include <algorithm>

#include "cli/render/text.h"
#include "cli/render/text_width.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

std::string thread_of(const session::TimedCall& call) {
  if (call.thread == 0) return "?";
  return fmt::format("{} {}", call.thread, call.thread_name);
}

std::string caller_of(const session::TimedCall& call) {
  return call.caller ? call.caller->text() : "-";
}

std::string padded(const std::string& text, size_t columns) {
  return text + std::string(columns - std::min(columns, width_of(text)), ' ');
}

}  // namespace

void TextRenderer::calls(const ProcessName& process, const std::vector<session::TimedCall>& calls,
                         uint64_t least_age_ns) {
  const std::string older =
      least_age_ns == 0
          ? ""
          : fmt::format(" for {} or longer", duration_ns(static_cast<double>(least_age_ns)));
  if (calls.empty()) {
    notes_.print("{} ({}): no timed call {} in flight{}\n", process.pid, process.command,
                 least_age_ns == 0 ? "is" : "has been", older);
    return;
  }
  if (several_) heading(process, 0, false);
  struct Line {
    std::string age, thread, function, caller;
  };
  std::vector<Line> lines = {{"age", "thread", "function", "caller"}};
  // A long name must not push all callers off the screen.
  constexpr size_t kWidest = 40;
  size_t threads = 0, functions = 0;
  for (const session::TimedCall& call : calls)
    lines.push_back({duration_ns(static_cast<double>(call.age_ns)),
                     printable(thread_of(call), true), printable(call.function.function, true),
                     printable(caller_of(call), true)});
  for (const Line& line : lines) {
    threads = std::max(threads, std::min(kWidest, width_of(line.thread)));
    functions = std::max(functions, std::min(kWidest, width_of(line.function)));
  }
  for (const Line& line : lines)
    data_.print("{:>9}  {}  {}  {}\n", line.age, padded(line.thread, threads),
                &line == lines.data() ? Styled{padded(line.function, functions)}
                                      : data_.bold(padded(line.function, functions)),
                line.caller);
  data_.flush();
}

}  // namespace pinprick::cli
