#include "ledger/turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "target/held_thread.h"
#include "target/stop.h"

namespace pinprick::ledger {

struct Turn::All {
  std::mutex mutex;
  std::map<std::pair<pid_t, pid_t>, std::weak_ptr<const Held>> held;
  uint64_t last = 0;
  uint64_t most_waiting_ns = UINT64_MAX;
  uint64_t waited_ns = 0;  // in vain, and not forgotten
  uint64_t as_of_ns = 0;
  std::set<pid_t> locked_by_others;  // whose pidfds were waited for in vain

  // What is left of the time in which it may wait.
  uint64_t waiting_left_ns(uint64_t now_ns) {
    constexpr uint64_t kTimesAsLong = 16;
    waited_ns -= std::min(waited_ns, (now_ns - as_of_ns) / kTimesAsLong);
    as_of_ns = now_ns;
    return most_waiting_ns - std::min(most_waiting_ns, waited_ns);
  }
};

namespace {

// The process's pidfd, if it is a file of its own; else an empty descriptor.
Fd open_pidfd(pid_t pid) {
  constexpr long kPidFs = 0x50494446;
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  struct statfs system = {};
  const bool is_own = pidfd && ::fstatfs(pidfd.get(), &system) == 0 && system.f_type == kPidFs;
  return is_own ? std::move(pidfd) : Fd();
}

// Locks the file. Returns false if another one keeps it locked for that long.
bool lock_within(const Fd& file, uint64_t timeout_ns) {
  constexpr uint64_t kLongestPauseNs = 10'000'000;
  uint64_t pause_ns = 100'000;
  const uint64_t begin = monotonic_ns();
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (monotonic_ns() - begin > timeout_ns) return false;
    target::Stop::settle();
    sleep_ns(pause_ns);
    pause_ns = std::min(2 * pause_ns, kLongestPauseNs);
  }
  return true;
}

}  // namespace

Turn::All& Turn::all() {
  static All all;
  return all;
}

uint64_t Turn::number_of(pid_t pid) {
  const std::lock_guard lock(all().mutex);
  const auto found = all().held.find({pid, ::getpid()});
  const auto held = found == all().held.end() ? nullptr : found->second.lock();
  return held == nullptr ? 0 : held->number;
}

void Turn::limit_waiting(uint64_t total_ns) {
  const std::lock_guard lock(all().mutex);
  all().most_waiting_ns = total_ns;
  all().waited_ns = 0;
  all().as_of_ns = monotonic_ns();
}

Result<Turn, SessionError> Turn::take(pid_t pid, uint64_t timeout_ns) {
  const std::lock_guard lock(all().mutex);
  auto& held = all().held;
  std::erase_if(held, [](const auto& one) { return one.second.expired(); });
  if (const auto found = held.find({pid, ::getpid()}); found != held.end())
    if (auto turn = found->second.lock()) return Turn(std::move(turn));

  Fd file(::open(("/proc/" + std::to_string(pid) + "/personality").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return Turn(nullptr);
  constexpr uint64_t kHeldTimeoutNs = 1'000'000'000;
  if (timeout_ns <= kTimeoutNs && target::HeldThread::holds_any_of(pid))
    timeout_ns = std::min(timeout_ns, kHeldTimeoutNs);
  constexpr uint64_t kAlwaysNs = 20'000'000;
  const bool is_limited = timeout_ns <= kTimeoutNs && all().most_waiting_ns != UINT64_MAX;
  const uint64_t begin = monotonic_ns();
  if (is_limited)
    timeout_ns = std::min(timeout_ns, std::max(all().waiting_left_ns(begin), kAlwaysNs));
  const auto note_waited = [&] {
    if (is_limited) all().waited_ns += monotonic_ns() - begin;
  };
  if (!lock_within(file, timeout_ns)) {
    note_waited();
    return fail(SessionError(Busy{pid}));
  }
  constexpr uint64_t kPidfdTimeoutNs = 2'000'000'000;
  const uint64_t pidfd_timeout_ns =
      all().locked_by_others.contains(pid) ? 0 : std::min(timeout_ns, kPidfdTimeoutNs);
  Fd pidfd = open_pidfd(pid);
  if (pidfd && !lock_within(pidfd, pidfd_timeout_ns)) {
    note_waited();
    all().locked_by_others.insert(pid);
    pidfd.reset();
  }
  auto turn = std::make_shared<const Held>(Held{std::move(file), std::move(pidfd), ++all().last});
  held[{pid, ::getpid()}] = turn;
  return Turn(std::move(turn));
}

}  // namespace pinprick::ledger
