// Which sessions a process has, by the files of all users.
#include "ledger/discovery.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/machine.h"
#include "ledger/runtime_directory.h"
#include "scratch.h"
#include "target/procfs.h"

namespace pinprick::ledger {
namespace {

// Files of this process, in a folder of the test's.
class Discovery : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    std::filesystem::create_directory(folder_ / "pinprick");
    const auto status = target::read_status(::getpid());
    ASSERT_TRUE(status);
    start_time_ = status->start_time;
  }
  void TearDown() override { ::unsetenv("XDG_RUNTIME_DIR"); }

  std::string path_of(unsigned number, pid_t named = ::getpid()) const {
    return folder_ / "pinprick/" + session_file_name(named, start_time_, number);
  }

  layout::Session session(uint64_t name_bytes = 1) const {
    layout::Session session;
    session.header = layout::lay_out({.name_bytes = name_bytes, .cpus = 1});
    session.header.pid = ::getpid();
    session.header.start_time = start_time_;
    std::string(boot_id()).copy(session.header.boot_id, sizeof session.header.boot_id - 1);
    session.names.resize(name_bytes);
    return session;
  }

  // The file is named as one of process `named`.
  void make_file(unsigned number, pid_t named = ::getpid()) {
    ASSERT_TRUE(SessionFile::create(path_of(number, named), session()));
  }

  // A file of an ended process, which had this PID before; returns its path.
  std::string make_file_of_ended(const layout::Session& like, unsigned number = 0) {
    layout::Session session = like;
    session.header.start_time = start_time_ - 1;
    session.header.state = layout::SessionState::armed;
    const std::string path =
        folder_ / "pinprick/" + session_file_name(::getpid(), start_time_ - 1, number);
    EXPECT_TRUE(SessionFile::create(path, session));
    return path;
  }

  const Scratch folder_;
  uint64_t start_time_ = 0;
};

TEST_F(Discovery, FindsTheJournalsOfMoreSessionsThanThereMayBeOpenFiles) {
  constexpr unsigned kSessions = 20;
  constexpr rlim_t kLeft = 4;
  for (unsigned i = 0; i < kSessions; ++i) make_file(i);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  ::close(next);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {static_cast<rlim_t>(next) + kLeft, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const FoundJournals found = find_journals(::getpid());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(found.journals.size(), kSessions);
  EXPECT_TRUE(found.unreadable.empty());
}

// Another user can give a file any name, and any process of its own as the one that it is of.
TEST_F(Discovery, BelievesNoFileThatIsNamedAsAnotherProcesss) {
  constexpr pid_t kOther = 1;
  make_file(0, kOther);
  EXPECT_TRUE(find_journals(kOther).journals.empty());
  const FoundSessions found = find_sessions(kOther);
  EXPECT_TRUE(found.sessions.empty());
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].cause, FileError::Cause::untrusted);
}

TEST_F(Discovery, FindsEachFileOnceAlsoIfItsFolderHasTwoNames) {
  make_file(0);
  ::setenv("XDG_RUNTIME_DIR", (folder_.path() + "/").c_str(), 1);
  EXPECT_EQ(find_journals(::getpid()).journals.size(), 1u);
}

TEST_F(Discovery, FindsEachFileOnceAlsoIfItHasManyNames) {
  make_file(0);
  for (unsigned i = 1; i < 5; ++i) std::filesystem::create_hard_link(path_of(0), path_of(i));
  EXPECT_EQ(find_journals(::getpid()).journals.size(), 1u);
}

// Any user could take away the right name of its file by a wrong one.
TEST_F(Discovery, FindsAFileByItsRightNameAlsoIfAWrongOneIsSeenFirst) {
  make_file(10);
  const std::string wrong = folder_ / "pinprick/" + std::to_string(::getpid()) + "-1.session";
  std::filesystem::create_hard_link(path_of(10), wrong);
  EXPECT_EQ(find_journals(::getpid()).journals.size(), 1u);
}

// Files of another user, who has this many, each with tables of 20 MB.
class OthersFiles : public Discovery {
 protected:
  static constexpr uid_t kOther = 65534;
  static constexpr uint64_t kTables = 20 << 20;
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make files of another user";
    Discovery::SetUp();
  }
  std::string make_others_file(unsigned number) {
    const std::string path = make_file_of_ended(session(kTables), number);
    EXPECT_EQ(::chown(path.c_str(), kOther, kOther), 0);
    return path;
  }
};

TEST_F(OthersFiles, OfEndedProcessesAreReadUpToALimitOfAllTogether) {
  for (unsigned i = 0; i < 4; ++i) make_others_file(i);
  const FoundSessions found = find_sessions(::getpid());
  EXPECT_EQ(found.sessions.size(), 3u);
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].cause, FileError::Cause::untrusted);
}

TEST_F(OthersFiles, AreNotReadIfTheirTablesAreLittleButHoles) {
  const std::string path = make_others_file(0);
  const auto file = open_file(path, O_RDWR);
  ASSERT_TRUE(file);
  const int punched = ::fallocate(file->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20,
                                  kTables - (2 << 20));
  if (punched != 0) GTEST_SKIP() << "this file system makes no holes";
  const FoundSessions found = find_sessions(::getpid());
  EXPECT_TRUE(found.sessions.empty());
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].parse_error, layout::ParseError::truncated);
}

// Its figures would be read area by area.
TEST_F(OthersFiles, AreNotBelievedWithMoreAreasThanThisMachineHasProcessors) {
  layout::Session session = this->session();
  session.header = layout::lay_out({.name_bytes = 1, .cpus = possible_cpus() + 1});
  session.header.pid = ::getpid();
  std::string(boot_id()).copy(session.header.boot_id, sizeof session.header.boot_id - 1);
  const std::string path = make_file_of_ended(session);
  ASSERT_EQ(::chown(path.c_str(), kOther, kOther), 0);
  const FoundSessions found = find_sessions(::getpid());
  EXPECT_TRUE(found.sessions.empty());
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].cause, FileError::Cause::untrusted);
}

// A process of another user, which says whether it may be dumped, and so whether its user may write
// into it.
class OthersProcess : public testing::Test {
 protected:
  static constexpr uid_t kOther = 65534;
  enum class FirstThread : uint8_t { lives, has_ended };
  void start(int dumpable, FirstThread first = FirstThread::lives) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setresuid(kOther, kOther, kOther) != 0 || ::prctl(PR_SET_DUMPABLE, dumpable) != 0)
        ::_exit(1);
      static int told = ready[1];
      static const pid_t self = ::getpid();
      const auto tell = [] {
        static_cast<void>(!::write(told, "", 1));
        ::pause();
      };
      if (first == FirstThread::lives) tell();
      std::thread([tell] {
        while (target::read_thread_status(self, self)->state != 'Z') ::sched_yield();
        tell();
      }).detach();
      ::syscall(SYS_exit, 0);  // of this thread
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    for (const int end : ready) ::close(end);
  }
  void TearDown() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid_ = 0;
};

TEST_F(OthersProcess, HasSessionsOfItsUser) {
  start(1);
  if (IsSkipped()) return;
  EXPECT_TRUE(is_trusted_user(kOther, pid_));
  EXPECT_FALSE(is_trusted_user(kOther - 1, pid_));
}

// One with more rights than its user, who could not attach to it.
TEST_F(OthersProcess, HasNoSessionsOfAUserThatMayNotWriteIntoIt) {
  start(0);
  if (IsSkipped()) return;
  EXPECT_FALSE(is_trusted_user(kOther, pid_));
  EXPECT_TRUE(is_trusted_user(0, pid_));
}

TEST_F(OthersProcess, HasSessionsOfItsUserAlsoOnceItsFirstThreadHasEnded) {
  start(1, FirstThread::has_ended);
  if (IsSkipped()) return;
  EXPECT_TRUE(is_trusted_user(kOther, pid_));
}

// The figures of a statistic stay after an upgrade: the version that made the file can show them.
TEST_F(Discovery, RemovesNoFileOfAnEndedProcessThatMayBeOfAStatistic) {
  layout::Session kept = session(2), other = session();
  kept.names[0] = 'x';
  kept.header.is_kept = 1;
  ++other.header.version;
  const std::string kept_path = make_file_of_ended(kept, 0);
  const std::string other_path = make_file_of_ended(other, 1);
  const std::string of_no_use = make_file_of_ended(session(), 2);
  remove_files_of_dead();
  EXPECT_TRUE(std::filesystem::exists(kept_path));
  EXPECT_TRUE(std::filesystem::exists(other_path));
  EXPECT_FALSE(std::filesystem::exists(of_no_use));
}

TEST_F(Discovery, FollowsNoLinkToAFolder) {
  make_file(0);
  const Scratch other;
  std::filesystem::create_directory_symlink(folder_ / "pinprick", other / "pinprick");
  ::setenv("XDG_RUNTIME_DIR", other.path().c_str(), 1);
  EXPECT_TRUE(find_journals(::getpid()).journals.empty());
}

}  // namespace
}  // namespace pinprick::ledger
