#include "cli/render/comparison_text.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "cli/render/change_table.h"
#include "cli/render/comparison_words.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

using compare::Change;
using compare::Comparison;
using compare::Figure;
using compare::SideSummary;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void print_side(Output& output, const char* which, const SideSummary& side) {
  std::string text = joined(side.paths);
  if (!side.command.empty()) text += ": " + side.command;
  if (side.seconds > 0) text += fmt::format(", {}", duration_ns(side.seconds * 1e9));
  if (side.paths.size() > 1) text += fmt::format(" in {}", plural(side.paths.size(), "run"));
  if (side.intervals != 0)
    text += fmt::format("{} {}", side.paths.size() > 1 ? "," : " in",
                        plural(side.intervals, "interval"));
  output.print("{:<7} {}\n", which, text);
}

// Returns the line that says which noise the differences were compared with.
std::string noise_text(const Comparison& comparison) {
  const std::string least = percent_text(comparison.least);
  switch (comparison.noise) {
    case compare::Noise::runs:
      return fmt::format("noise: how far the runs of each side are apart; changes from {} on count",
                         least);
    case compare::Noise::intervals:
      return fmt::format(
          "noise: how far the intervals of each side, and most rows, are apart; changes from {} on "
          "count; --before and --after take several runs, which tell more",
          least);
    case compare::Noise::calls:
      break;
  }
  return fmt::format(
      "noise: as if each call were by chance, as nothing was repeated; changes from {} on count; "
      "with -i 1, or several runs, small ones can be seen",
      least);
}

std::string shift_text(const compare::Shift& shift) {
  const char* what = shift.figure == Figure::calls          ? "numbers of calls"
                     : shift.figure == Figure::sum          ? "sums"
                     : shift.figure == Figure::mean         ? "means"
                     : shift.figure == Figure::tail         ? "p99"
                     : shift.kind == compare::Kind::latency ? "times"
                                                            : "values";
  return fmt::format("{} moved together: {} in the median of {} rows; rows are judged against that",
                     what, change_of(1, 1 + shift.change), shift.rows);
}

}  // namespace

void print_comparison(Output& output, const Comparison& comparison, bool all, size_t top) {
  print_side(output, "before", comparison.before);
  print_side(output, "after", comparison.after);
  for (const compare::Shift& shift : comparison.shifts) output.print("{}\n", shift_text(shift));
  const std::span<const Change> rows = comparison.rows;
  for (size_t first = 0; first < rows.size();) {
    size_t end = first;
    const compare::RowName& name = rows[first].name;
    while (end < rows.size() && rows[end].name.measure == name.measure &&
           rows[end].name.kind == name.kind)
      ++end;
    if (!name.measure.empty()) output.print("\n{}\n", output.bold(name.measure));
    print_changes(output, comparison, rows.subspan(first, end - first), {all, top});
    first = end;
  }
  output.print("{}\n", output.faint(noise_text(comparison)));
}

}  // namespace pinprick::cli
