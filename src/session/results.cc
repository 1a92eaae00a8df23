#include "session/results.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "session/code_names.h"
#include "session/keyed_rows.h"
#include "session/row_sum.h"

namespace pinprick::session {
namespace {

Recorded recorded_by(engine::Session& session, Period period) {
  auto extremes = period == Period::whole ? session.extremes() : session.end_interval();
  auto keys = session.keys(extremes);
  return {session.counters(), session.histograms(), session.losses(),
          std::move(keys),    session.sums(),       std::move(extremes),
          session.rests(),    session.unread(),     session.events(),
          session.dropped(),  session.passed(),     session.has_overwritten_events()};
}

uint64_t counted_since(const std::vector<uint64_t>& now, const std::vector<uint64_t>& before,
                       size_t cell) {
  const auto at = [&](const std::vector<uint64_t>& all) {
    return cell < all.size() ? all[cell] : 0;
  };
  return at(now) - at(before);
}

uint64_t added_since(bool are_real, const std::vector<uint64_t>& now,
                     const std::vector<uint64_t>& before, size_t cell) {
  const auto at = [&](const std::vector<uint64_t>& all) {
    return cell < all.size() ? all[cell] : 0;
  };
  return layout::subtracted(at(now), at(before), are_real);
}

// The losses of events at returns are those of the calls.
Row row_of_events(const action::Action& action, uint32_t probe, size_t cell, const Recorded& now,
                  const Recorded& before) {
  Row row = {.name = {},
             .measure = action.measure,
             .kind = action.kind,
             .hits = counted_since(now.events, before.events, probe),
             .distribution = Distribution{stats::Histogram(0), 0, {}},
             .lacks_older_events = now.lacks_older_events};
  if (action.every > 1)
    row.sample = Sample{action.every, counted_since(now.passed, before.passed, probe)};
  layout::Losses& losses = row.distribution->losses;
  if (action.at_return) {
    losses = before.losses.empty() ? now.losses[cell] : now.losses[cell].since(before.losses[cell]);
    return row;
  }
  losses[layout::Loss::unread] = counted_since(now.unread, before.unread, probe);
  losses[layout::Loss::dropped] = counted_since(now.dropped, before.dropped, probe);
  return row;
}

layout::Extremes extremes_of(const Recorded& now, uint64_t owner) {
  const uint64_t index = owner / sizeof(uint64_t);
  return index < now.extremes.size() ? now.extremes[index] : layout::Extremes();
}

// Returns what a probe has recorded since `before`. Takes the histogram out of `now` if nothing was
// recorded before, and no later report needs it.
Row row_of(const action::Action& action, engine::ProbeName name, size_t cell, Recorded& now,
           const Recorded& before, bool takes) {
  if (action.counts()) {
    Row row = {.name = std::move(name),
               .measure = action.measure,
               .kind = action.kind,
               .hits = counted_since(now.counters, before.counters, cell),
               .distribution = {}};
    if (action.has_sum()) row.sum = added_since(row.name.is_sum_real, now.sums, before.sums, cell);
    return row;
  }
  Distribution part;
  const bool is_first = before.histograms.empty();
  part.losses = is_first ? now.losses[cell] : now.losses[cell].since(before.losses[cell]);
  part.histogram = takes      ? std::move(now.histograms[cell])
                   : is_first ? now.histograms[cell]
                              : now.histograms[cell].since(before.histograms[cell]);
  Row row = {.name = std::move(name),
             .measure = action.measure,
             .kind = action.kind,
             .distribution = std::move(part)};
  // A count of returns is shown as one.
  if (action.kind == placement::Kind::count) row.hits = row.histogram().count();
  if (action.kind == placement::Kind::count && action.uses_keys())
    row.hits = counted_since(now.rests.hits, before.rests.hits, cell);
  if (action.has_sum())
    row.sum = added_since(row.name.is_sum_real, now.rests.sums, before.rests.sums, cell);
  return row;
}

}  // namespace

// Of an interval: since the last report of one.
std::vector<Row> Results::rows_of(engine::Batch& batch, Period period, Idle idle) {
  engine::Session& session = batch.session;
  const bool is_whole = period == Period::whole;
  const Recorded nothing;
  Recorded& last = last_[batch.id];
  Recorded now = recorded_by(session, period);
  if (is_whole) now.lacks_older_events |= session.has_overwritten_before();
  const auto texts = session.texts();
  names_of_code_.clear();
  std::vector<Row> rows;
  if (idle == Idle::included) rows.reserve(session.probes().size());
  for (const engine::ArmedProbe& armed : session.probes()) {
    const action::Action& action = session.action_of(armed);
    const Recorded& before = is_whole ? nothing : last;
    const size_t cell = session.cell_of(armed);
    Row row =
        action.kind == placement::Kind::event
            ? row_of_events(action, armed.index, cell, now, before)
            : row_of(action, action.uses_keys() ? session.name_of(armed) : engine::ProbeName(),
                     cell, now, before, is_whole);
    if (action.counts()) row.add_unread(counted_since(now.unread, before.unread, armed.index));
    const size_t first = rows.size();
    if (action.uses_keys()) {
      if (action.has_key()) row.key.emplace();
      const uint64_t owner = session.owner_of_keys(armed);
      if (action.keeps_extremes) row.extremes = extremes_of(now, owner);
      add_keyed_rows(row, keys_of(now.keys, owner), keys_of(before.keys, owner), rows);
      const bool has_texts = row.name.has_key_in_words();
      for (size_t i = first; i < rows.size() && has_texts; ++i)
        if (rows[i].key->value) rows[i].key = named(*rows[i].key->value, row.name, session, texts);
      if (has_command(row.name)) add_same_keys(rows, first);
      if (idle == Idle::left_out && has_nothing(rows.back())) rows.pop_back();
    } else if (idle == Idle::included || row.has_calls()) {
      row.name = session.name_of(armed);
      rows.push_back(std::move(row));
    }
    for (size_t i = first; i < rows.size(); ++i) rows[i].tell_negative();
  }
  if (!is_whole) last = std::move(now);
  return rows;
}

namespace {

// Returns how many rows there are with all those without a hit: one for each probe, but one for all
// sites of an SDT point. Of one measure, or of all.
size_t count_rows(const engine::Session& session, std::optional<uint32_t> measure = {}) {
  size_t rows = 0;
  std::set<std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>>
      points;
  for (const engine::ArmedProbe& armed : session.probes()) {
    if (measure && session.action_of(armed).measure != *measure) continue;
    const engine::ProbeName name = session.name_of(armed);
    if (!name.is_point ||
        points.emplace(name.object, name.function, name.value, name.condition).second)
      ++rows;
  }
  return rows;
}

}  // namespace

std::string_view Results::kept(std::string_view name) {
  auto known = names_.find(name);
  if (known == names_.end()) known = names_.emplace(name).first;
  return *known;
}

// The key of an address of code has its name instead: it lies elsewhere in another process. So has
// that of a thread.
RowKey Results::named(uint64_t key, const engine::ProbeName& name, const engine::Session& session,
                      const std::vector<ledger::ReadText>& texts) {
  const auto command = [&](pid_t tid) { return commands_->of(tid, monotonic_ns()); };
  if (name.is_key_command)
    return {.value = RowKey::kText, .text = kept(command(static_cast<pid_t>(key)))};
  if (name.is_key_list()) {
    auto parts = parts_of_key(key, name.key_parts, texts, [&](Address address, uint64_t before) {
      const auto [known, is_new] = names_of_code_.try_emplace({address, before});
      if (is_new) known->second = code_->name(session.image(), address, address - before).text();
      return known->second;
    });
    if (parts.empty()) return {.value = RowKey::kUnread};
    name_commands(parts, name, command);
    return {.value = RowKey::kText, .text = kept(as_text(parts))};
  }
  if (name.is_key_text) {
    RowKey text = key_of_text(key, texts);
    text.text = kept(text.text);
    return text;
  }
  return {.value = RowKey::kText, .text = kept(code_->name(session.image(), key, key - 1).text())};
}

void Results::keep_names(std::vector<Row>& rows) {
  for (Row& row : rows) for_each_text(row, [&](std::string_view& text) { text = kept(text); });
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

std::vector<Report> Results::reports(Batches& batches, const Selection& selection, Period period,
                                     const ReportSink& sink) {
  auto before = period == Period::whole ? whole_ : std::exchange(interval_, {});
  // Functions with the same name are told apart by their order, so none may be left out when the
  // rows of several batches are added up.
  const bool is_sum = !before.empty() || batches.size() != 1;
  size_t functions = before.size();
  for (const engine::Batch& batch : batches) functions += count_rows(batch.session);
  const Idle idle = is_sum || sink.shows_idle(functions) ? Idle::included : Idle::left_out;
  RowSum sum;
  sum.add_all(std::move(before));
  for (engine::Batch& batch : batches) sum.add_all(rows_of(batch, period, idle));
  std::vector<Row> rows = sum.take();
  std::vector<Report> reports;
  for (const Measure& measure : selection.measures) {
    Report& report = reports.emplace_back();
    report.measure = static_cast<uint32_t>(reports.size() - 1);
    report.name = measure.name;
    report.kind = measure.kind;
    report.is_final = period == Period::whole;
    if (selection.measures.size() == 1) {
      report.rows = std::move(rows);
      if (idle == Idle::left_out) report.idle = functions - count_functions(report.rows);
      break;
    }
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(report.rows),
                 [&](const Row& row) { return row.measure == report.measure; });
    if (idle == Idle::left_out)
      report.idle =
          count_rows(batches.front().session, report.measure) - count_functions(report.rows);
  }
  if (!selection.measures.empty() && selection.measures.back().is_self_time) {
    RowSum::add_self_times(reports.front().rows, std::move(reports.back().rows));
    reports.pop_back();
  }
  return reports;
}

}  // namespace pinprick::session
