#include "session/collected_reports.h"

#include <algorithm>
#include <utility>

namespace pinprick::session {

std::string_view CollectedReports::kept(std::string_view name) {
  auto known = names_.find(name);
  if (known == names_.end()) known = names_.emplace(name).first;
  return *known;
}

void CollectedReports::report(const Report& report) {
  Report copy = report;
  for (Row& row : copy.rows) {
    const auto alias = aliases_.find(row.name.object);
    if (alias != aliases_.end()) row.name.object = alias->second;
    for_each_text(row, [&](std::string_view& text) { text = kept(text); });
  }
  has_rows_ |= !copy.rows.empty();
  Sum& sum = sums_[copy.measure];
  sum.name = copy.name;
  sum.kind = copy.kind;
  sum.slots_to_ask_for = std::max(sum.slots_to_ask_for, copy.slots_to_ask_for);
  if (copy.budget) {
    BudgetFigures& budget = sum.budget ? *sum.budget : sum.budget.emplace();
    budget.limit = copy.budget->limit;
    budget.added_ns += copy.budget->added_ns;
    budget.own_ns += copy.budget->own_ns;
  }
  if (keep_ == Keep::each) {
    sum.rows.add_all(copy.rows);
    each_.push_back(std::move(copy));
  } else {
    sum.rows.add_all(std::move(copy.rows));
  }
}

void CollectedReports::hand_on(Report report, ReportSink& sink) {
  if (!sink.shows_idle(report.rows.size()))
    report.idle = std::erase_if(report.rows, [](const Row& row) { return !row.has_calls(); });
  sink.report(report);
}

void CollectedReports::show(ReportSink& sink, const ProcessName& name, double seconds,
                            Period period) const {
  for (const Report& report : each_) hand_on(report, sink);
  for (const auto& [measure, sum] : sums_) {
    RowSum rows = sum.rows;
    std::optional<BudgetFigures> budget = sum.budget;
    if (budget) budget->partial = partial_rows();
    hand_on({.process = name,
             .measure = measure,
             .name = sum.name,
             .kind = sum.kind,
             .seconds = seconds,
             .is_final = period == Period::whole,
             .rows = rows.take(),
             .slots_to_ask_for = sum.slots_to_ask_for,
             .budget = budget},
            sink);
  }
}

// Of all measures: a row of several processes is one.
size_t CollectedReports::partial_rows() const {
  size_t partial = 0;
  for (const auto& [measure, sum] : sums_) {
    RowSum rows = sum.rows;
    const std::vector<Row> all = rows.take();
    partial += static_cast<size_t>(std::count_if(
        all.begin(), all.end(), [](const Row& row) { return static_cast<bool>(row.absences); }));
  }
  return partial;
}

void CollectedReports::clear() {
  each_.clear();
  sums_.clear();
  names_.clear();
}

}  // namespace pinprick::session
