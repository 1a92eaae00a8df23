#include "target/procfs.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "base/fd.h"
#include "image/maps.h"

namespace pinprick::target {
namespace {

// A child that prepares itself, reports that, and then sleeps until it is killed.
class Child {
 public:
  explicit Child(const std::function<void()>& prepare) {
    int ready[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      prepare();
      const char done = 1;
      if (::write(ready[1], &done, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char done = 0;
    EXPECT_EQ(::read(ready[0], &done, 1), 1);
    ::close(ready[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

TEST(ReadStatus, FindsTheCommandWhateverItsName) {
  for (const char* name :
       {"plain", "two words", ") R 1 (", "((", "))", "a) S 1 2 3", " ", "x\ty"}) {
    const Child child([name] { ::prctl(PR_SET_NAME, name); });
    const auto status = read_status(child.pid());
    ASSERT_TRUE(status) << name;
    EXPECT_EQ(status->command, name);
    EXPECT_TRUE(status->state == 'S' || status->state == 'R') << name << ": " << status->state;
    EXPECT_GT(status->start_time, 0u) << name;
    EXPECT_FALSE(status->kernel_thread) << name;
  }
}

TEST(ReadStatus, ANewlineInTheCommandHidesNoField) {
  const Child child([] { ::prctl(PR_SET_NAME, "a\nTracerPid:\t1"); });
  const auto status = read_status(child.pid());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->tracer, 0);
}

TEST(ReadStatus, StartTimeTellsProcessesApartAndStaysTheSame) {
  const auto first = read_status(::getpid());
  const auto again = read_status(::getpid());
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->start_time, again->start_time);
  const auto oldest = read_status(1);
  if (!oldest) GTEST_SKIP() << "process 1 is hidden";
  EXPECT_LE(oldest->start_time, first->start_time);
}

TEST(ReadStatus, SeesTheTracer) {
  const Child child([] { ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); });
  const auto status = read_status(child.pid());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->tracer, ::getpid());
}

TEST(ReadStatus, SeesASeccompFilter) {
  EXPECT_EQ(read_status(::getpid())->seccomp, ::prctl(PR_GET_SECCOMP));
}

TEST(ReadStatus, SeesZombies) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  const auto status = read_status(pid);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->state, 'Z');
  ::waitpid(pid, nullptr, 0);
  EXPECT_FALSE(read_status(pid)) << "reaped: there is no such process any more";
}

TEST(ReadStatus, KnowsKernelThreads) {
  const auto status = read_status(2);
  if (!status || status->command != "kthreadd") GTEST_SKIP() << "no kthreadd in this PID namespace";
  EXPECT_TRUE(status->kernel_thread);
  EXPECT_FALSE(read_status(::getpid())->kernel_thread);
}

TEST(ReadStatus, FailsForAProcessThatDoesNotExist) {
  EXPECT_FALSE(read_status(0));
  EXPECT_FALSE(read_status(INT32_MAX));
  EXPECT_FALSE(read_thread_status(::getpid(), INT32_MAX));
}

TEST(ThreadPosition, IsWhereAThreadThatWaitsGoesOn) {
  const Child child([] {});
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  const auto position = position_of(child.pid(), child.pid());
  ASSERT_TRUE(position);
  const auto maps = image::read_maps(child.pid());
  ASSERT_TRUE(maps);
  const auto mapping_of = [&](Address address) {
    for (const image::Mapping& one : *maps)
      if (one.range.contains(address)) return one;
    return image::Mapping();
  };
  EXPECT_EQ(mapping_of(position->stack_pointer).path, "[stack]");
  EXPECT_TRUE(mapping_of(position->instruction_pointer).executable);
}

TEST(SwitchesOf, AThreadThatHasRunAndWaitsAgainHasMore) {
  const Child child([] {});
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  // The position of a thread is known once it has left its CPU.
  const auto switches = [&] {
    while (!position_of(child.pid(), child.pid())) std::this_thread::yield();
    return switches_of(child.pid(), child.pid());
  };
  const auto before = switches();
  ASSERT_TRUE(before);
  EXPECT_EQ(switches(), before);
  ASSERT_EQ(::kill(child.pid(), SIGCONT), 0);
  ASSERT_EQ(::waitpid(child.pid(), &status, WCONTINUED), child.pid());
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  EXPECT_GT(switches(), before);
  EXPECT_FALSE(switches_of(child.pid(), ::getpid()));
}

TEST(HasMemory, TellsAProcessThatIsEndingFromOneThatRuns) {
  EXPECT_TRUE(has_memory(::getpid()));
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t seen = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(zombie), &seen, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(has_memory(zombie));
  ::waitpid(zombie, nullptr, 0);
}

TEST(TidInside, IsTheTidIfTheNamespacesAreTheSame) {
  EXPECT_EQ(tid_inside(::getpid(), ::gettid()), ::gettid());
  std::thread([] { EXPECT_EQ(tid_inside(::getpid(), ::gettid()), ::gettid()); }).join();
  EXPECT_EQ(tid_inside(::getpid(), 999'999'999), 0);
}

TEST(ListThreads, ListsEveryThreadOnceAndNoneThatHasEnded) {
  std::atomic<pid_t> tid = 0;
  std::atomic<bool> leave = false;
  std::thread thread([&] {
    ::prctl(PR_SET_NAME, "second");
    tid = ::gettid();
    tid.notify_one();
    leave.wait(false);
  });
  tid.wait(0);
  auto threads = list_threads(::getpid());
  std::sort(threads.begin(), threads.end());
  EXPECT_EQ(threads, (std::vector<pid_t>{::getpid(), tid}));
  const auto status = read_thread_status(::getpid(), tid);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->command, "second");
  EXPECT_NE(read_status(::getpid())->command, "second");
  leave = true;
  leave.notify_one();
  thread.join();
  EXPECT_TRUE(list_threads(INT32_MAX).empty());
}

}  // namespace
}  // namespace pinprick::target
