#include "cli/watched.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/clock.h"

namespace pinprick::cli {
namespace {

void add(CountRow& to, const CountRow& from) {
  to.hits += from.hits;
}

void add(LatencyRow& to, const LatencyRow& from) {
  to.histogram.merge(from.histogram);
  to.missed += from.missed;
  to.unwound += from.unwound;
  to.abandoned += from.abandoned;
  to.from_generated += from.from_generated;
  to.repeated += from.repeated;
  to.unmatched += from.unmatched;
}

void add(ValueRow& to, const ValueRow& from) {
  to.histogram.merge(from.histogram);
  to.missed += from.missed;
}

// The rows of all generations. What was unloaded and loaded again is one row.
template <class Row>
class Rows {
 public:
  // Of one generation; functions of one name are told apart by their order.
  void add_all(std::vector<Row> generation) {
    if (rows_.empty()) {  // the usual case: there is one generation, and nothing to look up
      rows_ = std::move(generation);
      return;
    }
    if (index_.empty()) {
      Names seen;
      for (size_t i = 0; i < rows_.size(); ++i) index_.emplace(key_of(rows_[i], seen), i);
    }
    Names seen;
    for (Row& row : generation) {
      const auto [at, is_new] = index_.try_emplace(key_of(row, seen), rows_.size());
      if (is_new)
        rows_.push_back(std::move(row));
      else
        add(rows_[at->second], row);
    }
  }
  std::vector<Row> take() { return std::move(rows_); }

 private:
  using Name = std::tuple<std::string_view, std::string_view, uint64_t, std::string_view>;
  using Names = std::map<Name, size_t>;
  using Key = std::pair<Name, size_t>;

  static Key key_of(const Row& row, Names& seen) {
    const Name name(row.name.object, row.name.function, row.name.offset, row.name.value);
    return {name, seen[name]++};
  }

  std::vector<Row> rows_;
  std::map<Key, size_t> index_;
};

// Since the generation's last report, or in all; those without a hit if `idle`.
template <class Row>
std::vector<Row> rows_of(Generation& generation, bool is_final, bool idle);

template <>
std::vector<CountRow> rows_of(Generation& generation, bool is_final, bool idle) {
  const engine::Session& session = generation.session;
  std::vector<CountRow> rows;
  if (idle) rows.reserve(session.probes().size());
  auto counters = session.counters();
  if (!is_final) generation.last_counters.resize(counters.size());
  for (const engine::ArmedProbe& armed : session.probes()) {
    const size_t i = armed.index;
    const uint64_t hits = counters[i] - (is_final ? 0 : generation.last_counters[i]);
    if (hits != 0 || idle) rows.push_back({session.name_of(armed), hits});
  }
  if (!is_final) generation.last_counters = std::move(counters);
  return rows;
}

template <>
std::vector<LatencyRow> rows_of(Generation& generation, bool is_final, bool idle) {
  const engine::Session& session = generation.session;
  std::vector<LatencyRow> rows;
  if (idle) rows.reserve(session.probes().size());
  Recorded now = {session.histograms(), session.unrecorded()};
  const Recorded& last = generation.last;
  const bool whole = is_final || last.histograms.empty();
  for (const engine::ArmedProbe& armed : session.probes()) {
    const size_t i = armed.index;
    LatencyRow row;
    const ledger::Unrecorded before = whole ? ledger::Unrecorded() : last.unrecorded[i];
    const ledger::Unrecorded& all = now.unrecorded[i];
    row.missed = all.missed - before.missed;
    row.unwound = all.unwound - before.unwound;
    row.abandoned = all.abandoned - before.abandoned;
    row.from_generated = all.from_generated - before.from_generated;
    row.repeated = all.repeated - before.repeated;
    row.unmatched = all.unmatched - before.unmatched;
    row.is_span = session.kind() == placement::Kind::span;
    row.histogram = is_final ? std::move(now.histograms[i])
                    : whole  ? now.histograms[i]
                             : now.histograms[i].since(last.histograms[i]);
    if (!row.has_calls() && !idle) continue;
    row.name = session.name_of(armed);
    rows.push_back(std::move(row));
  }
  if (!is_final) generation.last = std::move(now);
  return rows;
}

template <>
std::vector<ValueRow> rows_of(Generation& generation, bool is_final, bool idle) {
  const engine::Session& session = generation.session;
  std::vector<ValueRow> rows;
  Recorded now = {session.histograms(), session.unrecorded()};
  const Recorded& last = generation.last;
  const bool whole = is_final || last.histograms.empty();
  for (const engine::ArmedProbe& armed : session.probes()) {
    const size_t i = armed.index;
    ValueRow row;
    row.missed = now.unrecorded[i].missed - (whole ? 0 : last.unrecorded[i].missed);
    row.histogram = whole ? now.histograms[i] : now.histograms[i].since(last.histograms[i]);
    if (!row.has_calls() && !idle) continue;
    row.name = session.name_of(armed);
    rows.push_back(std::move(row));
  }
  if (!is_final) generation.last = std::move(now);
  return rows;
}

template <class Row>
void add_past(Generation& generation, Past<Row>& past) {
  const auto keep = [&](std::string_view& name) {
    auto known = past.names.find(name);
    if (known == past.names.end()) known = past.names.emplace(name).first;
    name = *known;
  };
  const auto add = [&](std::vector<Row>& to, bool all) {
    Rows<Row> rows;
    rows.add_all(std::move(to));
    rows.add_all(rows_of<Row>(generation, all, true));
    to = rows.take();
    for (Row& row : to) {
      keep(row.name.object);
      keep(row.name.function);
      keep(row.name.value);
    }
  };
  add(past.since_report, false);
  add(past.all, true);
}

}  // namespace

std::set<Place> places(const image::ProcessImage& image) {
  std::set<Place> places;
  for (const auto& object : image.objects) places.emplace(object->path(), object->bias());
  return places;
}

std::vector<Range> Watched::our_code() const {
  std::vector<Range> code;
  for (const Generation& generation : generations) {
    const auto some = generation.session.code();
    code.insert(code.end(), some.begin(), some.end());
  }
  return code;
}

void Watched::admit_callers() {
  std::vector<Range> code = our_code();
  code.insert(code.end(), object_code.begin(), object_code.end());
  for (Generation& generation : generations) generation.session.admit_callers(code);
}

std::vector<int> Watched::descriptors() const {
  std::vector<int> all = {target.exit_descriptor()};
  if (loader() != nullptr) all.push_back(loader()->descriptor());
  return all;
}

bool Watched::has_loaded() const {
  pollfd request = {loader() != nullptr ? loader()->descriptor() : -1, POLLIN, 0};
  return ::poll(&request, 1, 0) == 1;
}

uint64_t Watched::slots_to_ask_for() const {
  uint64_t slots = 0;
  for (const Generation& generation : generations)
    slots = std::max(slots, generation.session.slots_to_ask_for());
  return slots;
}

void Watched::retire(std::list<Generation>::iterator generation) {
  switch (kind_) {
    case placement::Kind::count:
      add_past(*generation, past_counts_);
      break;
    case placement::Kind::latency:
    case placement::Kind::span:
      add_past(*generation, past_latencies_);
      break;
    case placement::Kind::value:
      add_past(*generation, past_values_);
      break;
  }
  generations.erase(generation);
}

template <class Row>
Report<Row> Watched::report(bool is_final, Past<Row>& past, const ShowsIdle& shows_idle) {
  Report<Row> report;
  report.process = name;
  report.is_final = is_final;
  const uint64_t until_ns = ended_ns != 0 ? ended_ns : monotonic_ns();
  report.seconds = static_cast<double>(until_ns - (is_final ? armed_ns : last_ns)) / 1e9;
  auto before = is_final ? past.all : std::exchange(past.since_report, {});
  size_t functions = before.size();
  for (const Generation& generation : generations) functions += generation.session.probes().size();
  // Functions of one name are told apart by their order: where there is more than one generation,
  // all of them have to be there.
  const bool one = before.empty() && generations.size() == 1;
  const bool idle = !one || shows_idle(functions);
  Rows<Row> rows;
  rows.add_all(std::move(before));
  for (Generation& generation : generations) rows.add_all(rows_of<Row>(generation, is_final, idle));
  report.rows = rows.take();
  if (!idle) report.idle = functions - report.rows.size();
  return report;
}

Report<CountRow> Watched::counts(bool is_final, const ShowsIdle& shows_idle) {
  return report(is_final, past_counts_, shows_idle);
}

Report<ValueRow> Watched::values(bool is_final, const ShowsIdle& shows_idle) {
  return report(is_final, past_values_, shows_idle);
}

Report<LatencyRow> Watched::latencies(bool is_final, const ShowsIdle& shows_idle) {
  auto all = report(is_final, past_latencies_, shows_idle);
  all.has_spans = kind_ == placement::Kind::span;
  return all;
}

}  // namespace pinprick::cli
