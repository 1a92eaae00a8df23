#include "session/results.h"

#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "session/row_sum.h"

namespace pinprick::session {
namespace {

Recorded recorded_by(const engine::Session& session) {
  if (session.kind() == placement::Kind::count) return {.counters = session.counters()};
  return {.histograms = session.histograms(), .losses = session.losses()};
}

// Returns what a probe has recorded since `before`. Takes the histogram out of `now` if nothing was
// recorded before, and no later report needs it.
Row row_of(placement::Kind kind, size_t probe, Recorded& now, const Recorded& before, bool takes) {
  if (kind == placement::Kind::count) {
    const uint64_t earlier = probe < before.counters.size() ? before.counters[probe] : 0;
    return {.name = {}, .kind = kind, .hits = now.counters[probe] - earlier, .distribution = {}};
  }
  Distribution part;
  const bool is_first = before.histograms.empty();
  part.losses = is_first ? now.losses[probe] : now.losses[probe].since(before.losses[probe]);
  part.histogram = takes      ? std::move(now.histograms[probe])
                   : is_first ? now.histograms[probe]
                              : now.histograms[probe].since(before.histograms[probe]);
  return {.name = {}, .kind = kind, .hits = 0, .distribution = std::move(part)};
}

}  // namespace

// Of an interval: since the last report of one.
std::vector<Row> Results::rows_of(const engine::Batch& batch, Period period, Idle idle) {
  const engine::Session& session = batch.session;
  const bool is_whole = period == Period::whole;
  const Recorded nothing;
  Recorded& last = last_[batch.id];
  Recorded now = recorded_by(session);
  std::vector<Row> rows;
  if (idle == Idle::included) rows.reserve(session.probes().size());
  for (const engine::ArmedProbe& armed : session.probes()) {
    Row row = row_of(session.kind(), armed.index, now, is_whole ? nothing : last, is_whole);
    if (idle == Idle::left_out && !row.has_calls()) continue;
    row.name = session.name_of(armed);
    if (row.distribution && row.name.is_signed)
      row.distribution->negative = row.distribution->histogram.take_negative();
    rows.push_back(std::move(row));
  }
  if (!is_whole) last = std::move(now);
  return rows;
}

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

void Results::keep_names(std::vector<Row>& rows) {
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

void Results::retire(engine::Engine& engine, Batches::iterator batch) {
  for (auto [rows, period] :
       {std::pair(&interval_, Period::interval), std::pair(&whole_, Period::whole)}) {
    RowSum sum;
    sum.add_all(std::move(*rows));
    sum.add_all(rows_of(*batch, period, Idle::included));
    *rows = sum.take();
    keep_names(*rows);
  }
  last_.erase(batch->id);
  engine.batches().erase(batch);
}

Report Results::report(const Batches& batches, Period period, const ReportSink& sink) {
  Report report;
  report.is_final = period == Period::whole;
  auto before = period == Period::whole ? whole_ : std::exchange(interval_, {});
  size_t functions = before.size();
  for (const engine::Batch& batch : batches) functions += count_rows(batch.session);
  // Functions with the same name are told apart by their order, so none may be left out when the
  // rows of several batches are added up.
  const bool one = before.empty() && batches.size() == 1;
  const Idle idle = !one || sink.shows_idle(functions) ? Idle::included : Idle::left_out;
  RowSum sum;
  sum.add_all(std::move(before));
  for (const engine::Batch& batch : batches) sum.add_all(rows_of(batch, period, idle));
  report.rows = sum.take();
  if (idle == Idle::left_out) report.idle = functions - report.rows.size();
  return report;
}

}  // namespace pinprick::session
