#include "cli/measure/deadlock_watch.h"

#include <algorithm>

#include "base/clock.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"

namespace pinprick::cli {
namespace {

// Returns one of the deadlocks alone.
session::LockWaits only_ring(const session::LockWaits& waits, const std::vector<size_t>& ring) {
  session::LockWaits one = {waits.process, waits.threads, {}, {{}}};
  for (const size_t i : ring) {
    one.deadlocks.front().push_back(one.waits.size());
    one.waits.push_back(waits.waits[i]);
  }
  return one;
}

}  // namespace

DeadlockWatch::Key DeadlockWatch::key_of(const session::LockWaits& waits,
                                         const std::vector<size_t>& ring) {
  Key key;
  for (const size_t i : ring) key.emplace(waits.waits[i].thread, waits.waits[i].lock);
  return key;
}

bool DeadlockWatch::is_due() const {
  return monotonic_ns() >= next_ns_;
}

void DeadlockWatch::look(const std::vector<ProcessName>& processes) {
  constexpr uint64_t kPauseNs = 1'000'000'000, kTimesAsLong = 100;
  const uint64_t start = monotonic_ns();
  for (const ProcessName& process : processes) {
    const auto found = session::deadlocks(process, object_store());
    if (!found) continue;
    for (const std::vector<size_t>& ring : found->deadlocks)
      if (known_.try_emplace(key_of(*found, ring), only_ring(*found, ring)).second)
        renderer_.warning(warning::deadlock(*found, ring));
  }
  const uint64_t end = monotonic_ns();
  next_ns_ = end + std::max(kPauseNs, kTimesAsLong * (end - start));
}

bool DeadlockWatch::confirms_known(const session::LockWaits& found) const {
  return std::ranges::all_of(known_, [&](const auto& known) {
    return known.second.process.pid != found.process.pid ||
           std::ranges::any_of(found.deadlocks, [&](const std::vector<size_t>& ring) {
             return key_of(found, ring) == known.first;
           });
  });
}

// The threads were stopped when the probes were taken out, and take a moment to wait again.
std::optional<session::LockWaits> DeadlockWatch::look_at_end(const ProcessName& process) const {
  constexpr int kMostLooks = 10;
  constexpr uint64_t kPauseNs = 10'000'000;
  for (int looks = 1;; ++looks) {
    auto found = session::lasting_lock_waits(process, object_store());
    if (!found) return std::nullopt;
    if (confirms_known(*found) || looks == kMostLooks) return *std::move(found);
    sleep_ns(kPauseNs);
  }
}

// A deadlock that was seen lasts as long as its program, so it is shown even if no thread waits any
// more: then the process has ended, or runs another program.
void DeadlockWatch::show(const std::vector<ProcessName>& processes) {
  for (const ProcessName& process : processes) {
    const auto found = look_at_end(process);
    if (!found) continue;
    for (const std::vector<size_t>& ring : found->deadlocks) known_.erase(key_of(*found, ring));
    if (!found->waits.empty()) renderer_.lock_waits(*found);
  }
  for (const auto& [key, deadlock] : known_) renderer_.deadlocks(deadlock);
  known_.clear();
}

}  // namespace pinprick::cli
