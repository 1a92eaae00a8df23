#include "cli/watched.h"

#include <poll.h>

#include <algorithm>
#include <map>

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
  to.lost += from.lost;
  to.from_generated += from.from_generated;
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
  using Name = std::pair<std::string, std::string>;
  using Names = std::map<Name, size_t>;
  using Key = std::pair<Name, size_t>;

  static Key key_of(const Row& row, Names& seen) {
    Name name(row.object, row.function);
    const size_t number = seen[name]++;
    return {std::move(name), number};
  }

  std::vector<Row> rows_;
  std::map<Key, size_t> index_;
};

// Since the generation's last report, or in all.
template <class Row>
std::vector<Row> rows_of(Generation& generation, bool is_final);

template <>
std::vector<CountRow> rows_of(Generation& generation, bool is_final) {
  std::vector<CountRow> rows;
  rows.reserve(generation.session.probes().size());
  auto counters = generation.session.counters();
  generation.last_counters.resize(counters.size());
  for (const auto& [probe, index] : generation.session.probes()) {
    const uint64_t before = is_final ? 0 : generation.last_counters[index];
    rows.push_back({probe.match.object->name(), probe.match.name, counters[index] - before});
  }
  generation.last_counters = std::move(counters);
  return rows;
}

template <>
std::vector<LatencyRow> rows_of(Generation& generation, bool is_final) {
  std::vector<LatencyRow> rows;
  auto missed = generation.session.counters();
  auto unwound = generation.session.unwound();
  auto lost = generation.session.lost();
  auto from_generated = generation.session.from_generated();
  generation.last_counters.resize(missed.size());
  generation.last_unwound.resize(unwound.size());
  generation.last_lost.resize(lost.size());
  generation.last_from_generated.resize(from_generated.size());
  std::vector<stats::Histogram> histograms;
  const bool whole = is_final || generation.last_histograms.empty();
  for (const session::ArmedProbe& armed : generation.session.probes()) {
    const auto& [probe, index] = armed;
    histograms.push_back(generation.session.histogram(armed));
    rows.push_back(
        {probe.match.object->name(), probe.match.name,
         whole ? histograms.back()
               : histograms.back().since(generation.last_histograms[histograms.size() - 1]),
         missed[index] - (is_final ? 0 : generation.last_counters[index]),
         unwound[index] - (is_final ? 0 : generation.last_unwound[index]),
         lost[index] - (is_final ? 0 : generation.last_lost[index]),
         from_generated[index] - (is_final ? 0 : generation.last_from_generated[index])});
  }
  generation.last_histograms = std::move(histograms);
  generation.last_counters = std::move(missed);
  generation.last_unwound = std::move(unwound);
  generation.last_lost = std::move(lost);
  generation.last_from_generated = std::move(from_generated);
  return rows;
}

template <class Row>
void add_past(Generation& generation, Past<Row>& past) {
  const auto add = [&](std::vector<Row>& to, bool all) {
    Rows<Row> rows;
    rows.add_all(std::move(to));
    rows.add_all(rows_of<Row>(generation, all));
    to = rows.take();
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
  if (kind_ == probe::Kind::count)
    add_past(*generation, past_counts_);
  else
    add_past(*generation, past_latencies_);
  generations.erase(generation);
}

template <class Row>
Report<Row> Watched::report(bool is_final, Past<Row>& past) {
  Report<Row> report;
  report.process = name;
  report.is_final = is_final;
  const uint64_t until_ns = ended_ns != 0 ? ended_ns : monotonic_ns();
  report.seconds = static_cast<double>(until_ns - (is_final ? armed_ns : last_ns)) / 1e9;
  Rows<Row> rows;
  auto before = std::exchange(past.since_report, {});
  rows.add_all(is_final ? past.all : std::move(before));
  for (Generation& generation : generations) rows.add_all(rows_of<Row>(generation, is_final));
  report.rows = rows.take();
  return report;
}

Report<CountRow> Watched::counts(bool is_final) {
  return report(is_final, past_counts_);
}

Report<LatencyRow> Watched::latencies(bool is_final) {
  return report(is_final, past_latencies_);
}

}  // namespace pinprick::cli
