#include "target/stop.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "target/child.h"
#include "target/held_thread.h"
#include "target/procfs.h"

#ifndef TRAP_PERF
#define TRAP_PERF 6
#endif

namespace pinprick::target {
namespace {

void spin(Shared& shared) {
  while (!shared.stop) shared.rounds = shared.rounds + 1;
}

void start_thread(void* (*run)(void*), Shared& shared) {
  pthread_t id;
  pthread_create(&id, nullptr, run, &shared);
}

TEST(Stop, StopsAllThreadsAndResumesThem) {
  Child child([](Shared& shared) {
    for (int i = 0; i < 3; ++i)
      start_thread(
          [](void* s) -> void* {
            spin(*static_cast<Shared*>(s));
            return nullptr;
          },
          shared);
    spin(shared);
  });
  while (list_threads(child.pid()).size() < 4) sched_yield();
  {
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok());
    EXPECT_EQ(stop->threads().size(), 4u);
    const uint64_t rounds = child.shared().rounds;
    for (int i = 0; i < 1000; ++i) sched_yield();
    EXPECT_EQ(child.shared().rounds, rounds);
  }
  child.wait_for_rounds(1000);
  EXPECT_EQ(child.finish(), 0);
}

TEST(Stop, LeavesNoTracerBehind) {
  Child child(spin);
  child.wait_for_rounds(10);
  for (int i = 0; i < 50; ++i) {
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok());
  }
  const auto status = read_status(child.pid());
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->tracer, 0);
  child.wait_for_rounds(1000);
  EXPECT_EQ(child.finish(), 0);
}

TEST(Stop, FindsThreadsThatStartAndEndMeanwhile) {
  Child child([](Shared& shared) {
    while (!shared.stop) {
      pthread_t ids[8];
      for (auto& id : ids)
        pthread_create(
            &id, nullptr,
            [](void* s) -> void* {
              auto& own = *static_cast<Shared*>(s);
              __atomic_add_fetch(&own.rounds, 1, __ATOMIC_RELAXED);
              return nullptr;
            },
            &shared);
      for (auto& id : ids) pthread_join(id, nullptr);
    }
  });
  for (int i = 0; i < 100; ++i) {
    child.wait_for_rounds(5);
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok());
    // Every listed thread is among the stopped.
    for (pid_t tid : list_threads(child.pid())) {
      const auto status = read_thread_status(child.pid(), tid);
      if (!status || status->state == 'Z') continue;
      const bool known =
          std::any_of(stop->threads().begin(), stop->threads().end(),
                      [&](const StoppedThread& thread) { return thread.tid == tid; });
      EXPECT_TRUE(known) << "thread " << tid << " in state " << status->state;
    }
  }
  EXPECT_EQ(child.finish(), 0);
}

// epoll_wait is one of the calls that the kernel does not restart after a stop.
TEST(Stop, RestartsCallsThatTheKernelDoesNot) {
  Child child([](Shared& shared) {
    const int epoll = epoll_create1(0);
    while (!shared.stop) {
      epoll_event event;
      errno = 0;
      if (epoll_wait(epoll, &event, 1, 20) != 0) shared.failures = shared.failures + 1;
      shared.rounds = shared.rounds + 1;
    }
  });
  child.wait_until_running();
  for (int i = 0; i < 100; ++i) {
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok());
  }
  child.wait_for_rounds(2);
  EXPECT_EQ(child.finish(), 0);
}

// Only the effect of the stop is undone: the program's own signals still interrupt calls.
TEST(Stop, LetsTheProgramsOwnSignalsEndACallWithEintr) {
  Child child([](Shared& shared) {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr);
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    const int epoll = epoll_create1(0);
    while (!shared.stop) {
      epoll_event event;
      shared.rounds = shared.rounds + 1;
      // Only the signal may end the call, and no other code gets the signal.
      const int result = epoll_pwait(epoll, &event, 1, 10000, &none);
      if (result != -1 || errno != EINTR) shared.failures = shared.failures + 1;
    }
  });
  child.wait_until_running();
  for (int i = 0; i < 50; ++i) {
    const uint64_t rounds = child.shared().rounds;
    {
      auto stop = Stop::all_threads(child.pid());
      ASSERT_TRUE(stop.ok());
      if (i % 2 == 0) kill(child.pid(), SIGUSR1);  // arrives while it is stopped
    }
    if (i % 2 == 1) kill(child.pid(), SIGUSR1);
    while (child.shared().rounds == rounds) sched_yield();
  }
  child.shared().stop = 1;
  kill(child.pid(), SIGUSR1);
  EXPECT_EQ(child.finish(), 0);
}

TEST(Stop, LeavesAProcessInAGroupStop) {
  Child child(spin);
  child.wait_for_rounds(10);
  kill(child.pid(), SIGSTOP);
  int status = 0;
  waitpid(child.pid(), &status, WUNTRACED);
  {
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok());
  }
  const uint64_t rounds = child.shared().rounds;
  for (int i = 0; i < 1000; ++i) sched_yield();
  EXPECT_EQ(child.shared().rounds, rounds);
  kill(child.pid(), SIGCONT);
  child.wait_for_rounds(10);
  EXPECT_EQ(child.finish(), 0);
}

// As of a perf event, not of a breakpoint: that unblocks the signal.
TEST(Stop, StopsAThreadThatBlocksATrapThatIsPending) {
  Child child([](Shared& shared) {
    sigset_t traps;
    sigemptyset(&traps);
    sigaddset(&traps, SIGTRAP);
    sigprocmask(SIG_BLOCK, &traps, nullptr);
    siginfo_t info = {};
    info.si_signo = SIGTRAP;
    info.si_code = TRAP_PERF;
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGTRAP, &info) != 0)
      shared.failures = shared.failures + 1;
    spin(shared);
    if (sigtimedwait(&traps, &info, nullptr) != SIGTRAP) shared.failures = shared.failures + 1;
  });
  child.wait_until_running();
  {
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok());
    EXPECT_EQ(stop->threads().size(), 1u);
  }
  child.wait_for_rounds(10);
  EXPECT_EQ(child.finish(), 0);
}

TEST(Stop, NamesThePresentTracer) {
  Child child(spin);
  Child tracer([pid = child.pid()](Shared& shared) {
    if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) shared.failures = 1;
    while (!shared.stop) {
      shared.rounds = shared.rounds + 1;
      sched_yield();
    }
  });
  tracer.wait_until_running();
  const auto stop = Stop::all_threads(child.pid());
  ASSERT_FALSE(stop.ok());
  EXPECT_EQ(stop.error().cause, AttachCause::already_traced);
  EXPECT_EQ(stop.error().other, tracer.pid());
  EXPECT_EQ(tracer.finish(), 0);
  EXPECT_EQ(child.finish(), 0);
}

// A pinprick that is killed gives its turn to the next one before it lets go of its threads.
TEST(Stop, WaitsUntilATracerThatWasKilledHasLetGo) {
  Child child(spin);
  for (int i = 0; i < 10; ++i) {
    Child tracer([pid = child.pid()](Shared& shared) {
      if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) shared.failures = 1;
      // Memory that the kernel has to free before it lets go.
      if (mmap(nullptr, 64 << 20, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
        shared.failures = 1;
      for (;; sched_yield()) shared.rounds = shared.rounds + 1;
    });
    tracer.wait_until_running();
    ASSERT_EQ(tracer.shared().failures, 0);
    kill(tracer.pid(), SIGKILL);
    const auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok()) << "attempt " << i;
  }
  EXPECT_EQ(child.finish(), 0);
}

TEST(Stop, SaysThatAProcessHasEnded) {
  Child child([](Shared&) {});
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT);
  const auto stop = Stop::all_threads(child.pid());
  ASSERT_FALSE(stop.ok());
  EXPECT_EQ(stop.error().cause, AttachCause::exited);
}

// A vfork child keeps its parent in the kernel until the test tells it to end.
void be_held(Shared& shared) {
  static Shared* held;
  held = &shared;
  struct sigaction action = {};
  action.sa_handler = [](int) { held->failures = held->failures - 1; };
  sigaction(SIGUSR1, &action, nullptr);
  if (vfork() == 0) {
    while (!held->stop) sched_yield();
    _exit(0);
  }
}

class HeldThread : public testing::Test {
 protected:
  // The other thread runs.
  HeldThread()
      : child_([](Shared& shared) {
          start_thread(
              [](void* s) -> void* {
                spin(*static_cast<Shared*>(s));
                return nullptr;
              },
              shared);
          be_held(shared);
        }) {
    const auto is_held = [&] {
      const auto status = read_thread_status(child_.pid(), child_.pid());
      return status && status->state == 'D';
    };
    while (!is_held()) sched_yield();
    child_.wait_for_rounds(10);
    const auto stop = Stop::all_threads(child_.pid(), 20, 2);
    EXPECT_TRUE(!stop.ok() && stop.error().cause == AttachCause::thread_unstoppable &&
                stop.error().other == child_.pid());
  }
  ~HeldThread() override {
    child_.shared().stop = 1;
    while (Stop::settle() != 0) sched_yield();
  }

  Child child_;
};

TEST_F(HeldThread, IsNamedAndAllOthersGoOn) {
  child_.wait_for_rounds(10);
  EXPECT_EQ(Stop::settle(), 1u);
  child_.wait_for_rounds(10);
}

TEST_F(HeldThread, GoesOnAfterItsCallWhileItsTracerLives) {
  child_.shared().stop = 1;
  while (Stop::settle() != 0) sched_yield();
  EXPECT_EQ(child_.finish(), 0);
}

TEST_F(HeldThread, IsTakenOverByTheNextStop) {
  const auto again = Stop::all_threads(child_.pid(), 20, 2);
  EXPECT_TRUE(!again.ok() && again.error().cause == AttachCause::thread_unstoppable);
  child_.shared().stop = 1;
  {
    const auto stop = Stop::all_threads(child_.pid(), 200, 100);
    // The program may have ended by then.
    EXPECT_TRUE(stop.ok() || stop.error().cause == AttachCause::exited);
  }
  EXPECT_EQ(Stop::settle(), 0u);
  EXPECT_EQ(child_.finish(), 0);
}

TEST_F(HeldThread, GetsItsSignalsWhenItGoesOn) {
  child_.shared().failures = 1;  // the handler takes it back
  ASSERT_EQ(syscall(SYS_tgkill, child_.pid(), child_.pid(), SIGUSR1), 0);
  child_.shared().stop = 1;
  while (Stop::settle() != 0) sched_yield();
  EXPECT_EQ(child_.finish(), 0);
}

TEST_F(HeldThread, IsNotWaitedForWhenTheProgramIsKilled) {
  kill(child_.pid(), SIGKILL);
  while (Stop::settle() != 0) sched_yield();
  EXPECT_EQ(child_.finish(), -1);
}

// What a controller does that lives on.
void settle_until_stopped(Shared& shared) {
  while (!shared.stop) {
    Stop::settle();
    shared.rounds = shared.rounds + 1;
  }
}

// The tracer of a process is notified of its end first, and its parent after that.
TEST(Stop, LetsTheParentOfAKilledProcessSeeItsEnd) {
  Child child(spin);
  child.wait_for_rounds(10);
  Child controller([pid = child.pid()](Shared& shared) {
    {
      auto stop = Stop::all_threads(pid);
      if (!stop.ok()) shared.failures = 1;
      kill(pid, SIGKILL);
    }
    settle_until_stopped(shared);
  });
  controller.wait_until_running();
  EXPECT_EQ(child.finish(), -1);
  EXPECT_EQ(controller.finish(), 0);
}

// It may be killed just before it is let go, and then has not ended yet.
TEST(Held, LetsTheParentOfAKilledThreadSeeItsEnd) {
  for (int i = 0; i < 50; ++i) {
    Child child(spin);
    child.wait_for_rounds(10);
    Child controller([pid = child.pid()](Shared& shared) {
      int status = 0;
      shared.failures = ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0 ||
                        ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) != 0 ||
                        waitpid(pid, &status, __WALL) != pid;
      std::optional<target::HeldThread> held(std::in_place, pid, pid);
      kill(pid, SIGKILL);
      held.reset();
      settle_until_stopped(shared);
    });
    controller.wait_until_running();
    EXPECT_EQ(child.finish(), -1);
    EXPECT_EQ(controller.finish(), 0);
  }
}

// The kernel lets no thread be seized during an execution, which waits for the threads that are.
TEST(Stop, LetsAProcessWithManyThreadsExecuteItselfAgainAndAgain) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl(TARGETS "executes", "executes", "200", nullptr);
    _exit(127);
  }
  int status = 0, stops = 0;
  // Its stops are left to the code that has asked for them.
  const auto has_ended = [&] {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           (info.si_pid == pid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED);
  };
  while (!has_ended())
    if (Stop::all_threads(pid).ok()) ++stops;
  while (Stop::settle() != 0) sched_yield();
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_GT(stops, 0);
}

// The first thread may end at any moment of a stop: before it is seized, or after.
TEST(Stop, HoldsTheOthersOfAFirstThreadThatEnds) {
  for (int i = 0; i < 100; ++i) {
    Child child([i](Shared& shared) {
      pthread_t id;
      pthread_create(
          &id, nullptr,
          [](void* s) -> void* {
            auto& own = *static_cast<Shared*>(s);
            while (!own.stop) own.others_rounds = own.others_rounds + 1;
            _exit(7);
          },
          &shared);
      while (shared.others_rounds == 0) sched_yield();
      shared.rounds = 1;
      for (volatile int wait = 0; wait < 200 * i;) wait = wait + 1;
      syscall(SYS_exit, 0);
    });
    child.wait_until_running();
    {
      const auto stop = Stop::all_threads(child.pid());
      ASSERT_TRUE(stop.ok());
      const uint64_t rounds = child.shared().others_rounds;
      for (int look = 0; look < 100; ++look) sched_yield();
      EXPECT_EQ(child.shared().others_rounds, rounds);
    }
    EXPECT_EQ(child.finish(), 7);
    EXPECT_EQ(Stop::settle(), 0u);
  }
}

TEST(Stop, LeavesTheExitStatusOfOurChildToBeWaitedFor) {
  for (int i = 0; i < 20; ++i) {
    Child child([](Shared& shared) {
      shared.rounds = 1;
      for (volatile int wait = 0; wait < 10'000;) wait = wait + 1;
      _exit(7);
    });
    child.wait_until_running();
    for (bool there = true; there;) there = Stop::all_threads(child.pid()).ok();
    EXPECT_EQ(child.finish(), 7);
  }
  Child child(spin);
  child.wait_for_rounds(10);
  {
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok());
    kill(child.pid(), SIGKILL);
  }
  EXPECT_EQ(Stop::settle(), 0u);
  EXPECT_EQ(child.finish(), -1);
}

// A thread that executes a program gets the first thread's TID.
TEST(Stop, LetsAProgramThatAnotherThreadExecutesRunToItsEnd) {
  for (int i = 0; i < 50; ++i) {
    Child child([](Shared& shared) {
      start_thread(
          [](void* s) -> void* {
            static_cast<Shared*>(s)->rounds = 1;
            execl("/bin/sh", "sh", "-c", "exit 7", nullptr);
            return nullptr;
          },
          shared);
      for (;;) pause();
    });
    child.wait_until_running();
    for (bool there = true; there;) there = Stop::all_threads(child.pid(), 20, 2).ok();
    while (Stop::settle() != 0) sched_yield();
    EXPECT_EQ(child.finish(), 7);
  }
}

TEST(Stop, WaitsForAThreadThatHangsWhileTheOthersGoOn) {
  Child child([](Shared& shared) {
    start_thread(
        [](void* s) -> void* {
          spin(*static_cast<Shared*>(s));
          return nullptr;
        },
        shared);
    for (;;) {
      if (shared.stop) return;
      if (vfork() == 0) {
        usleep(40'000);
        _exit(0);
      }
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
    }
  });
  child.wait_for_rounds(10);
  for (int i = 0; i < 5; ++i) {
    const auto stop = Stop::all_threads(child.pid(), 15, 20);
    EXPECT_TRUE(stop.ok());
  }
  child.wait_for_rounds(10);
  EXPECT_EQ(child.finish(), 0);
}

}  // namespace
}  // namespace pinprick::target
