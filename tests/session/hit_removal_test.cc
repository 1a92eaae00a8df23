// When probes that were hit are looked for. That they are found and taken out is tested by
// tests/cli/once.bats.
#include "session/hit_removal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/remote_target.h"

namespace pinprick::session {
namespace {

TEST(HitRemoval, RestsAfterALookThatTookNoTimeAndFoundNothing) {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  const auto target = target::RemoteTarget::open(child);
  ASSERT_TRUE(target);
  engine::Engine engine(*target);
  HitRemoval removal;
  for (int look = 0; look < 3; ++look) {
    while (monotonic_ns() < removal.due_ns()) continue;
    const uint64_t start_ns = monotonic_ns();
    EXPECT_FALSE(removal.look(engine));
    EXPECT_GE(removal.due_ns(), start_ns + 10'000'000) << look;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace pinprick::session
