#include "session/events.h"

#include <algorithm>
#include <set>
#include <utility>

#include "session/code_names.h"

namespace pinprick::session {

EventReader::OfBatch EventReader::look_at(const engine::Session& session) {
  OfBatch batch;
  batch.positions.resize(session.events().size());
  batch.have_return_event.resize(batch.positions.size());
  std::set<Address> returning;
  for (const engine::ArmedProbe& one : session.probes())
    if (session.action_of(one).at_return && !session.action_of(one).triggers_end)
      returning.insert(session.match_of(one).site);
  for (uint32_t i = 0; i < session.probes().size(); ++i) {
    const engine::ArmedProbe& one = session.probes()[i];
    if (one.index >= batch.positions.size()) continue;
    batch.positions[one.index] = i + 1;
    batch.have_return_event[one.index] = !session.action_of(one).at_return &&
                                         !session.action_of(one).triggers_end &&
                                         returning.contains(session.match_of(one).site);
  }
  return batch;
}

const engine::ProbeName& EventReader::name_of(const engine::Session& session, OfBatch& batch,
                                              uint32_t probe) {
  const auto known = batch.names.find(probe);
  if (known != batch.names.end()) return known->second;
  const engine::ArmedProbe& armed = session.probes()[batch.positions[probe] - 1];
  return batch.names.emplace(probe, session.name_of(armed)).first->second;
}

namespace {

class TablesOfSession : public EventSource {
 public:
  TablesOfSession(const engine::Session& session, const LoadedCode& code)
      : session_(session), code_(code) {}

  std::vector<ledger::ReadText> texts_from(uint64_t number) const override {
    return session_.texts_from(number);
  }
  std::string name_of_code(Address address, uint64_t before) const override {
    return code_.name(session_.image(), address, address - before).text();
  }

 private:
  const engine::Session& session_;
  const LoadedCode& code_;
};

}  // namespace

EventReader::OfBatch& EventReader::of(const engine::Batch& batch) {
  const auto [known, is_new] = batches_.try_emplace(batch.id);
  if (is_new) known->second = look_at(batch.session);
  return known->second;
}

uint64_t EventReader::Taken::next_tsc() const {
  if (newest) return newest->next_tsc();
  return next == events.size() ? UINT64_MAX : events[next].tsc;
}

std::optional<ledger::Event> EventReader::Taken::take() {
  if (!newest) return events[next++];
  const ledger::Event event = newest->take();
  return session->count(event) ? std::optional(event) : std::nullopt;
}

// Takes the events of a session. Returns whether that should be done again soon.
bool EventReader::take_into(Taken& taken, engine::Session& session) {
  taken.session = &session;
  taken.next = 0;
  taken.events.clear();
  taken.newest.reset();
  if (session.keeps_newest_events()) {
    if (auto newest = session.newest_events()) taken.newest.emplace(*std::move(newest));
    return false;
  }
  const bool soon = session.take_events(taken.events);
  taken.events.sort_by_time();
  return soon;
}

// Hands over the next event.
void EventReader::hand_over(const ProcessName& process, Taken& taken, EventSink& sink) {
  const auto taken_event = taken.take();
  if (!taken_event) return;
  const ledger::Event& one = *taken_event;
  const engine::Session& session = *taken.session;
  OfBatch& own = *taken.batch;
  if (own.positions[one.probe] == 0) return;
  const auto tid = static_cast<pid_t>(one.tid);
  const std::string_view command = commands_->of(tid, clock_.now_ns());
  const auto& action = session.action_here(session.probes()[own.positions[one.probe] - 1]);
  own.values.fill(one.values, session.field_forms(one.probe), action, command,
                  TablesOfSession(session, *code_of_process_));
  const engine::ProbeName& name = name_of(session, own, one.probe);
  std::optional<uint64_t> latency_ns;
  std::span<const EventValue> values = own.values.values();
  if (name.at_return) {
    latency_ns = values.back().number;
    values = values.first(values.size() - 1);
  }
  // Threads without rseq share the areas.
  std::optional<uint32_t> cpu;
  if (one.area != 0 && !session.report().locked) cpu = static_cast<uint32_t>(one.area - 1);
  sink.event({process, one.tsc, clock_.time_of(one.tsc), tid, cpu, command, name, values,
              latency_ns, own.have_return_event[one.probe], action.span_part,
              own.values.stack_pointer(), action.triggers_end});
}

bool EventReader::read(const ProcessName& process, std::span<engine::Batch* const> batches,
                       EventSink& sink, Turn turn) {
  bool soon = false;
  size_t count = 0;
  for (engine::Batch* const batch : batches) {
    engine::Session& session = batch->session;
    if (session.events().empty()) continue;
    if (turn != Turn::last && (session.keeps_newest_events() || !sink.has_room())) continue;
    if (count == taken_.size()) taken_.emplace_back();
    Taken& taken = taken_[count];
    soon = take_into(taken, session) || soon;
    if (taken.next_tsc() == UINT64_MAX) continue;
    taken.batch = &of(*batch);
    ++count;
  }
  if (count == 0) return soon;
  clock_.look();
  const std::span all(taken_.data(), count);
  for (;;) {
    const auto first = std::ranges::min_element(all, {}, &Taken::next_tsc);
    if (first->next_tsc() == UINT64_MAX) break;
    uint64_t until = UINT64_MAX - 1;
    for (const Taken& other : all)
      if (&other != &*first) until = std::min(until, other.next_tsc());
    do hand_over(process, *first, sink);
    while (first->next_tsc() <= until);
  }
  for (Taken& taken : all) taken.newest.reset();
  return soon;
}

}  // namespace pinprick::session
