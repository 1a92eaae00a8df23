// Which sessions a process has, by the files of all users.
#include "ledger/discovery.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

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

  // The file is named as one of process `named`.
  void make_file(unsigned number, pid_t named = ::getpid()) {
    layout::Session session;
    session.header = layout::lay_out({.name_bytes = 1, .cpus = 1});
    session.header.pid = ::getpid();
    session.header.start_time = start_time_;
    std::string(boot_id()).copy(session.header.boot_id, sizeof session.header.boot_id - 1);
    session.names.resize(1);
    ASSERT_TRUE(SessionFile::create(
        folder_ / "pinprick/" + session_file_name(named, start_time_, number), session));
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
  const FoundJournals found = find_journals(kOther);
  EXPECT_TRUE(found.journals.empty());
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].cause, FileError::Cause::untrusted);
}

TEST_F(Discovery, FindsEachFileOnceAlsoIfItsFolderHasTwoNames) {
  make_file(0);
  ::setenv("XDG_RUNTIME_DIR", (folder_.path() + "/").c_str(), 1);
  EXPECT_EQ(find_journals(::getpid()).journals.size(), 1u);
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
