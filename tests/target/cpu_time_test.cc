#include "target/cpu_time.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace pinprick::target {
namespace {

uint64_t own_cpu_time() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

TEST(CpuTime, IsWhatTheProcessItselfReads) {
  const uint64_t before = own_cpu_time();
  const auto between = cpu_time_ns(::getpid());
  const uint64_t after = own_cpu_time();
  ASSERT_TRUE(between);
  EXPECT_LE(before, *between);
  EXPECT_LE(*between, after);
}

// The child works for a millisecond of CPU time, and then waits; what it has used is exact to less
// than the kernel's ticks of ten milliseconds.
TEST(CpuTime, OfAnotherProcessIsExact) {
  int done[2];
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    while (own_cpu_time() < 1'000'000) continue;
    const uint64_t used = own_cpu_time();
    if (::write(done[1], &used, sizeof used) != sizeof used) ::_exit(1);
    for (;;) ::pause();
  }
  uint64_t used = 0;
  ASSERT_EQ(::read(done[0], &used, sizeof used), static_cast<ssize_t>(sizeof used));
  const auto first = cpu_time_ns(child);
  ASSERT_TRUE(first);
  EXPECT_GE(*first, used);
  EXPECT_LT(*first, used + 9'000'000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(cpu_time_ns(child));
  ::close(done[0]);
  ::close(done[1]);
}

}  // namespace
}  // namespace pinprick::target
