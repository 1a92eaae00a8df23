#include "session/budget_keeper.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "image/match.h"
#include "select/spec.h"
#include "target/cpu_time.h"

namespace pinprick::session {
namespace {

// A sample takes at most this part of one of our processors, unless that would make changes of the
// load be seen too late.
constexpr uint64_t kSamplingShare = 4;
constexpr uint64_t kLongestPauseNs = 100'000'000;
// To try to stop a process that cannot be stopped disturbs it as well.
constexpr uint64_t kFailedPauseNs = 200'000'000;
constexpr size_t kMostTimes = 1000;  // that one row was out
constexpr uint32_t kNoUnit = Budget::kNoUnit;

const engine::Batch* find(const engine::Engine& engine, engine::BatchId id) {
  const auto& batches = engine.batches();
  const auto found = std::find_if(batches.begin(), batches.end(),
                                  [&](const engine::Batch& one) { return one.id == id; });
  return found == batches.end() ? nullptr : &*found;
}

BudgetEvent::Function changed_function(const engine::ProbeName& name) {
  std::string text = image::name_at(name.function, name.offset);
  if (!name.value.empty()) text.append(" ").append(name.value);
  return {std::string(name.object), std::move(text), name.address, std::string(name.file)};
}

}  // namespace

BudgetKeeper::BudgetKeeper(const BudgetSpec& spec, pid_t pid, uint64_t begin_ns, Origin origin)
    : spec_(spec),
      pid_(pid),
      origin_(origin),
      budget_(spec.rule, begin_ns),
      begin_ns_(begin_ns),
      now_ns_(begin_ns),
      next_ns_(begin_ns),
      cpu_ns_(target::cpu_time_ns(pid)) {}

// The sites of an SDT point have one row.
BudgetKeeper::RowKey BudgetKeeper::key_of(uint32_t measure, const engine::ProbeName& name) {
  std::string what(name.value);
  if (name.at_return) what += select::kReturnMark;
  if (name.is_point) what.append(" ").append(name.function);
  return {measure, std::string(name.file), name.is_point ? 0 : name.address, std::move(what)};
}

MatchKey BudgetKeeper::key_of(const engine::Session& session, const engine::ArmedProbe& probe) {
  const image::Match& match = session.match_of(probe);
  return {match.pattern, match.object->path(), match.object->bias(), match.site};
}

float BudgetKeeper::cost_of(const engine::Session& session, const engine::ArmedProbe& probe) const {
  const double locked = session.report().locked ? spec_.costs.locked : 0;
  if (session.action_of(probe).times_call())
    return static_cast<float>(spec_.costs.call + 2 * locked);
  switch (session.kind_of(probe)) {
    case placement::Kind::count:
      return static_cast<float>(spec_.costs.count + locked);
    case placement::Kind::value:
    case placement::Kind::event:
      return static_cast<float>(spec_.costs.value + locked);
    case placement::Kind::latency:
      break;
    case placement::Kind::span:
      return static_cast<float>(spec_.costs.span + 2 * locked);
  }
  return 0;
}

// Those that can only be taken out of the text together, and those of one match: with every
// instruction of a function, it comes back as a whole.
std::vector<uint32_t> BudgetKeeper::units_of(const engine::Session& session) {
  constexpr uint32_t kNone = UINT32_MAX;
  const std::vector<uint32_t> group = session.groups();
  std::vector<uint32_t> leader(group.size());
  std::iota(leader.begin(), leader.end(), 0u);
  const auto lead = [&](uint32_t one) {
    while (leader[one] != one) one = leader[one] = leader[leader[one]];
    return one;
  };
  std::vector<uint32_t> first_of_group, first_of_match;
  const auto join = [&](std::vector<uint32_t>& first, uint32_t number, uint32_t probe) {
    if (number >= first.size()) first.resize(number + size_t{1}, kNone);
    if (first[number] == kNone) first[number] = probe;
    leader[lead(probe)] = lead(first[number]);
  };
  for (uint32_t i = 0; i < group.size(); ++i) {
    join(first_of_group, group[i], i);
    join(first_of_match, session.probes()[i].match, i);
  }
  std::vector<uint32_t> units(group.size());
  for (uint32_t i = 0; i < units.size(); ++i) units[i] = lead(i);
  return units;
}

// A unit that comes back inherits the failures of the one that was taken out.
void BudgetKeeper::watch(const engine::Batch& batch, const std::set<MatchKey>& in_place,
                         std::vector<BudgetEvent::Function>& back) {
  const engine::Session& session = batch.session;
  const auto& probes = session.probes();
  Watched watched;
  watched.batch = batch.id;
  // What was armed for this process has been hit since then only. A fork takes over figures.
  if (origin_ == Origin::forked)
    watched.hits = session.hits();
  else
    watched.hits.resize(probes.size());
  watched.unit_of = units_of(session);
  std::vector<uint32_t> returned;
  std::map<uint32_t, uint32_t> failures;
  if (!out_.empty())
    for (uint32_t i = 0; i < probes.size(); ++i) {
      const auto known = out_.find(key_of(session, probes[i]));
      if (known == out_.end() || session.is_removed(i)) continue;
      returned.push_back(i);
      uint32_t& most = failures[watched.unit_of[i]];
      most = std::max(most, budget_.failures(known->second));
    }
  std::vector<uint32_t> unit_of(probes.size(), kNoUnit);  // by the number that units_of() has given
  for (uint32_t& unit : watched.unit_of) {
    if (unit_of[unit] == kNoUnit) {
      const auto before = failures.find(unit);
      unit_of[unit] = budget_.add(before == failures.end() ? 0 : before->second);
    }
    unit = unit_of[unit];
  }
  for (const engine::ArmedProbe& probe : probes) watched.cost_ns.push_back(cost_of(session, probe));
  for (const uint32_t i : returned) note_in(session, probes[i], back);
  for (const uint32_t i : returned) forget_out(key_of(session, probes[i]));
  watched.is_back = !returned.empty();
  if (origin_ == Origin::forked) take_over_removed(session, watched, in_place);
  watched_.push_back(std::move(watched));
}

// What was out of the parent when it forked is out of the child as well, and may come back there.
void BudgetKeeper::take_over_removed(const engine::Session& session, const Watched& watched,
                                     const std::set<MatchKey>& in_place) {
  std::set<uint32_t> units;
  for (uint32_t i = 0; i < watched.unit_of.size(); ++i) {
    if (!session.is_removed(i)) continue;
    units.insert(watched.unit_of[i]);
    if (!in_place.contains(key_of(session, session.probes()[i])))
      note_out(session, i, watched.unit_of[i], begin_ns_);
  }
  for (const uint32_t unit : units)
    if (can_come_back(unit))
      budget_.try_later(unit);
    else
      budget_.forget(unit);
}

bool BudgetKeeper::can_come_back(uint32_t unit) const {
  const auto keys = keys_of_.find(unit);
  return keys != keys_of_.end() && keys->second != 0;
}

void BudgetKeeper::forget_out(const MatchKey& key) {
  const auto known = out_.find(key);
  if (known == out_.end()) return;
  if (--keys_of_[known->second] == 0) budget_.forget(known->second);
  out_.erase(known);
}

size_t BudgetKeeper::batches_brought_back() const {
  return static_cast<size_t>(std::count_if(watched_.begin(), watched_.end(),
                                           [](const Watched& one) { return one.is_back; }));
}

// A row is in again with the last of its sites.
void BudgetKeeper::note_in(const engine::Session& session, const engine::ArmedProbe& probe,
                           std::vector<BudgetEvent::Function>& back) {
  const engine::ProbeName name = session.name_of(probe);
  const auto row = absences_.find(key_of(session.action_of(probe).measure, name));
  if (row == absences_.end() || row->second.sites_out == 0) return;
  if (--row->second.sites_out != 0) return;
  row->second.times.back().until_ns = now_ns_;
  back.push_back(changed_function(name));
}

// Of the batches of a process that was taken over, one may have what another one has not.
std::set<MatchKey> BudgetKeeper::in_place(const engine::Engine& engine) const {
  std::set<MatchKey> in_place;
  if (origin_ != Origin::forked || !watched_.empty() || engine.batches().size() < 2)
    return in_place;
  for (const engine::Batch& batch : engine.batches())
    for (uint32_t i = 0; i < batch.session.probes().size(); ++i)
      if (!batch.session.is_removed(i))
        in_place.insert(key_of(batch.session, batch.session.probes()[i]));
  return in_place;
}

std::vector<BudgetEvent::Function> BudgetKeeper::follow(const engine::Engine& engine) {
  std::vector<BudgetEvent::Function> back;
  std::erase_if(watched_, [&](const Watched& one) {
    if (find(engine, one.batch) != nullptr) return false;
    for (const uint32_t unit : one.unit_of)
      if (unit != kNoUnit && !budget_.is_out(unit)) budget_.forget(unit);
    return true;
  });
  const std::set<MatchKey> others = in_place(engine);
  for (const engine::Batch& batch : engine.batches())
    if (std::none_of(watched_.begin(), watched_.end(),
                     [&](const Watched& one) { return one.batch == batch.id; }))
      watch(batch, others, back);
  return back;
}

std::vector<double> BudgetKeeper::sample(const engine::Engine& engine) {
  std::vector<double> cost_ns(budget_.units());
  for (Watched& watched : watched_) {
    const engine::Batch* const batch = find(engine, watched.batch);
    if (batch == nullptr) continue;
    auto hits = batch->session.hits();
    for (size_t i = 0; i < hits.size() && i < watched.hits.size(); ++i) {
      if (watched.unit_of[i] == kNoUnit) continue;
      // The process may write anything there.
      const uint64_t more = hits[i] - std::min(hits[i], watched.hits[i]);
      cost_ns[watched.unit_of[i]] +=
          static_cast<double>(more) * static_cast<double>(watched.cost_ns[i]);
    }
    watched.hits = std::move(hits);
  }
  return cost_ns;
}

// Returns what the process has used since the last call.
uint64_t BudgetKeeper::take_cpu_time() {
  const auto now = target::cpu_time_ns(pid_);
  if (!now) return 0;
  const uint64_t before = std::exchange(cpu_ns_, *now).value_or(*now);
  return *now - std::min(*now, before);
}

BudgetKeeper::Change BudgetKeeper::keep(engine::Engine& engine, uint64_t now_ns) {
  now_ns_ = now_ns;
  Change change;
  if (auto functions = follow(engine); !functions.empty()) {
    change.back = event(false, share_);
    change.back->functions = std::move(functions);
  }
  const auto cost_ns = sample(engine);
  const Budget::Decision decision = budget_.feed(now_ns, take_cpu_time(), cost_ns);
  share_ = decision.share;
  const uint64_t end_ns = monotonic_ns();
  next_ns_ = std::max(budget_.next_ns(),
                      end_ns + std::min(kLongestPauseNs, kSamplingShare * (end_ns - now_ns)));
  if (!decision.out.empty()) change.out = take_out(engine, decision);
  const std::set<uint32_t> back(decision.back.begin(), decision.back.end());
  if (!back.empty())
    for (const auto& [key, unit] : out_)
      if (back.contains(unit)) change.may_come_back.insert(key);
  if (const auto numbers = budget_.drop_forgotten(); !numbers.empty()) renumber(numbers);
  return change;
}

void BudgetKeeper::renumber(const std::vector<uint32_t>& numbers) {
  for (Watched& watched : watched_)
    for (uint32_t& unit : watched.unit_of)
      if (unit != kNoUnit) unit = numbers[unit];
  keys_of_.clear();
  for (auto& [key, unit] : out_) {
    unit = numbers[unit];
    ++keys_of_[unit];
  }
}

BudgetEvent BudgetKeeper::event(bool is_out, double share) const {
  return {static_cast<double>(now_ns_ - begin_ns_) / 1e9, is_out, share, spec_.rule.share, {}};
}

std::optional<BudgetEvent> BudgetKeeper::take_out(engine::Engine& engine,
                                                  const Budget::Decision& decision) {
  std::map<uint32_t, size_t> rank;
  for (size_t i = 0; i < decision.out.size(); ++i) rank.emplace(decision.out[i], i);
  std::vector<std::pair<size_t, BudgetEvent::Function>> functions;
  std::set<RowKey> named;
  std::set<uint32_t> gone, staying, untried;
  for (const Watched& watched : watched_) {
    std::vector<uint32_t> probes;
    for (uint32_t i = 0; i < watched.unit_of.size(); ++i)
      if (rank.contains(watched.unit_of[i])) probes.push_back(i);
    const auto batch =
        std::find_if(engine.batches().begin(), engine.batches().end(),
                     [&](const engine::Batch& one) { return one.id == watched.batch; });
    if (probes.empty() || batch == engine.batches().end()) continue;
    // Not by Engine::apply(), which would end a batch without other probes, and with it the
    // measurement of its calls in flight.
    engine::Session& session = batch->session;
    std::erase_if(probes, [&](uint32_t probe) { return session.is_removed(probe); });
    const auto removed = session.remove(probes);
    if (removed)
      budget_.charge(removed->stopped_ns);
    else
      next_ns_ = now_ns_ + kFailedPauseNs;
    for (const uint32_t probe : probes) {
      const uint32_t unit = watched.unit_of[probe];
      if (!session.is_removed(probe)) {
        (removed ? staying : untried).insert(unit);
        continue;
      }
      note_out(session, probe, unit, now_ns_);
      gone.insert(unit);
      const engine::ArmedProbe& armed = session.probes()[probe];
      const engine::ProbeName name = session.name_of(armed);
      if (named.insert(key_of(session.action_of(armed).measure, name)).second)
        functions.emplace_back(rank[unit], changed_function(name));
    }
  }
  // A unit of which some are out comes back with these.
  for (const uint32_t unit : staying)
    if (!gone.contains(unit)) budget_.keep_in(unit);
  for (const uint32_t unit : untried)
    if (!gone.contains(unit)) budget_.still_in(unit);
  for (const uint32_t unit : gone)
    if (!can_come_back(unit)) budget_.forget(unit);
  if (functions.empty()) return std::nullopt;
  std::stable_sort(functions.begin(), functions.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  BudgetEvent out = event(true, decision.share);
  for (auto& [order, function] : functions) out.functions.push_back(std::move(function));
  return out;
}

// Spans are not planned again: their starts and ends may be in several objects.
void BudgetKeeper::note_out(const engine::Session& session, uint32_t probe, uint32_t unit,
                            uint64_t from_ns) {
  const engine::ArmedProbe& armed = session.probes()[probe];
  Absences& row = absences_[key_of(session.action_of(armed).measure, session.name_of(armed))];
  if (row.sites_out++ == 0) row.times.push_back({from_ns});
  // The oldest two become one, which says too much rather than too little.
  if (row.times.size() > kMostTimes) {
    row.times[1].from_ns = row.times[0].from_ns;
    row.times.erase(row.times.begin());
  }
  if (session.kind_of(armed) == placement::Kind::span) return;
  if (out_.try_emplace(key_of(session, armed), unit).second) ++keys_of_[unit];
}

std::optional<BudgetEvent> BudgetKeeper::note_back(const engine::Engine& engine,
                                                   const std::set<MatchKey>& wanted,
                                                   uint64_t cost_ns, uint64_t now_ns) {
  now_ns_ = now_ns;
  BudgetEvent back = event(false, share_);
  budget_.pass(now_ns, take_cpu_time(), sample(engine));
  back.functions = follow(engine);
  budget_.charge(cost_ns);
  next_ns_ = std::min(next_ns_, budget_.next_ns());
  std::set<uint32_t> later;
  for (const MatchKey& key : wanted)
    if (const auto still = out_.find(key); still != out_.end()) later.insert(still->second);
  for (const uint32_t unit : later) budget_.try_later(unit);
  if (back.functions.empty()) return std::nullopt;
  return back;
}

void BudgetKeeper::forget_program(uint64_t now_ns) {
  now_ns_ = now_ns;
  for (const auto& [key, unit] : out_) budget_.forget(unit);
  out_.clear();
  keys_of_.clear();
  for (auto& [row, absences] : absences_)
    if (std::exchange(absences.sites_out, 0) != 0) absences.times.back().until_ns = now_ns;
}

void BudgetKeeper::note_absences(std::vector<Row>& rows, uint64_t from_ns,
                                 uint64_t until_ns) const {
  if (absences_.empty()) return;
  const auto seconds = [&](uint64_t ns) { return static_cast<double>(ns - begin_ns_) / 1e9; };
  for (Row& row : rows) {
    const auto found = absences_.find(key_of(row.measure, row.name));
    if (found == absences_.end()) continue;
    std::vector<Absence> absences;
    for (const Out& out : found->second.times) {
      if (out.until_ns <= from_ns || out.from_ns >= until_ns) continue;
      Absence& absence = absences.emplace_back(Absence{seconds(out.from_ns), std::nullopt});
      if (out.until_ns != UINT64_MAX) absence.until_s = seconds(out.until_ns);
    }
    if (!absences.empty()) row.absences = std::move(absences);
  }
}

BudgetFigures BudgetKeeper::figures() const {
  return {spec_.rule.share, budget_.spent_ns(), budget_.own_ns(), absences_.size()};
}

}  // namespace pinprick::session
