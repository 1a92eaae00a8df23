#include "session/hit_removal.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace pinprick::session {
namespace {

// A hit is seen within the longest pause, so long as that is cheap.
constexpr uint64_t kShortestRestNs = 10'000'000, kLongestRestNs = 50'000'000;
// How often the time that something took fits into the pause after it, at least: that the process
// stood still, that we have read the counters, and that we have worked on taking probes out.
constexpr uint64_t kPausesOfStops = 20, kPausesOfLooks = 20, kPausesOfRemovals = 4;
constexpr uint64_t kFirstRetryNs = 100'000'000, kLastRetryNs = 10'000'000'000;

}  // namespace

HitRemoval::Watched HitRemoval::watch(const engine::Session& session) {
  Watched watched;
  watched.unhit.reserve(session.probes().size());
  for (uint32_t i = 0; i < session.probes().size(); ++i)
    if (!session.is_removed(i))
      watched.unhit.push_back({i, static_cast<uint32_t>(session.cell_of(session.probes()[i]))});
  return watched;
}

std::vector<uint32_t> HitRemoval::take_hit(const engine::Session& session, Watched& watched) {
  std::vector<uint32_t> hit;
  if (watched.unhit.empty()) return hit;
  const std::vector<uint64_t> counters = session.counters();
  std::erase_if(watched.unhit, [&](const Unhit& one) {
    const bool is_hit = one.counter < counters.size() && counters[one.counter] != 0;
    if (is_hit) hit.push_back(one.probe);
    return is_hit;
  });
  return hit;
}

// Those that had to stay are tried again whenever others are taken out, as a neighbour may have
// been among these. Without that, a thread that kept one in the text may have moved on, or another
// owner may have left the site; to find that out stops the process if it is so, but not otherwise.
std::optional<ledger::SessionError> HitRemoval::remove(engine::Session& session, Watched& watched,
                                                       std::vector<uint32_t> hit, Effort& effort) {
  const uint64_t start_ns = monotonic_ns();
  if (hit.empty() && (watched.staying.empty() || start_ns < watched.retry_ns)) return std::nullopt;
  effort.has_news = effort.has_news || !hit.empty();
  const size_t before = watched.staying.size();
  const bool has_new = !hit.empty();
  watched.staying.insert(watched.staying.end(), hit.begin(), hit.end());
  const auto removed = session.remove(watched.staying);
  std::erase_if(watched.staying, [&](uint32_t probe) { return session.is_removed(probe); });
  const uint64_t now_ns = monotonic_ns();
  const bool is_better = has_new || watched.staying.size() < before;
  watched.retry_pause_ns =
      is_better ? kFirstRetryNs : std::min(kLastRetryNs, 2 * watched.retry_pause_ns);
  watched.retry_ns = now_ns + watched.retry_pause_ns;
  effort.remove_ns += now_ns - start_ns;
  if (!removed) return removed.error();
  effort.stopped_ns += removed->stopped_ns;
  return std::nullopt;
}

void HitRemoval::pace(const Effort& effort) {
  pause_ns_ = effort.has_news ? kShortestRestNs
                              : std::clamp(2 * pause_ns_, kShortestRestNs, kLongestRestNs);
  due_ns_ = monotonic_ns() +
            std::max({pause_ns_, kPausesOfStops * effort.stopped_ns,
                      kPausesOfLooks * effort.look_ns, kPausesOfRemovals * effort.remove_ns});
}

std::optional<ledger::SessionError> HitRemoval::look(engine::Engine& engine) {
  if (monotonic_ns() < due_ns_) return std::nullopt;
  std::optional<ledger::SessionError> failed;
  Effort effort;
  std::map<engine::BatchId, Watched> before = std::exchange(batches_, {});
  for (engine::Batch& batch : engine.batches()) {
    auto known = before.extract(batch.id);
    Watched& watched = batches_[batch.id];
    watched = known.empty() ? watch(batch.session) : std::move(known.mapped());
    const uint64_t start_ns = monotonic_ns();
    auto hit = take_hit(batch.session, watched);
    effort.look_ns += monotonic_ns() - start_ns;
    if (auto error = remove(batch.session, watched, std::move(hit), effort)) failed = error;
  }
  pace(effort);
  return failed;
}

}  // namespace pinprick::session
