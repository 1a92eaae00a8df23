#include "session/forked_children.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "session/mapped_file.h"
#include "target/procfs.h"

namespace pinprick::session {

std::vector<ForkedChildren::Child> ForkedChildren::settled(
    const std::vector<const Measurement*>& parents) {
  constexpr uint64_t kEachNs = 50'000'000;
  constexpr uint64_t kPauses = 20;  // as long as a look took, at least
  constexpr size_t kMost = 8;       // at a time, as others wait for us meanwhile
  std::vector<Child> found;
  const uint64_t now_ns = monotonic_ns();
  if (now_ns < next_ns_) return found;
  std::set<pid_t> measured;
  for (const Measurement* parent : parents) measured.insert(parent->process().pid);
  std::set<pid_t> seen;
  for (const Measurement* parent : parents)
    for (const pid_t pid : target::children_of(parent->process().pid)) {
      if (measured.contains(pid) || left_.contains(pid)) continue;
      if (!seen_.contains(pid)) {
        seen.insert(pid);
        continue;
      }
      if (!parent->has_forked(pid) || target::shares_memory_with_parent(pid)) continue;
      seen.insert(pid);  // it may not be possible just now
      if (found.size() < kMost) found.push_back({parent, pid});
    }
  seen_ = std::move(seen);
  next_ns_ = now_ns + std::max(kEachNs, kPauses * (monotonic_ns() - now_ns));
  return found;
}

// One that we trace is about to execute a program, and so is one that waits for us in a hook.
Forked begin_forked(const Measurement& parent, MeasurementListener& listener) {
  Forked forked;
  std::set<pid_t> left;
  for (bool again = true; again;) {
    again = false;
    for (const pid_t pid : parent.forked()) {
      if (left.contains(pid)) continue;
      again = true;
      auto one = Measurement::begin_forked(pid, parent, listener);
      if (one) {
        forked.begun.push_back(*std::move(one));
        continue;
      }
      left.insert(pid);
      const auto status = target::read_status(pid);
      const bool is_ours = status && status->tracer == ::getpid();
      forked.is_pending = forked.is_pending || is_ours || is_busy(one.error());
    }
  }
  return forked;
}

}  // namespace pinprick::session
