#include "engine/engine.h"

#include <algorithm>
#include <map>

#include "ledger/turn.h"

namespace pinprick::engine {
namespace {

// By batch.
std::map<BatchId, std::vector<uint32_t>> sorted_out(std::span<const ProbeId> probes) {
  std::map<BatchId, std::vector<uint32_t>> all;
  for (const ProbeId& one : probes) all[one.batch].push_back(one.probe);
  return all;
}

}  // namespace

std::vector<ProbeId> Engine::all_of(const Batch& batch) {
  std::vector<ProbeId> all;
  for (uint32_t i = 0; i < batch.session.probes().size(); ++i) all.push_back({batch.id, i});
  return all;
}

Batch* Engine::find(BatchId id) {
  const auto found = std::find_if(batches_.begin(), batches_.end(),
                                  [&](const Batch& one) { return one.id == id; });
  return found == batches_.end() ? nullptr : &*found;
}

Batch& Engine::append(std::shared_ptr<image::ProcessImage> image, Session session) {
  return batches_.emplace_back(Batch{BatchId{next_++}, std::move(image), std::move(session)});
}

Result<ChangeReport, ledger::SessionError> Engine::apply(Change change) {
  const auto turn = ledger::Turn::take(target_.pid());
  if (!turn) return fail(turn.error());
  ChangeReport report;
  if (change.add) {
    auto session =
        Session::arm(target_, *change.add->image, std::move(change.add->set), change.add->options);
    if (!session) return fail(session.error());
    report.added = &append(std::move(change.add->image), *std::move(session));
    report.stopped_ns += report.added->session.report().stopped_ns;
  }
  if (auto changed = change_placed(change, report); !changed) {
    if (report.added != nullptr) {
      static_cast<void>(report.added->session.disarm());
      batches_.pop_back();
    }
    return fail(changed.error());
  }
  return report;
}

Result<void, ledger::SessionError> Engine::change_placed(const Change& change,
                                                         ChangeReport& report) {
  if (auto on = turn(change.enable, Switched::on, report); !on) return on;
  if (auto off = turn(change.disable, Switched::off, report); !off) return off;
  return remove(change, report);
}

Result<void, ledger::SessionError> Engine::turn(std::span<const ProbeId> probes, Switched to,
                                                ChangeReport& report) {
  for (const auto& [id, some] : sorted_out(probes)) {
    Batch* const batch = find(id);
    if (batch == nullptr) {
      report.unchanged += some.size();
      continue;
    }
    const auto switched = batch->session.turn(some, to);
    if (!switched) return fail(switched.error());
    (to == Switched::on ? report.enabled : report.disabled) += switched->changed;
    report.unchanged += switched->unswitched;
    report.stopped_ns += switched->stopped_ns;
  }
  return {};
}

Result<void, ledger::SessionError> Engine::remove(const Change& change, ChangeReport& report) {
  for (const auto& [id, some] : sorted_out(change.remove)) {
    Batch* const batch = find(id);
    if (batch == nullptr) {
      report.unchanged += some.size();
      continue;
    }
    Session& session = batch->session;
    const bool has_hooks = session.loader() != nullptr || session.exec() != nullptr;
    if (!has_hooks && session.has_only(some)) {
      const size_t left = session.placed();
      auto ended = session.disarm(change.now);
      if (!ended) return fail(ended.error());
      report.removed += left;
      report.ended += *ended;
      report.stopped_ns += ended->stopped_ns;
      continue;
    }
    const auto removed = session.remove(some);
    if (!removed) return fail(removed.error());
    report.removed += removed->removed;
    report.unchanged += removed->staying;
    report.stopped_ns += removed->stopped_ns;
  }
  return {};
}

LoaderWatch* Engine::loader() const {
  return batches_.empty() ? nullptr : batches_.front().session.loader();
}

std::vector<Range> Engine::code() const {
  std::vector<Range> code;
  for (const Batch& batch : batches_) {
    const auto some = batch.session.code();
    code.insert(code.end(), some.begin(), some.end());
  }
  return code;
}

uint64_t Engine::refused() const {
  uint64_t refused = 0;
  for (const Batch& batch : batches_) refused += batch.session.refused();
  return refused;
}

uint64_t Engine::slots_to_ask_for() const {
  uint64_t slots = 0;
  for (const Batch& batch : batches_) slots = std::max(slots, batch.session.slots_to_ask_for());
  return slots;
}

bool Engine::has_hits() const {
  return std::any_of(batches_.begin(), batches_.end(),
                     [](const Batch& batch) { return batch.session.has_hits(); });
}

Result<void, ledger::SessionError> Engine::take_over_forked(const Engine& parent) {
  for (const Batch& batch : parent.batches_) {
    if (!batch.session.is_in(target_.pid())) continue;
    auto session = batch.session.fork_to(target_);
    if (!session && batches_.empty()) return fail(session.error());
    if (session) append(batch.image, *std::move(session));
  }
  return {};
}

}  // namespace pinprick::engine
