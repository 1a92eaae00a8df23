#include "target/hold_guard.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "target/child.h"
#include "target/held_thread.h"
#include "target/stop.h"

namespace pinprick::target {
namespace {

void spin(Shared& shared) {
  while (!shared.stop) shared.rounds = shared.rounds + 1;
}

// Lets `hold` stop the child in a controller of its own, which then stops itself, as a user's
// SIGSTOP would. Returns the controller's exit status when it has run on by itself.
template <class Hold>
int status_of_stopped_controller(const Hold& hold) {
  const pid_t controller = ::fork();
  if (controller == 0) ::_exit(hold());
  int status = 0;
  EXPECT_EQ(::waitpid(controller, &status, WUNTRACED), controller);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  EXPECT_EQ(::waitpid(controller, &status, 0), controller);
  EXPECT_TRUE(WIFEXITED(status)) << status;
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

// Blocks SIGCONT while it lives.
class Continued {
 public:
  Continued() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGCONT);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  Continued(const Continued&) = delete;
  Continued& operator=(const Continued&) = delete;
  ~Continued() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  // Returns false if there was none within this time.
  bool comes_within(time_t seconds) const {
    const timespec longest = {seconds, 0};
    return ::sigtimedwait(&set_, nullptr, &longest) == SIGCONT;
  }

 private:
  sigset_t set_ = {}, before_ = {};
};

TEST(HoldGuard, SendsSigcontWhileAThreadIsHeldAndNothingAfterwards) {
  const Continued continued;
  {
    HoldGuard one;
    const HoldGuard other = std::move(one);
    { const HoldGuard third; }
    EXPECT_TRUE(continued.comes_within(10));
  }
  EXPECT_FALSE(continued.comes_within(2));  // longer than the timer runs
}

TEST(HoldGuard, IsKeptForAThreadThatWillStopWhenItComesOutOfTheKernel) {
  Child child([](Shared& shared) {
    if (vfork() == 0) {
      shared.rounds = 1;
      while (!shared.stop) continue;
      _exit(0);
    }
  });
  child.wait_until_running();
  const Continued continued;
  EXPECT_FALSE(Stop::one_thread(child.pid(), child.pid(), 10).ok());
  EXPECT_TRUE(continued.comes_within(10));
  child.shared().stop = 1;
  while (Stop::settle() != 0) sched_yield();
  EXPECT_FALSE(continued.comes_within(2));
  EXPECT_EQ(child.finish(), 0);
}

}  // namespace
}  // namespace pinprick::target
