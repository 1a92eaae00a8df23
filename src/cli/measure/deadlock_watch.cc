#include "cli/measure/deadlock_watch.h"

#include <algorithm>

#include "base/clock.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"

namespace pinprick::cli {

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
    auto found = session::deadlocks(process, object_store());
    if (!found || found->deadlocks.empty()) continue;
    for (const std::vector<size_t>& ring : found->deadlocks)
      if (known_.insert(key_of(*found, ring)).second)
        renderer_.warning(warning::deadlock(*found, ring));
    std::erase_if(last_, [&](const auto& one) { return one.process.pid == process.pid; });
    last_.push_back(*std::move(found));
  }
  const uint64_t end = monotonic_ns();
  next_ns_ = end + std::max(kPauseNs, kTimesAsLong * (end - start));
}

void DeadlockWatch::show(const std::vector<ProcessName>& processes) {
  for (const ProcessName& process : processes) {
    const auto found = session::lasting_lock_waits(process, object_store());
    if (!found) continue;
    // The threads have just been stopped, to take the probes out, and may seem to have gone on.
    // What was a deadlock before still is one.
    std::erase_if(last_, [&](const auto& one) {
      return one.process.pid == process.pid && one.deadlocks.size() <= found->deadlocks.size();
    });
    if (!found->waits.empty()) renderer_.lock_waits(*found);
  }
  for (const session::LockWaits& one : last_) renderer_.deadlocks(one);
  last_.clear();
}

}  // namespace pinprick::cli
