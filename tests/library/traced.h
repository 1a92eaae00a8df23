// Runs a part of a test in a process of its own that is traced as gdb traces: no SIGTRAP reaches
// it, and so a breakpoint of the library's would go wrong; all other signals do.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace pinprick {

// Counts what the tracer sees of the traced process.
struct Seen {
  int traps = 0;    // that were kept from the process
  int tasks = 0;    // threads and processes that it has started
  int status = -1;  // how it ended, as of waitpid()
};

class Tracer {
 public:
  explicit Tracer(pid_t child) : child_(child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, __WALL), child);
    EXPECT_TRUE(WIFSTOPPED(status));
    const long options =
        PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    EXPECT_EQ(::ptrace(PTRACE_SETOPTIONS, child, 0, options), 0);
  }

  // Lets the process run to its end.
  Seen run(int signal = 0) {
    Seen seen;
    ::ptrace(PTRACE_CONT, child_, 0, signal);
    for (;;) {
      int status = 0;
      const pid_t task = ::waitpid(-1, &status, __WALL);
      if (task < 0) return seen;
      if (!WIFSTOPPED(status)) {
        if (task != child_) continue;
        seen.status = status;
        return seen;
      }
      const bool is_event = status >> 16 != 0;
      int passed = WSTOPSIG(status);
      if (is_event) {
        ++seen.tasks;
        passed = 0;
      } else if (passed == SIGTRAP) {
        ++seen.traps;
        passed = 0;
      } else if (passed == SIGSTOP) {
        passed = 0;  // a new task
      }
      ::ptrace(PTRACE_CONT, task, 0, passed);
    }
  }

 private:
  pid_t child_;
};

inline void wait_for_tracer() {
  ::ptrace(PTRACE_TRACEME, 0, 0, 0);
  ::raise(SIGSTOP);
}

// f() is traced from its start. Its expectations have to hold, and no SIGTRAP may come.
template <class F>
void in_traced_child(F&& f) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    wait_for_tracer();
    f();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  const Seen seen = Tracer(child).run();
  EXPECT_TRUE(WIFEXITED(seen.status)) << "ended by signal " << WTERMSIG(seen.status);
  EXPECT_EQ(WEXITSTATUS(seen.status), 0);
  EXPECT_EQ(seen.traps, 0);
}

}  // namespace pinprick
