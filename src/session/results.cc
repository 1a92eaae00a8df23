#include "session/results.h"

#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "session/row_sum.h"

namespace pinprick::session {
namespace {

// Functions without a hit.
enum class Idle : bool { left_out, included };

// Returns the rows of one batch. `last` is what it had recorded at the last report of an interval.
template <class Row>
std::vector<Row> rows_of(const engine::Session& session, Recorded& last, Period period, Idle idle);

template <>
std::vector<CountRow> rows_of(const engine::Session& session, Recorded& last, Period period,
                              Idle idle) {
  const bool whole = period == Period::whole;
  std::vector<CountRow> rows;
  if (idle == Idle::included) rows.reserve(session.probes().size());
  auto counters = session.counters();
  if (!whole) last.counters.resize(counters.size());
  for (const engine::ArmedProbe& armed : session.probes()) {
    const size_t i = armed.index;
    const uint64_t hits = counters[i] - (whole ? 0 : last.counters[i]);
    if (hits != 0 || idle == Idle::included) rows.push_back({session.name_of(armed), hits});
  }
  if (!whole) last.counters = std::move(counters);
  return rows;
}

template <>
std::vector<LatencyRow> rows_of(const engine::Session& session, Recorded& last, Period period,
                                Idle idle) {
  std::vector<LatencyRow> rows;
  if (idle == Idle::included) rows.reserve(session.probes().size());
  Recorded now = {{}, session.histograms(), session.unrecorded()};
  const bool whole = period == Period::whole;
  const bool from_start = whole || last.histograms.empty();
  for (const engine::ArmedProbe& armed : session.probes()) {
    const size_t i = armed.index;
    LatencyRow row;
    const ledger::Unrecorded before = from_start ? ledger::Unrecorded() : last.unrecorded[i];
    const ledger::Unrecorded& all = now.unrecorded[i];
    row.missed = all.missed - before.missed;
    row.unwound = all.unwound - before.unwound;
    row.abandoned = all.abandoned - std::min(all.abandoned, before.abandoned);
    row.ended = all.ended - before.ended;
    row.from_generated = all.from_generated - before.from_generated;
    row.repeated = all.repeated - before.repeated;
    row.unmatched = all.unmatched - before.unmatched;
    row.is_span = session.kind() == placement::Kind::span;
    row.histogram = whole        ? std::move(now.histograms[i])
                    : from_start ? now.histograms[i]
                                 : now.histograms[i].since(last.histograms[i]);
    if (!row.has_calls() && idle == Idle::left_out) continue;
    row.name = session.name_of(armed);
    rows.push_back(std::move(row));
  }
  if (!whole) last = std::move(now);
  return rows;
}

template <>
std::vector<ValueRow> rows_of(const engine::Session& session, Recorded& last, Period period,
                              Idle idle) {
  std::vector<ValueRow> rows;
  Recorded now = {{}, session.histograms(), session.unrecorded()};
  const bool from_start = period == Period::whole || last.histograms.empty();
  for (const engine::ArmedProbe& armed : session.probes()) {
    const size_t i = armed.index;
    ValueRow row;
    row.name = session.name_of(armed);
    row.missed = now.unrecorded[i].missed - (from_start ? 0 : last.unrecorded[i].missed);
    row.set(from_start ? now.histograms[i] : now.histograms[i].since(last.histograms[i]));
    if (!row.has_calls() && idle == Idle::left_out) continue;
    rows.push_back(std::move(row));
  }
  if (period == Period::interval) last = std::move(now);
  return rows;
}

}  // namespace

namespace {

// Returns how many rows there are with all those without a hit: one for each probe, but one for all
// sites of an SDT point.
size_t count_rows(const engine::Session& session) {
  size_t rows = 0;
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> points;
  for (const engine::ArmedProbe& armed : session.probes()) {
    const engine::ProbeName name = session.name_of(armed);
    if (!name.is_point || points.emplace(name.object, name.function, name.value).second) ++rows;
  }
  return rows;
}

}  // namespace

template <class Row>
void Results<Row>::keep_names(std::vector<Row>& rows) {
  const auto keep = [&](std::string_view& name) {
    auto known = names_.find(name);
    if (known == names_.end()) known = names_.emplace(name).first;
    name = *known;
  };
  for (Row& row : rows) {
    keep(row.name.object);
    keep(row.name.function);
    keep(row.name.value);
    keep(row.name.file);
  }
}

template <class Row>
void Results<Row>::retire(engine::Engine& engine, Batches::iterator batch) {
  for (auto [rows, period] :
       {std::pair(&interval_, Period::interval), std::pair(&whole_, Period::whole)}) {
    RowSum<Row> sum;
    sum.add_all(std::move(*rows));
    sum.add_all(rows_of<Row>(batch->session, last_[batch->id], period, Idle::included));
    *rows = sum.take();
    keep_names(*rows);
  }
  last_.erase(batch->id);
  engine.batches().erase(batch);
}

template <class Row>
Report<Row> Results<Row>::report(const Batches& batches, Period period, const ReportSink& sink) {
  Report<Row> report;
  report.is_final = period == Period::whole;
  auto before = period == Period::whole ? whole_ : std::exchange(interval_, {});
  size_t functions = before.size();
  for (const engine::Batch& batch : batches) functions += count_rows(batch.session);
  // Functions with the same name are told apart by their order, so none may be left out when the
  // rows of several batches are added up.
  const bool one = before.empty() && batches.size() == 1;
  const Idle idle = !one || sink.shows_idle(functions) ? Idle::included : Idle::left_out;
  RowSum<Row> sum;
  sum.add_all(std::move(before));
  for (const engine::Batch& batch : batches)
    sum.add_all(rows_of<Row>(batch.session, last_[batch.id], period, idle));
  report.rows = sum.take();
  if (idle == Idle::left_out) report.idle = functions - report.rows.size();
  return report;
}

template class Results<CountRow>;
template class Results<LatencyRow>;
template class Results<ValueRow>;

}  // namespace pinprick::session
