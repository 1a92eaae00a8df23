#include "target/cpu_time.h"

#include <time.h>
#include <unistd.h>

#include "target/procfs.h"

namespace pinprick::target {

std::optional<uint64_t> cpu_time_ns(pid_t pid) {
  constexpr uint64_t kSecond = 1'000'000'000;
  clockid_t clock;
  timespec time;
  if (::clock_getcpuclockid(pid, &clock) == 0 && ::clock_gettime(clock, &time) == 0)
    return static_cast<uint64_t>(time.tv_sec) * kSecond + static_cast<uint64_t>(time.tv_nsec);
  const auto status = read_status(pid);
  const long ticks = ::sysconf(_SC_CLK_TCK);
  if (!status || ticks <= 0) return std::nullopt;
  return status->cpu_ticks * (kSecond / static_cast<uint64_t>(ticks));
}

}  // namespace pinprick::target
