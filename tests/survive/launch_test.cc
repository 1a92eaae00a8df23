// pinprick is killed at every call while it starts a program. The program must end with it if it
// had not started, and otherwise run to its own end with right results. It must never be left
// stopped.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include <random>

#include "base/clock.h"
#include "survive/killing.h"
#include "survive/runtime_folder.h"

namespace pinprick::survive {
namespace {

// The exit statuses of the test's orphans; empty if none ends within 20 seconds.
std::vector<Ending> endings_of_orphans() {
  constexpr uint64_t kTimeoutNs = 20'000'000'000;
  std::vector<Ending> endings;
  for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin < kTimeoutNs; sched_yield()) {
    Ending ending;
    const pid_t pid = ::waitpid(-1, &ending.status, WNOHANG | __WALL);
    if (pid < 0) return endings;  // there are no more children
    if (pid > 0) endings.push_back(ending);
  }
  ADD_FAILURE() << "a program stays behind";
  return endings;
}

TEST(Launch, a_program_is_never_left_stopped) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  runtime_folder();
  const Command command = pinprick({"count", "--json", "steady:step", "--", TARGETS "steady", "2"});
  const KillReport whole = kill_at_stop(command, 0);
  ASSERT_TRUE(whole.ending.exited_with(0)) << whole.ending.text() << whole.output;
  std::mt19937_64 random{std::random_device{}()};
  const bool all = environment("KILLS") == "all";
  const int kills = all ? whole.stops : 15;
  for (int i = 0; i < kills; ++i) {
    const int begin = whole.stops * i / kills + 1, end = whole.stops * (i + 1) / kills;
    const int stop =
        all ? i + 1 : std::uniform_int_distribution(begin, std::max(begin, end))(random);
    const KillReport report = kill_at_stop(command, stop);
    for (const Ending& ending : endings_of_orphans())
      EXPECT_TRUE(ending.exited_with(0) || ending.killed_by(SIGKILL) || ending.exited_with(125))
          << ending.text() << ", killed at " << report.where << "\n"
          << report.output;
    if (HasFailure()) break;
    detach_everything();
    EXPECT_TRUE(session_files().empty()) << report.where;
  }
}

}  // namespace
}  // namespace pinprick::survive
