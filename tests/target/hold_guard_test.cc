#include "target/hold_guard.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "target/child.h"
#include "target/held_thread.h"
#include "target/stop.h"

namespace pinprick::target {
namespace {

void spin(Shared& shared) {
  while (!shared.stop) shared.rounds = shared.rounds + 1;
}

// Lets `hold` stop the child in a controller of its own, which then stops itself, as a user's
// SIGSTOP would. Returns the controller's exit status when it has run on, which nobody told it to.
template <class Hold>
int status_of_stopped_controller(const Hold& hold) {
  const pid_t controller = ::fork();
  if (controller == 0) ::_exit(hold());
  int status = 0;
  EXPECT_EQ(::waitpid(controller, &status, WUNTRACED), controller);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  EXPECT_EQ(::waitpid(controller, &status, WCONTINUED), controller);
  EXPECT_TRUE(WIFCONTINUED(status)) << status;
  EXPECT_EQ(::waitpid(controller, &status, 0), controller);
  return WEXITSTATUS(status);
}

TEST(HoldGuard, ContinuesAControllerThatIsStoppedWhileItStopsThreads) {
  Child child(spin);
  child.wait_for_rounds(10);
  EXPECT_EQ(status_of_stopped_controller([&] {
              auto stop = Stop::all_threads(child.pid());
              if (!stop) return 1;
              const uint64_t rounds = child.shared().rounds;
              ::raise(SIGSTOP);
              return child.shared().rounds == rounds ? 0 : 2;
            }),
            0);
  child.wait_for_rounds(1000);
  EXPECT_EQ(child.finish(), 0);
}

TEST(HoldGuard, ContinuesAControllerThatIsStoppedWhileItHoldsAThread) {
  Child child(spin);
  child.wait_for_rounds(10);
  EXPECT_EQ(status_of_stopped_controller([&] {
              int status = 0;
              if (ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) != 0 ||
                  ptrace(PTRACE_INTERRUPT, child.pid(), nullptr, nullptr) != 0 ||
                  ::waitpid(child.pid(), &status, __WALL) != child.pid())
                return 1;
              const HeldThread held(child.pid(), child.pid());
              ::raise(SIGSTOP);
              return 0;
            }),
            0);
  child.wait_for_rounds(1000);
  EXPECT_EQ(child.finish(), 0);
}

TEST(HoldGuard, SendsNothingWhenNoThreadIsHeldAnyMore) {
  sigset_t continued, before;
  sigemptyset(&continued);
  sigaddset(&continued, SIGCONT);
  pthread_sigmask(SIG_BLOCK, &continued, &before);
  {
    HoldGuard one;
    const HoldGuard other = std::move(one);
    const HoldGuard third;
  }
  // Longer than the timer runs.
  const timespec longer = {2, 0};
  EXPECT_EQ(::sigtimedwait(&continued, nullptr, &longer), -1);
  EXPECT_EQ(errno, EAGAIN);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(HoldGuard, SendsSigcontWhileAThreadIsHeld) {
  sigset_t continued, before;
  sigemptyset(&continued);
  sigaddset(&continued, SIGCONT);
  pthread_sigmask(SIG_BLOCK, &continued, &before);
  {
    HoldGuard one;
    const HoldGuard other = std::move(one);
    const timespec longer = {10, 0};
    EXPECT_EQ(::sigtimedwait(&continued, nullptr, &longer), SIGCONT);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace pinprick::target
