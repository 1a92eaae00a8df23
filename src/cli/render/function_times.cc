// `report --functions`: the functions of a recording, as a table.
#include "cli/render/text.h"
#include "cli/render/units.h"

namespace pinprick::cli {

void TextRenderer::function_times(const std::vector<recording::FunctionTime>& functions,
                                  size_t others) {
  const auto time = [](uint64_t ns) { return duration_ns(static_cast<double>(ns)); };
  data().print("{:>12} {:>8} {:>8} {:>8} {:>8}  {}\n", "calls", "total", "self", "average",
               "longest", "function");
  for (const recording::FunctionTime& one : functions)
    data().print("{:>12} {:>8} {:>8} {:>8} {:>8}  {}\n", with_commas(one.calls), time(one.total_ns),
                 time(one.self_ns), time(one.total_ns / one.calls), time(one.longest_ns),
                 data().bold(one.function));
  if (others != 0) data().print("{}\n", data().faint(plural(others, "other function")));
}

}  // namespace pinprick::cli
