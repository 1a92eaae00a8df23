#include "cli/render/function_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/render/function_graph.h"
#include "cli/render/text_width.h"

namespace pinprick::cli {
namespace {

const stats::Histogram& profiled_times(const Row& row) {
  return row.self_time ? *row.self_time : row.histogram();
}

// The kernel divides integers, and drops the remainder.
uint64_t whole(double value) {
  return value > 0 ? static_cast<uint64_t>(value) : 0;
}

// Returns the mean of the times in a slot, as exact as its shifted sum allows.
double mean_of(const stats::Histogram& times, uint32_t slot) {
  const stats::Cell& cell = times.cells()[slot];
  return std::ldexp(static_cast<double>(cell.sum) / static_cast<double>(cell.count),
                    static_cast<int>(stats::sum_shift(slot, times.bits())));
}

// The kernel prints ns^2 / 1000 as it prints nanoseconds, so its column is in us^2.
std::string profile_line(const Row& row) {
  const stats::Histogram& times = profiled_times(row);
  const auto hits = static_cast<double>(times.count());
  return fmt::format("  {:<30.30}  {:>10}    {}    {}    {}\n", printable(text_of(row.name), true),
                     times.count(), graph_duration(whole(times.sum())),
                     graph_duration(whole(times.sum() / hits)),
                     graph_duration(whole(variance_of(times) / 1000)));
}

}  // namespace

double variance_of(const stats::Histogram& times) {
  const auto n = static_cast<double>(times.count());
  if (n < 2) return 0;
  const double mean = times.sum() / n;
  double squares = 0;
  for (uint32_t i = 0; i < times.cells().size(); ++i) {
    if (times.cells()[i].count == 0) continue;
    const double from_mean = mean_of(times, i) - mean;
    squares += static_cast<double>(times.cells()[i].count) * from_mean * from_mean;
  }
  return squares / (n - 1);
}

// The function with the most time comes first. Functions that were not called are left out. The
// line about missed calls is a note, as the table has the kernel's lines alone.
void FunctionProfile::report(const Report& report) {
  std::vector<const Row*> rows;
  for (const Row& row : report.rows)
    if (profiled_times(row).count() != 0) rows.push_back(&row);
  std::ranges::stable_sort(rows, [](const Row* a, const Row* b) {
    return profiled_times(*a).sum() > profiled_times(*b).sum();
  });
  heading(report.process, report.seconds, report.is_final);
  data().print(
      "  Function                               Hit    Time            Avg             s^2\n"
      "  --------                               ---    ----            ---             ---\n");
  for (const Row* const row : rows) data().write(profile_line(*row));
  data().flush();
  if (report.is_final) notes().write(line_of_losses(report));
}

}  // namespace pinprick::cli
