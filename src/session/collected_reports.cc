#include "session/collected_reports.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace pinprick::session {

std::string_view CollectedReports::kept(std::string_view name) {
  auto known = names_.find(name);
  if (known == names_.end()) known = names_.emplace(name).first;
  return *known;
}

template <class Row>
void CollectedReports::add(Report<Row> report) {
  if (!std::holds_alternative<Kind<Row>>(kind_)) kind_.emplace<Kind<Row>>();
  auto& kind = std::get<Kind<Row>>(kind_);
  for (Row& row : report.rows) {
    const auto alias = aliases_.find(row.name.object);
    row.name.object =
        kept(alias == aliases_.end() ? row.name.object : std::string_view(alias->second));
    row.name.function = kept(row.name.function);
    row.name.value = kept(row.name.value);
    row.name.file = kept(row.name.file);
  }
  kind.has_any = true;
  has_rows_ |= !report.rows.empty();
  kind.has_spans |= report.has_spans;
  kind.slots_to_ask_for = std::max(kind.slots_to_ask_for, report.slots_to_ask_for);
  if (keep_ == Keep::each) {
    kind.sum.add_all(report.rows);
    kind.each.push_back(std::move(report));
  } else {
    kind.sum.add_all(std::move(report.rows));
  }
}

void CollectedReports::counts(const Report<CountRow>& report) {
  add(report);
}
void CollectedReports::latencies(const Report<LatencyRow>& report) {
  add(report);
}
void CollectedReports::values(const Report<ValueRow>& report) {
  add(report);
}

template <class Row>
void CollectedReports::hand_on(Report<Row> report, ReportSink& sink) {
  if (!sink.shows_idle(report.rows.size()))
    report.idle = std::erase_if(report.rows, [](const Row& row) { return !row.has_calls(); });
  if constexpr (std::is_same_v<Row, CountRow>)
    sink.counts(report);
  else if constexpr (std::is_same_v<Row, LatencyRow>)
    sink.latencies(report);
  else
    sink.values(report);
}

void CollectedReports::show(ReportSink& sink, const ProcessName& name, double seconds,
                            Period period) const {
  std::visit(
      [&](const auto& kind) {
        if constexpr (!std::is_same_v<decltype(kind), const std::monostate&>) {
          if (!kind.has_any) return;
          for (const auto& report : kind.each) hand_on(report, sink);
          auto copy = kind.sum;
          auto rows = copy.take();
          using Row = typename decltype(rows)::value_type;
          Report<Row> sum;
          sum.process = name;
          sum.seconds = seconds;
          sum.is_final = period == Period::whole;
          sum.rows = std::move(rows);
          sum.slots_to_ask_for = kind.slots_to_ask_for;
          sum.has_spans = kind.has_spans;
          hand_on(std::move(sum), sink);
        }
      },
      kind_);
}

void CollectedReports::clear() {
  kind_ = std::monostate();
  names_.clear();
}

}  // namespace pinprick::session
