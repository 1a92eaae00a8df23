#include "cli/measure/lock_reports.h"

#include <algorithm>

#include "cli/messages/warnings.h"
#include "target/procfs.h"

namespace pinprick::cli {

LockReports::LockReports(const Options& options, Renderer& renderer)
    : options_(options), renderer_(renderer), events_(*this, options), watch_(renderer) {}

std::vector<ProcessName> LockReports::processes() const {
  std::vector<ProcessName> all = events_.processes();
  for (const pid_t pid : options_.pids) {
    if (std::ranges::count(all, pid, &ProcessName::pid) != 0) continue;
    const auto status = target::read_status(pid);
    if (status) all.push_back({pid, status->command});
  }
  return all;
}

void LockReports::show() {
  LockReport locks = events_.report();
  locks.seconds = sums_.end_turn();
  locks.is_final = rest_ != Rest::more;
  locks.dropped = sums_.dropped();
  // A thread whose release of a lock was dropped seems to have it, so orders may be wrong.
  if (locks.dropped != 0) locks.orders.clear();
  renderer_.locks(locks);
  if (locks.is_final) watch_.show(processes());
  for (const session::Report& report : sums_.final_reports()) renderer_.report(report);
  if (locks.is_final) warn_of(locks);
}

void LockReports::warn_of(const LockReport& locks) {
  if (locks.dropped != 0) renderer_.warning(warning::lock_events_dropped(locks.dropped));
  if (locks.no_room != 0) renderer_.warning(warning::no_room_for_locks(locks.no_room));
  if (locks.no_room_for_stacks != 0)
    renderer_.warning(warning::no_room_for_lock_stacks(locks.no_room_for_stacks));
  if (locks.no_room_for_orders != 0)
    renderer_.warning(warning::no_room_for_lock_orders(locks.no_room_for_orders));
  if (locks.unseen_releases != 0 && locks.dropped == 0)
    renderer_.warning(warning::releases_unseen(locks.unseen_releases));
  if (!sums_.has_entries() && locks.tells_holding && !locks.locks.empty())
    renderer_.warning(warning::nothing_releases());
}

}  // namespace pinprick::cli
