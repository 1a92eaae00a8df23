// Which memory of a process hits read without the kernel, and that nothing of it is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "arming_by_pattern.h"
#include "base/clock.h"
#include "engine/calls/thread_table.h"
#include "layout/runtime_data.h"
#include "ledger/discovery.h"
#include "scratch.h"
#include "select/expression.h"

namespace pinprick::engine {
namespace {

// tests/targets/unmaps.c
class Unmaps {
 public:
  Unmaps() {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
      ::execl(TARGETS "unmaps", "unmaps", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_.reset(::fdopen(to[1], "w"));
    out_.reset(::fdopen(from[0], "r"));
    is_ready_ = next_line() == "ready\n";
  }
  Unmaps(const Unmaps&) = delete;
  Unmaps& operator=(const Unmaps&) = delete;
  ~Unmaps() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool is_ready() const { return is_ready_; }
  pid_t pid() const { return pid_; }
  // Returns how many calls there were; 0 if the program has ended.
  uint64_t run(int milliseconds, const char* ways) {
    std::fprintf(in_.get(), "%d %s\n", milliseconds, ways);
    std::fflush(in_.get());
    const std::string line = next_line();
    const uint64_t all = line.empty() ? calls_ : std::stoull(line);
    return all - std::exchange(calls_, all);
  }

 private:
  std::string next_line() {
    char line[64] = {};
    return std::fgets(line, sizeof line, out_.get()) != nullptr ? line : "";
  }
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  pid_t pid_ = 0;
  std::unique_ptr<FILE, Close> in_, out_;
  uint64_t calls_ = 0;
  bool is_ready_ = false;
};

action::Actions counted_by_what_is_there() {
  action::Action action;
  const auto key = select::parse_expression("*(u64*)$arg1", select::Arguments::of_function);
  action.key = {*key, "*(u64*)$arg1"};
  return {{action}, {}};
}

class RegionAdmission : public testing::Test {
 protected:
  RegionAdmission() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  void SetUp() override { ASSERT_TRUE(program_.is_ready()); }
  static uint64_t sum(const Session& session) {
    uint64_t all = 0;
    for (const auto& key : session.keys()) all += key.hits;
    for (const uint64_t unread : session.unread()) all += unread;
    return all;
  }

  Scratch folder_;
  Unmaps program_;
  ArmingByPattern arming_;
};

TEST_F(RegionAdmission, OfOrdinaryMemoryLeavesTheKernelOut) {
  auto session = arming_.arm(program_.pid(), counted_by_what_is_there(), "take");
  ASSERT_TRUE(session);
  if (session->report().slow_reads == SlowReads::no_rseq) GTEST_SKIP() << "no rseq here";
  ASSERT_EQ(session->report().slow_reads, SlowReads::none);
  const uint64_t calls = program_.run(100, "o");
  ASSERT_GT(calls, 0u);
  EXPECT_EQ(sum(*session), calls);
  EXPECT_EQ(session->reads_by_kernel(), 0u);
}

TEST_F(RegionAdmission, ComesAgainOnceHitsHaveReadALotByTheKernel) {
  auto session = arming_.arm(program_.pid(), counted_by_what_is_there(), "take");
  ASSERT_TRUE(session);
  if (session->report().slow_reads != SlowReads::none) GTEST_SKIP() << "the kernel reads all here";
  program_.run(1, "e");
  ASSERT_GT(program_.run(20, "o"), 2000u);
  const uint64_t seen = session->reads_by_kernel();
  EXPECT_GT(seen, 1000u) << "memory for code takes all away";
  session->admit_regions_now();
  ASSERT_GT(program_.run(20, "o"), 0u);
  EXPECT_EQ(session->reads_by_kernel(), seen);
}

TEST_F(RegionAdmission, EndsForWhatIsUnmapped) {
  auto session = arming_.arm(program_.pid(), counted_by_what_is_there(), "take");
  ASSERT_TRUE(session);
  if (session->report().slow_reads != SlowReads::none) GTEST_SKIP() << "the kernel reads all here";
  for (const char* way : {"m", "s", "f", "p", "r", "b", "g"}) {
    const uint64_t before = session->reads_by_kernel();
    ASSERT_GT(program_.run(50, way), 0u);
    const uint64_t seen = session->reads_by_kernel();
    EXPECT_GT(seen, before) << way;
    ASSERT_GT(program_.run(20, "o"), 0u);
    EXPECT_EQ(session->reads_by_kernel(), seen) << "what was left alone stays admitted";
    session->admit_regions_now();
  }
}

// It could make system calls that no hook precedes.
TEST_F(RegionAdmission, IsRefusedWhileThereIsCodeThatWasNotSearched) {
  auto session = arming_.arm(program_.pid(), counted_by_what_is_there(), "take");
  ASSERT_TRUE(session);
  if (session->report().slow_reads != SlowReads::none) GTEST_SKIP() << "the kernel reads all here";
  ASSERT_GT(program_.run(20, "o"), 0u);
  EXPECT_EQ(session->reads_by_kernel(), 0u);
  program_.run(1, "x");
  uint64_t calls = program_.run(20, "o");
  const uint64_t seen = session->reads_by_kernel();
  EXPECT_GT(seen, calls / 2) << "the hook has taken all away";
  session->admit_regions_now();
  calls = program_.run(20, "o");
  EXPECT_GT(session->reads_by_kernel(), seen + calls / 2);
}

// A thread that only seems to read keeps the one that unmaps in its hook, for a second or so.
TEST_F(RegionAdmission, WaitsForThreadsThatHavePassedTheCheckOfAHook) {
  auto session = arming_.arm(program_.pid(), counted_by_what_is_there(), "take");
  ASSERT_TRUE(session);
  if (session->report().slow_reads != SlowReads::none) GTEST_SKIP() << "the kernel reads all here";
  const auto journals = ledger::find_journals(program_.pid()).journals;
  ASSERT_EQ(journals.size(), 1u);
  const auto* const data = find_mapping(journals[0], layout::MappingEntry::Kind::runtime_data);
  ASSERT_NE(data, nullptr);
  const Address regions = regions_in(*data);
  const target::Memory& memory = session->target().memory();
  layout::Regions table;
  ASSERT_TRUE(memory.read_value(regions, table));
  // Its area lies in an unused part of the table's first page.
  const Address area_cs = regions + PP_REGIONS_HINTS - sizeof(uint64_t);
  const uint64_t thread = area_cs - PP_RSEQ_CS - static_cast<uint64_t>(table.rseq);
  const Address entry = regions + offsetof(layout::Regions, threads) + 100 * sizeof thread;
  ASSERT_TRUE(memory.write_value(area_cs, table.first_cs) && memory.write_value(entry, thread));
  const auto is_entered = [&] {
    uint64_t now = 0;
    return memory.read_value(entry, now) && now == thread;
  };

  std::thread runs([&] { EXPECT_GT(program_.run(50, "m"), 0u); });
  const uint64_t end = monotonic_ns() + 20'000'000'000;
  // The kernel reads what the hook has taken away.
  while (session->reads_by_kernel() < 2000 && monotonic_ns() < end) std::this_thread::yield();
  EXPECT_TRUE(is_entered());
  session->admit_regions_now();
  EXPECT_TRUE(is_entered()) << "the table was not written anew";
  EXPECT_TRUE(memory.write_value(area_cs, uint64_t{0}));
  runs.join();
  ASSERT_GT(program_.run(50, "m"), 0u);
  session->admit_regions_now();
  EXPECT_FALSE(is_entered()) << static_cast<int>(session->report().slow_reads);
}

// For two seconds, or UNMAPS_SECONDS in the environment. A handler of SIGSEGV would end the
// program.
TEST_F(RegionAdmission, NeverLetsHitsReadWhatIsGone) {
  const char* const wanted = ::getenv("UNMAPS_SECONDS");
  const uint64_t seconds = wanted == nullptr ? 2 : std::stoull(wanted);
  const uint64_t end = monotonic_ns() + seconds * 1'000'000'000;
  do {
    auto session = arming_.arm(program_.pid(), counted_by_what_is_there(), "take");
    ASSERT_TRUE(session);
    std::atomic<bool> stop = false;
    std::thread admits([&] {
      while (!stop) session->admit_regions_now();
    });
    const uint64_t calls = program_.run(400, "msfprbgthco");
    stop = true;
    admits.join();
    ASSERT_GT(calls, 0u) << "it has ended";
    EXPECT_EQ(sum(*session), calls);
    if (session->report().slow_reads == SlowReads::none) {
      EXPECT_LT(session->reads_by_kernel(), calls) << "some were not the kernel's";
    }
    const auto report = session->disarm();
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->memory_left);
    ASSERT_GT(program_.run(20, "msfprbgthco"), 0u);
  } while (monotonic_ns() < end);
}

}  // namespace
}  // namespace pinprick::engine
