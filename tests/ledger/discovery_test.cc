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

TEST(Discovery, FindsTheJournalsOfMoreSessionsThanThereMayBeOpenFiles) {
  constexpr unsigned kSessions = 20;
  constexpr rlim_t kLeft = 4;
  const Scratch folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  std::filesystem::create_directory(folder / "pinprick");
  const auto status = target::read_status(::getpid());
  ASSERT_TRUE(status);
  layout::Session session;
  session.header = layout::lay_out({.name_bytes = 1, .cpus = 1});
  session.header.pid = ::getpid();
  session.header.start_time = status->start_time;
  std::string(boot_id()).copy(session.header.boot_id, sizeof session.header.boot_id - 1);
  session.names.resize(1);
  for (unsigned i = 0; i < kSessions; ++i)
    ASSERT_TRUE(SessionFile::create(
        folder / "pinprick/" + session_file_name(::getpid(), status->start_time, i), session));

  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  ::close(next);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {static_cast<rlim_t>(next) + kLeft, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const FoundJournals found = find_journals(::getpid());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(found.journals.size(), kSessions);
  EXPECT_TRUE(found.unreadable.empty());
}

}  // namespace
}  // namespace pinprick::ledger
