#include "ledger/turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"

namespace pinprick::ledger {

Result<Turn, SessionError> Turn::take(pid_t pid, uint64_t timeout_ns) {
  static std::mutex mutex;
  // By target and controller: a forked child inherits this map, but is another controller.
  static std::map<std::pair<pid_t, pid_t>, std::weak_ptr<const Fd>> held;
  const std::lock_guard lock(mutex);
  std::erase_if(held, [](const auto& one) { return one.second.expired(); });
  if (const auto found = held.find({pid, ::getpid()}); found != held.end())
    if (auto folder = found->second.lock()) return Turn(std::move(folder));

  auto folder = std::make_shared<Fd>(
      ::open(("/proc/" + std::to_string(pid)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!*folder) return Turn(nullptr);
  constexpr uint64_t kLongestPauseNs = 10'000'000;
  uint64_t pause_ns = 100'000;
  const uint64_t begin = monotonic_ns();
  while (::flock(folder->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (monotonic_ns() - begin > timeout_ns) return fail(SessionError(Busy{pid}));
    sleep_ns(pause_ns);
    pause_ns = std::min(2 * pause_ns, kLongestPauseNs);
  }
  held[{pid, ::getpid()}] = folder;
  return Turn(std::move(folder));
}

}  // namespace pinprick::ledger
