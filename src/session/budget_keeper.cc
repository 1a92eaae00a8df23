#include "session/budget_keeper.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "image/match.h"
#include "target/cpu_time.h"

namespace pinprick::session {
namespace {

// Besides the time that it stands still: memory is mapped by one of its threads, and touched for
// the first time.
constexpr uint64_t kArmingCostNs = 300'000;
// A sample takes at most this part of one of our processors, unless that would make changes of the
// load be seen too late.
constexpr uint64_t kSamplingShare = 4;
constexpr uint64_t kLongestPauseNs = 100'000'000;
// To try to stop a process that cannot be stopped disturbs it as well.
constexpr uint64_t kFailedPauseNs = 200'000'000;

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
  if (name.is_point) what.append(" ").append(name.function);
  return {measure, std::string(name.file), name.is_point ? 0 : name.address, std::move(what)};
}

MatchKey BudgetKeeper::key_of(const engine::Session& session, const engine::ArmedProbe& probe) {
  const image::Match& match = session.match_of(probe);
  return {match.pattern, match.object->path(), match.object->bias(), match.site};
}

float BudgetKeeper::cost_of(const engine::Session& session, const engine::ArmedProbe& probe) const {
  const double locked = session.report().locked ? spec_.costs.locked : 0;
  switch (session.kind_of(probe)) {
    case placement::Kind::count:
      return static_cast<float>(spec_.costs.count + locked);
    case placement::Kind::value:
      return static_cast<float>(spec_.costs.value + locked);
    case placement::Kind::latency:
      return static_cast<float>(spec_.costs.call + 2 * locked);
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

// A unit that comes back starts with the failures of what went.
void BudgetKeeper::watch(const engine::Batch& batch, std::vector<BudgetEvent::Function>& back) {
  constexpr uint32_t kNone = UINT32_MAX;
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
  std::map<uint32_t, uint32_t> failures;
  if (!out_.empty())
    for (uint32_t i = 0; i < probes.size(); ++i)
      if (const auto known = out_.find(key_of(session, probes[i])); known != out_.end()) {
        uint32_t& most = failures[watched.unit_of[i]];
        most = std::max(most, budget_.failures(known->second));
      }
  std::vector<uint32_t> unit_of(probes.size(), kNone);  // by the number that units_of() has given
  for (uint32_t& unit : watched.unit_of) {
    if (unit_of[unit] == kNone) {
      const auto before = failures.find(unit);
      unit_of[unit] = budget_.add(before == failures.end() ? 0 : before->second);
    }
    unit = unit_of[unit];
  }
  for (uint32_t i = 0; i < probes.size(); ++i) {
    watched.cost_ns.push_back(cost_of(session, probes[i]));
    if (!absences_.empty()) note_in(session, probes[i], back);
    // Of a process that was forked from one in which it was out.
    if (!session.is_removed(i)) continue;
    budget_.forget(watched.unit_of[i]);
    absences_[key_of(session.action_of(probes[i]).measure, session.name_of(probes[i]))] = {
        {begin_ns_}};
  }
  watched.is_back = !back.empty();
  watched_.push_back(std::move(watched));
}

size_t BudgetKeeper::batches_brought_back() const {
  return static_cast<size_t>(std::count_if(watched_.begin(), watched_.end(),
                                           [](const Watched& one) { return one.is_back; }));
}

void BudgetKeeper::note_in(const engine::Session& session, const engine::ArmedProbe& probe,
                           std::vector<BudgetEvent::Function>& back) {
  const engine::ProbeName name = session.name_of(probe);
  const auto row = absences_.find(key_of(session.action_of(probe).measure, name));
  if (row != absences_.end() && row->second.back().until_ns == UINT64_MAX) {
    row->second.back().until_ns = now_ns_;
    back.push_back(changed_function(name));
  }
  const auto known = out_.find(key_of(session, probe));
  if (known == out_.end()) return;
  if (--keys_of_[known->second] == 0) budget_.forget(known->second);
  out_.erase(known);
}

std::vector<BudgetEvent::Function> BudgetKeeper::follow(const engine::Engine& engine) {
  std::vector<BudgetEvent::Function> back;
  std::erase_if(watched_, [&](const Watched& one) {
    if (find(engine, one.batch) != nullptr) return false;
    for (const uint32_t unit : one.unit_of)
      if (!budget_.is_out(unit)) budget_.forget(unit);
    return true;
  });
  for (const engine::Batch& batch : engine.batches())
    if (std::none_of(watched_.begin(), watched_.end(),
                     [&](const Watched& one) { return one.batch == batch.id; }))
      watch(batch, back);
  return back;
}

std::vector<double> BudgetKeeper::sample(const engine::Engine& engine) {
  std::vector<double> cost_ns(budget_.units());
  for (Watched& watched : watched_) {
    const engine::Batch* const batch = find(engine, watched.batch);
    if (batch == nullptr) continue;
    auto hits = batch->session.hits();
    for (size_t i = 0; i < hits.size() && i < watched.hits.size(); ++i) {
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
  static_cast<void>(follow(engine));
  const auto cost_ns = sample(engine);
  const Budget::Decision decision = budget_.feed(now_ns, take_cpu_time(), cost_ns);
  share_ = decision.share;
  const uint64_t took_ns = monotonic_ns() - now_ns;
  next_ns_ =
      std::max(budget_.next_ns(), now_ns + std::min(kLongestPauseNs, kSamplingShare * took_ns));
  Change change;
  if (!decision.out.empty()) change.out = take_out(engine, decision);
  const std::set<uint32_t> back(decision.back.begin(), decision.back.end());
  if (!back.empty())
    for (const auto& [key, unit] : out_)
      if (back.contains(unit)) change.may_come_back.insert(key);
  return change;
}

BudgetEvent BudgetKeeper::event(bool is_out, double share) const {
  return {static_cast<double>(now_ns_ - begin_ns_) / 1e9, is_out, share, spec_.rule.share, {}};
}

std::optional<BudgetEvent> BudgetKeeper::take_out(engine::Engine& engine,
                                                  const Budget::Decision& decision) {
  std::map<uint32_t, size_t> rank;
  for (size_t i = 0; i < decision.out.size(); ++i) rank.emplace(decision.out[i], i);
  std::vector<std::pair<size_t, BudgetEvent::Function>> functions;
  std::set<uint32_t> gone;
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
    const auto removed = session.remove(probes);
    if (removed)
      budget_.charge(removed->stopped_ns);
    else
      next_ns_ = now_ns_ + kFailedPauseNs;
    for (const uint32_t probe : probes) {
      const uint32_t unit = watched.unit_of[probe];
      if (!session.is_removed(probe)) {
        if (removed)
          budget_.keep_in(unit);
        else
          budget_.still_in(unit);
        continue;
      }
      note_out(session, probe, unit);
      gone.insert(unit);
      functions.emplace_back(rank[unit],
                             changed_function(session.name_of(session.probes()[probe])));
    }
  }
  // Of spans alone, nothing comes back.
  for (const uint32_t unit : gone)
    if (const auto keys = keys_of_.find(unit); keys == keys_of_.end() || keys->second == 0)
      budget_.forget(unit);
  if (functions.empty()) return std::nullopt;
  std::stable_sort(functions.begin(), functions.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  BudgetEvent out = event(true, decision.share);
  for (auto& [order, function] : functions) out.functions.push_back(std::move(function));
  return out;
}

// Spans are not planned again: their starts and ends may be in several objects.
void BudgetKeeper::note_out(const engine::Session& session, uint32_t probe, uint32_t unit) {
  const engine::ArmedProbe& armed = session.probes()[probe];
  auto& absences = absences_[key_of(session.action_of(armed).measure, session.name_of(armed))];
  if (absences.empty() || absences.back().until_ns != UINT64_MAX) absences.push_back({now_ns_});
  if (session.kind_of(armed) == placement::Kind::span) return;
  if (out_.try_emplace(key_of(session, armed), unit).second) ++keys_of_[unit];
}

std::optional<BudgetEvent> BudgetKeeper::note_back(const engine::Engine& engine,
                                                   const std::set<MatchKey>& wanted,
                                                   uint64_t stopped_ns, uint64_t now_ns) {
  now_ns_ = now_ns;
  BudgetEvent back = event(false, share_);
  budget_.pass(now_ns, take_cpu_time(), sample(engine));
  back.functions = follow(engine);
  budget_.charge(stopped_ns + kArmingCostNs);
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
    if (absences.back().until_ns == UINT64_MAX) absences.back().until_ns = now_ns;
}

void BudgetKeeper::note_absences(std::vector<Row>& rows, uint64_t from_ns,
                                 uint64_t until_ns) const {
  if (absences_.empty()) return;
  const auto seconds = [&](uint64_t ns) { return static_cast<double>(ns - begin_ns_) / 1e9; };
  for (Row& row : rows) {
    const auto found = absences_.find(key_of(row.measure, row.name));
    if (found == absences_.end()) continue;
    std::vector<Absence> absences;
    for (const Out& out : found->second) {
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
