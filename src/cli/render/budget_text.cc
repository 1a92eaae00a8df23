#include "cli/render/budget_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/render/text.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

// With more functions than this, the others are only counted.
constexpr size_t kNamed = 3;
constexpr size_t kListed = 10;

std::string functions_text(size_t n) {
  return fmt::format("{} {}", with_commas(n), n == 1 ? "function" : "functions");
}

std::string names_of_changed(const std::vector<session::BudgetEvent::Function>& all) {
  std::string text;
  const size_t named = std::min(kNamed, all.size());
  for (size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + all[i].name;
  if (named < all.size()) text += fmt::format(" and {} more", with_commas(all.size() - named));
  return text;
}

}  // namespace

std::string partial_mark(const session::Row& row) {
  return row.absences ? " (partial)" : "";
}

std::string percentage_text(double share) {
  return fmt::format("{:.{}f}%", share * 100, share < 0.0995 ? 1 : 0);
}

std::string text_of(const std::vector<session::Absence>& absences) {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, absences.size()); ++i) {
    const session::Absence& one = absences[i];
    text += fmt::format("{}from {:.2f} s {}", i == 0 ? "" : ", ", one.from_s,
                        one.until_s ? fmt::format("to {:.2f} s", *one.until_s) : "on");
  }
  if (absences.size() > kMost) text += fmt::format(", {} more times", absences.size() - kMost);
  return text;
}

std::string text_of(const session::BudgetEvent& event) {
  const std::string who = fmt::format("{} ({})", functions_text(event.functions.size()),
                                      names_of_changed(event.functions));
  if (!event.is_out) return fmt::format("{:.2f} s: probes are back on {}", event.seconds, who);
  return fmt::format(
      "{:.2f} s: the probes cost {} of the CPU time, more than {}; took them out of {}, whose "
      "figures are partial",
      event.seconds, percentage_text(event.share), percentage_text(event.limit), who);
}

std::string text_of(const session::BudgetFigures& figures) {
  const double share = figures.own_ns > 0 ? figures.added_ns / figures.own_ns : 0;
  return fmt::format(
      "budget {}: the probes added {} to {} of CPU time, as computed{}",
      percentage_text(figures.limit), percentage_text(share), duration_ns(figures.own_ns),
      figures.partial == 0
          ? "; all were in all the time"
          : fmt::format("; {} partial",
                        functions_text(figures.partial) + (figures.partial == 1 ? " is" : " are")));
}

// --- TextRenderer

void TextRenderer::budget_changed(const ProcessName& process, const session::BudgetEvent& event) {
  notes_.print("{}{}\n", several_ ? fmt::format("{} ({}): ", process.pid, process.command) : "",
               text_of(event));
}

void TextRenderer::partial_rows(const Report& report) {
  if (!report.is_final) return;
  std::vector<const Row*> partial;
  for (const Row& row : report.rows)
    if (row.absences) partial.push_back(&row);
  if (!partial.empty()) data_.print("partial, as the probes were out to keep the budget:\n");
  for (size_t i = 0; i < std::min(kListed, partial.size()); ++i) {
    const Row& row = *partial[i];
    // Those of many processes have no start in common.
    const std::string when = report.process.pid == 0 ? fmt::format("{} times", row.absences->size())
                                                     : text_of(*row.absences);
    data_.print("  {}: {}\n", label_of(row.name), when);
  }
  if (partial.size() > kListed)
    data_.print("  and {} more\n", functions_text(partial.size() - kListed));
  if (report.budget) data_.print("{}\n", text_of(*report.budget));
}

}  // namespace pinprick::cli
