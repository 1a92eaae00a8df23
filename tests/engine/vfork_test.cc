// Children that share the memory and the thread pointer of a probed program.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include "base/fd.h"
#include "engine/session.h"
#include "layout/session_file.h"
#include "ledger/discovery.h"
#include "scratch.h"

namespace pinprick::engine {
namespace {

constexpr uint64_t kCalls = 10;

// tests/targets/spawner.c
class Spawner {
 public:
  explicit Spawner(const std::string& program) {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
      ::execl(program.c_str(), program.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
  }
  ~Spawner() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  // What it says of a round of children.
  std::string round() { return tell('\n') ? said() : std::string(); }
  bool tell(char c) { return ::write(in_.get(), &c, 1) == 1; }
  std::string said() {
    std::string line;
    for (char c = 0; ::read(out_.get(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

 private:
  pid_t pid_ = 0;
  Fd in_, out_;
};

struct Hits {
  uint64_t locked = 0;  // in the area of those that lock
  uint64_t on_cpus = 0;
};

// Of a session in the process, by name.
std::map<std::string, Hits> hits_in(pid_t pid) {
  std::map<std::string, Hits> hits;
  const auto found = ledger::find_sessions(pid).sessions;
  if (found.size() != 1) return hits;
  const layout::Session& journal = found[0].journal;
  const auto file = open_file(found[0].file.path(), O_RDONLY);
  if (!file) return hits;
  for (size_t i = 0; i < journal.probes.size(); ++i) {
    const std::string name(journal.probe_name(i).function);
    for (uint64_t area = 0; area <= journal.header.cpu_count; ++area) {
      uint64_t value = 0;
      const uint64_t at =
          journal.header.areas_offset + area * journal.header.area_size + layout::counter_offset(i);
      if (::pread(file->get(), &value, sizeof value, static_cast<off_t>(at)) != sizeof value)
        ADD_FAILURE() << "a file that ends there";
      (area == 0 ? hits[name].locked : hits[name].on_cpus) += value;
    }
  }
  return hits;
}

class ChildrenInTheSameMemory : public testing::TestWithParam<const char*> {
 protected:
  ChildrenInTheSameMemory() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }

  // With probes on what the children call.
  Result<Session, ledger::SessionError> arm(Spawner& program, placement::Kind kind,
                                            const ArmOptions& options = {}) {
    auto target = target::RemoteTarget::open(program.pid());
    EXPECT_TRUE(target) << "a child of one's own";
    auto image = image::load_process(program.pid(), target->reader());
    EXPECT_TRUE(image);
    image_ = *std::move(image);
    std::vector<image::Pattern> wanted;
    for (const char* name : {"in_vfork", "in_nested", "in_clone", "in_thread", "in_fork", "execve"})
      wanted.push_back(*image::Pattern::parse(name, image::PatternSyntax::glob));
    auto matches = image::match_patterns(image_, wanted, {}).matches;
    auto set = placement::plan_probes(image_, std::move(matches), kind);
    EXPECT_TRUE(set.marks_children);
    EXPECT_TRUE(set.skipped.empty());
    return Session::arm(*std::move(target), image_, std::move(set), options);
  }

  const Scratch folder_;
  image::ProcessImage image_;
};

TEST_P(ChildrenInTheSameMemory, CountLikeThreadsWithoutACpuAndLeaveTheirParentsCpuAsItIs) {
  Spawner program(GetParam());
  EXPECT_EQ(program.round(), "shared 0 own 1 parent 1") << "a child has its parent's CPU";
  auto session = arm(program, placement::Kind::count);
  ASSERT_TRUE(session);
  if (session->report().locked) GTEST_SKIP() << "no rseq: nothing is counted by CPU here";
  EXPECT_EQ(program.round(), "shared 1 own 1 parent 1");
  auto hits = hits_in(program.pid());
  ASSERT_EQ(hits.size(), 6u);
  for (const char* name : {"in_vfork", "in_nested", "in_clone", "in_thread", "in_fork", "execve"}) {
    const uint64_t calls = name == std::string("execve")      ? 1
                           : name == std::string("in_nested") ? 2 * kCalls
                                                              : kCalls;
    const bool has_area = name == std::string("in_thread") || name == std::string("in_fork");
    EXPECT_EQ(hits[name].on_cpus, has_area ? calls : 0) << name;
    EXPECT_EQ(hits[name].locked, has_area ? 0 : calls) << name;
  }
  const auto disarmed = session->disarm();
  ASSERT_TRUE(disarmed);
  EXPECT_FALSE(disarmed->memory_left);
  EXPECT_EQ(disarmed->foreign, 0u);
  EXPECT_EQ(program.round(), "shared 0 own 1 parent 1");
}

TEST_P(ChildrenInTheSameMemory, AreCountedByProbesThatCanBeTurnedOff) {
  Spawner program(GetParam());
  EXPECT_EQ(program.round(), "shared 0 own 1 parent 1");
  ArmOptions options;
  options.has_switches = true;
  auto session = arm(program, placement::Kind::count, options);
  ASSERT_TRUE(session);
  if (session->report().locked) GTEST_SKIP() << "no rseq: nothing is counted by CPU here";
  EXPECT_EQ(program.round(), "shared 1 own 1 parent 1");
  auto hits = hits_in(program.pid());
  EXPECT_EQ(hits["in_vfork"].locked, kCalls);
  EXPECT_EQ(hits["in_thread"].on_cpus, kCalls);
  EXPECT_FALSE(session->disarm()->memory_left);
}

TEST_P(ChildrenInTheSameMemory, AreTimedWithoutTakingSlotsFromTheListOfACpu) {
  Spawner program(GetParam());
  program.round();
  auto session = arm(program, placement::Kind::latency);
  ASSERT_TRUE(session);
  if (session->report().locked) GTEST_SKIP() << "no rseq: there are no lists of CPUs here";
  constexpr int kRounds = 5;
  for (int i = 0; i < kRounds; ++i) ASSERT_EQ(program.round(), "shared 1 own 1 parent 1");
  const auto missed = session->counters();
  EXPECT_EQ(std::accumulate(missed.begin(), missed.end(), uint64_t{0}), 0u);
  EXPECT_TRUE(session->disarm());
  EXPECT_EQ(program.round(), "shared 0 own 1 parent 1");
}

// Its parent waits within the hook, and cannot be stopped.
TEST_P(ChildrenInTheSameMemory, KeepTheHookUntilTheyAreDone) {
  Spawner program(GetParam());
  program.round();
  auto session = arm(program, placement::Kind::count);
  ASSERT_TRUE(session);
  const bool is_locked = session->report().locked;
  ASSERT_TRUE(program.tell('h'));
  const auto parent_waits = [&] {
    const auto status = target::read_status(program.pid());
    return !status || status->state == 'D';
  };
  while (!parent_waits()) ::sched_yield();
  // By a process of its own: a thread that never stopped is let go when its tracer ends.
  const pid_t controller = ::fork();
  if (controller == 0) ::_exit(session->disarm() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(::waitpid(controller, &status, 0), controller);
  EXPECT_EQ(status, 0) << "it was refused";
  ASSERT_TRUE(program.tell('x'));
  EXPECT_EQ(program.said(), is_locked ? "shared 0 own 1 parent 1" : "shared 1 own 1 parent 1");
  const auto disarmed = session->disarm();
  ASSERT_TRUE(disarmed);
  EXPECT_FALSE(disarmed->memory_left);
  EXPECT_EQ(program.round(), "shared 0 own 1 parent 1");
}

INSTANTIATE_TEST_SUITE_P(Programs, ChildrenInTheSameMemory,
                         testing::Values(TARGETS "spawner", TARGETS "spawner_static"),
                         [](const auto& program) {
                           return std::string(program.param).ends_with("static") ? "static"
                                                                                 : "shared";
                         });

}  // namespace
}  // namespace pinprick::engine
