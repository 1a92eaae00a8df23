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

TEST_F(RegionAdmission, EndsForWhatIsUnmappedUntilItIsLookedAtAgain) {
  auto session = arming_.arm(program_.pid(), counted_by_what_is_there(), "take");
  ASSERT_TRUE(session);
  if (session->report().slow_reads != SlowReads::none) GTEST_SKIP() << "the kernel reads all here";
  for (const char* way : {"m", "s", "f", "p", "r", "b", "g"}) {
    const uint64_t before = session->reads_by_kernel();
    ASSERT_GT(program_.run(50, way), 0u);
    const uint64_t seen = session->reads_by_kernel();
    EXPECT_GT(seen, before) << way;
    session->admit_regions_now();
    ASSERT_GT(program_.run(20, "o"), 0u);
    EXPECT_EQ(session->reads_by_kernel(), seen) << "what was left alone stays admitted";
  }
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
    const auto report = session->disarm();
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->memory_left);
    ASSERT_GT(program_.run(20, "msfprbgthco"), 0u);
  } while (monotonic_ns() < end);
}

}  // namespace
}  // namespace pinprick::engine
