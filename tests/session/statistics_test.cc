// Which statistics a PID means, and which can be made. No process is stopped.
#include "session/statistics.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fd.h"
#include "base/machine.h"
#include "image/store/object_store.h"
#include "ledger/runtime_directory.h"
#include "ledger/session_file.h"
#include "scratch.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The PID of a process that has ended just now.
pid_t ended() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

// Files in a folder of the test's, as controllers and programs leave them.
class StatisticsOfPid : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    std::filesystem::create_directory(folder_ / "pinprick");
  }
  void TearDown() override {
    for (void* const page : pages_) ::munmap(page, kPageSize);
    ::unsetenv("XDG_RUNTIME_DIR");
  }

  static uint64_t own_start_time() {
    const auto status = target::read_status(::getpid());
    return status ? status->start_time : 0;
  }

  // A page of this process for a file, as a program has it that has the probes, or records.
  void* new_page() {
    pages_.push_back(::mmap(nullptr, kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return pages_.back();
  }
  static void map(const std::string& path, void* page) {
    const auto file = open_file(path, O_RDONLY);
    ASSERT_TRUE(file);
    ASSERT_EQ(::mmap(page, kPageSize, PROT_READ, MAP_SHARED | MAP_FIXED, file->get(), 0), page);
  }

  enum class Mapped : bool { no, yes };
  void make_traced(pid_t pid, uint64_t start_time, std::string_view name,
                   Mapped mapped = Mapped::no) {
    layout::Session session;
    session.header = layout::lay_out({.mappings = 1, .name_bytes = name.size() + 1, .cpus = 1});
    void* const page = new_page();
    session.mappings.push_back({reinterpret_cast<Address>(page), kPageSize,
                                layout::MappingEntry::Kind::tables,
                                layout::MappingEntry::Progress::mapped});
    session.header.pid = pid;
    session.header.start_time = start_time;
    session.header.state = layout::SessionState::armed;
    session.header.is_kept = 1;
    std::string(boot_id()).copy(session.header.boot_id, sizeof session.header.boot_id - 1);
    session.names.assign(name.begin(), name.end());
    session.names.push_back('\0');
    const std::string path = folder_ / "pinprick/" + ledger::session_file_name(pid, start_time, 0);
    ASSERT_TRUE(ledger::SessionFile::create(path, session));
    if (mapped == Mapped::yes) map(path, page);
  }

  void make_recorded(pid_t pid, uint64_t start_time, std::string_view name,
                     Mapped mapped = Mapped::no) {
    const std::string path =
        folder_ / "pinprick/" + std::to_string(pid) + "-" + std::to_string(start_time) + ".kstats";
    const auto file = open_file(path, O_RDWR | O_CREAT, 0600);
    ASSERT_TRUE(file);
    layout::StatisticHeader statistic;
    statistic.size = layout::statistic_size(0, 1);
    statistic.state = layout::StatisticHeader::State::used;
    statistic.control = layout::make_control(true, 0, 0);
    std::copy(name.begin(), name.end(), statistic.name);
    layout::RecordedHeader header;
    header.pid = pid;
    header.start_time = start_time;
    std::string(boot_id()).copy(header.boot_id, sizeof header.boot_id);
    header.cpu_count = 1;
    header.end = kPageSize + statistic.size;
    ASSERT_EQ(::ftruncate(file->get(), static_cast<off_t>(header.end)), 0);
    ASSERT_TRUE(
        write_at(file->get(), {reinterpret_cast<const uint8_t*>(&header), sizeof header}, 0));
    ASSERT_TRUE(write_at(
        file->get(), {reinterpret_cast<const uint8_t*>(&statistic), sizeof statistic}, kPageSize));
    if (mapped == Mapped::yes) map(path, new_page());
  }

  std::vector<std::string> names(pid_t pid) {
    std::vector<std::string> all;
    for (const StatisticState& one : Statistics(pid, store_).list()) all.push_back(one.name);
    return all;
  }

  const Scratch folder_;
  image::ObjectStore store_;
  std::vector<void*> pages_;
};

TEST_F(StatisticsOfPid, AreThoseOfTheProcessThatLives) {
  make_traced(::getpid(), own_start_time(), "traced", Mapped::yes);
  make_recorded(::getpid(), own_start_time(), "recorded", Mapped::yes);
  EXPECT_THAT(names(::getpid()), ElementsAre("traced", "recorded"));
}

TEST_F(StatisticsOfPid, AreNotThoseOfAProgramThatTheProcessHasRunBefore) {
  make_traced(::getpid(), own_start_time(), "traced");
  make_recorded(::getpid(), own_start_time(), "recorded");
  EXPECT_THAT(names(::getpid()), IsEmpty());
  EXPECT_FALSE(Statistics(::getpid(), store_).read("traced"));
  EXPECT_FALSE(Statistics(::getpid(), store_).read("recorded"));
  EXPECT_THAT(processes_with_statistics(), IsEmpty());
}

TEST_F(StatisticsOfPid, AreNotThoseOfAnEndedProcessWhileAnotherHasThePid) {
  make_traced(::getpid(), own_start_time() - 1, "traced");
  make_recorded(::getpid(), own_start_time() - 2, "recorded");
  EXPECT_THAT(names(::getpid()), IsEmpty());
  EXPECT_FALSE(Statistics(::getpid(), store_).read("traced"));
  EXPECT_FALSE(Statistics(::getpid(), store_).reset("recorded"));
}

TEST_F(StatisticsOfPid, AreThoseOfTheLastProcessThatHadItOfWhicheverKind) {
  const pid_t pid = ended();
  make_traced(pid, 10, "traced");
  EXPECT_THAT(names(pid), ElementsAre("traced"));
  make_recorded(pid, 20, "recorded");
  EXPECT_THAT(names(pid), ElementsAre("recorded"));
  make_traced(pid, 30, "newest");
  EXPECT_THAT(names(pid), ElementsAre("newest"));
}

// A session file with such a name is refused by its readers, so nothing could take it out again.
TEST_F(StatisticsOfPid, CannotHaveANameThatReadersOfTheFileRefuse) {
  for (const char* name : {"", "a\xc2\x85z", "a b", "_control", "GAP-x"}) {
    StatisticSpec spec;
    spec.name = name;
    spec.start = "main";
    const auto traced = Statistics(::getpid(), store_).trace(spec);
    ASSERT_FALSE(traced) << name;
    EXPECT_TRUE(std::holds_alternative<BadName>(traced.error())) << name;
  }
}

}  // namespace
}  // namespace pinprick::session
