#include "ledger/turn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "target/procfs.h"

namespace pinprick::ledger {
namespace {

constexpr uint64_t kShort = 20'000'000;

// Another controller, which has the turn of a process until it is killed.
class Holder {
 public:
  explicit Holder(pid_t of) {
    int ready[2];
    if (::pipe(ready) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto turn = Turn::take(of, kShort);
      static_cast<void>(!::write(ready[1], turn ? "y" : "n", 1));
      ::pause();
      ::_exit(0);
    }
    static_cast<void>(!::read(ready[0], &answer_, 1));
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Holder() { end(); }
  bool has_it() const { return answer_ == 'y'; }
  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  char answer_ = 0;
};

TEST(Turn, BelongsToOneControllerAtATime) {
  Holder other(::getpid());
  ASSERT_TRUE(other.has_it());
  const auto refused = Turn::take(::getpid(), kShort);
  ASSERT_FALSE(refused);
  EXPECT_EQ(std::get<Busy>(refused.error()).pid, ::getpid());
}

// Any user can open a process's folder, and lock it.
TEST(Turn, CannotBeKeptByAUserThatMayNotAttach) {
  if (::geteuid() != 0) GTEST_SKIP() << "another user's process needs root";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const std::string folder = "/proc/" + std::to_string(::getpid());
  const pid_t other = ::fork();
  if (other == 0) {
    constexpr uid_t kOther = 65534;
    if (::setresgid(kOther, kOther, kOther) != 0 || ::setresuid(kOther, kOther, kOther) != 0)
      ::_exit(1);
    for (const std::string& path : {folder, folder + "/mem"})
      ::flock(::open(path.c_str(), O_RDONLY), LOCK_EX | LOCK_NB);
    static_cast<void>(!::write(ready[1], "y", 1));
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_TRUE(Turn::take(::getpid(), kShort));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Its pidfd is the same file there. Any user could lock that one, so it is waited for, no more.
TEST(Turn, IsWaitedForIfItsHolderSeesTheProcessInAnotherMountOfProc) {
  if (::geteuid() != 0) GTEST_SKIP() << "another mount of /proc needs root";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t of = ::getpid();
  const pid_t other = ::fork();
  if (other == 0) {
    const bool has_mount = ::unshare(CLONE_NEWNS) == 0 &&
                           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                           ::mount("proc", "/proc", "proc", 0, nullptr) == 0;
    if (!has_mount) ::_exit(::write(ready[1], "m", 1) == 1 ? 0 : 1);
    const auto turn = Turn::take(of, kShort);
    static_cast<void>(!::write(ready[1], turn ? "y" : "n", 1));
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  EXPECT_EQ(::read(ready[0], &answer, 1), 1);
  struct statfs system = {};
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, of, 0)));
  const bool has_own_file = ::fstatfs(pidfd.get(), &system) == 0 && system.f_type == 0x50494446;
  const uint64_t begin = monotonic_ns();
  EXPECT_TRUE(Turn::take(of, kShort));
  const uint64_t waited = monotonic_ns() - begin;
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  if (answer == 'm') GTEST_SKIP() << "/proc cannot be mounted again here";
  if (!has_own_file) GTEST_SKIP() << "before Linux 6.9, all pidfds are one file";
  EXPECT_EQ(answer, 'y');
  EXPECT_GE(waited, kShort);
}

// Some user may keep the turns of all its processes; without a limit this takes minutes.
TEST(Turn, IsNotWaitedForLongOnceAllWaitingIsLimited) {
  Holder other(::getpid());
  ASSERT_TRUE(other.has_it());
  Turn::limit_waiting(kShort);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Turn::take(::getpid()));
  Turn::limit_waiting(UINT64_MAX);
}

TEST(Turn, IsFreeOnceItsHolderIsKilled) {
  Holder other(::getpid());
  ASSERT_TRUE(other.has_it());
  other.end();
  EXPECT_TRUE(Turn::take(::getpid(), kShort));
}

TEST(Turn, IsTheSameWhenTheSameControllerTakesItAgain) {
  auto outer = std::optional(Turn::take(::getpid(), kShort));
  ASSERT_TRUE(*outer);
  {
    const auto inner = Turn::take(::getpid(), kShort);
    EXPECT_TRUE(inner);
  }
  EXPECT_FALSE(Holder(::getpid()).has_it()) << "the outer one is still held";
  outer.reset();
  EXPECT_TRUE(Holder(::getpid()).has_it());
}

TEST(Turn, DoesNotBlockThatOfAnotherProcess) {
  const auto own = Turn::take(::getpid(), kShort);
  EXPECT_TRUE(Holder(::getppid()).has_it());
}

// Its memory cannot be opened in /proc then.
TEST(Turn, BelongsToOneControllerIfTheFirstThreadHasEnded) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::thread([] { ::pause(); }).detach();
    ::syscall(SYS_exit, 0);
  }
  for (auto status = target::read_thread_status(pid, pid); status && status->state != 'Z';
       status = target::read_thread_status(pid, pid))
    ::sched_yield();
  {
    const Holder first(pid);
    ASSERT_TRUE(first.has_it());
    EXPECT_FALSE(Turn::take(pid, kShort));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(Turn, IsFreeIfTheProcessIsGone) {
  Holder gone(::getpid());
  const pid_t pid = gone.pid();
  gone.end();
  EXPECT_TRUE(Turn::take(pid, kShort));
}

}  // namespace
}  // namespace pinprick::ledger
