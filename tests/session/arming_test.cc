// What arming does about a target that went on since it was looked at.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "scratch.h"
#include "session/session.h"

namespace pinprick::session {
namespace {

// tests/targets/punned.c, on one thread.
class Punned {
 public:
  explicit Punned(const char* program, const char* wall = nullptr) {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
      ::execl(program, program, "1", wall, nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
  }
  ~Punned() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  bool is_right() {
    char answer[3] = {};
    return ::write(in_.get(), "\n", 1) == 1 && ::read(out_.get(), answer, 3) == 3 &&
           answer[0] == 'o';
  }

 private:
  pid_t pid_ = 0;
  Fd in_, out_;
};

TEST(Arming, LeavesOutPunsWhosePlaceIsTakenMeanwhileAndProbesTheRest) {
  const Scratch folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  Punned program(TARGETS "punned", "wall");
  ASSERT_TRUE(program.is_right());
  auto target = target::RemoteTarget::open(program.pid());
  if (!target) GTEST_SKIP() << "no process can be attached to here";
  auto image = image::load_process(program.pid(), target->reader());
  ASSERT_TRUE(image);
  // As if the wall had come after this look.
  ASSERT_EQ(std::erase_if(image->maps, [](const auto& m) { return m.range.size() > 1 << 30; }), 1u);
  std::vector<image::Pattern> wanted;
  for (const char* name : {"punned:one", "punned:edge", "punned:behind_one", "punned:looped"})
    wanted.push_back(*image::Pattern::parse(name, image::PatternSyntax::glob));
  auto matches = image::match_patterns(*image, wanted, {}).matches;
  ASSERT_EQ(matches.size(), wanted.size());
  auto set = probe::plan_probes(*image, std::move(matches), probe::Kind::count);
  ASSERT_EQ(set.probes.size(), 4u);
  auto session = Session::arm(*std::move(target), *image, std::move(set), {});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->report().armed, 2u) << "behind_one, which one's jump would end in, as well";
  ASSERT_EQ(session->report().skipped.size(), 2u);
  for (const probe::Skipped& skipped : session->report().skipped) {
    EXPECT_TRUE(skipped.match.name == "one" || skipped.match.name == "edge") << skipped.match.name;
    EXPECT_EQ(plan::name(skipped.refusal.reason), "out_of_reach");
  }
  EXPECT_TRUE(program.is_right());
  const auto disarmed = session->disarm();
  ASSERT_TRUE(disarmed);
  EXPECT_FALSE(disarmed->memory_left);
  EXPECT_TRUE(program.is_right());
}

// Not by ptrace: this one is not stopped.
bool change_byte(pid_t pid, Address address, uint8_t from, uint8_t to) {
  const auto memory = open_file("/proc/" + std::to_string(pid) + "/mem", O_RDWR);
  uint8_t byte = 0;
  const auto at = static_cast<off_t>(address);
  return memory && ::pread(memory->get(), &byte, 1, at) == 1 && byte == from &&
         ::pwrite(memory->get(), &to, 1, at) == 1;
}

TEST(Arming, LeavesOutAPunThatWouldEndInAJumpThatIsNotWritten) {
  const Scratch folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  Punned program(TARGETS "punned_nopie");
  ASSERT_TRUE(program.is_right());
  auto target = target::RemoteTarget::open(program.pid());
  if (!target) GTEST_SKIP() << "no process can be attached to here";
  auto image = image::load_process(program.pid(), target->reader());
  ASSERT_TRUE(image);
  std::vector<image::Pattern> wanted;
  for (const char* name : {"punned_nopie:one", "punned_nopie:prefixed"})
    wanted.push_back(*image::Pattern::parse(name, image::PatternSyntax::glob));
  auto matches = image::match_patterns(*image, wanted, {}).matches;
  ASSERT_EQ(matches.size(), wanted.size());
  const Address one = matches.front().site;
  auto set = probe::plan_probes(*image, std::move(matches), probe::Kind::count);
  ASSERT_EQ(set.probes.size(), 2u);
  for (const probe::Probe& probe : set.probes)
    ASSERT_TRUE(set.patches[probe.patch].plan.ends_in_host) << probe.match.name;
  // behind_one begins with `xor %eax,%eax`, of which there are two forms.
  ASSERT_TRUE(change_byte(program.pid(), one + 1, 0x31, 0x33));
  auto session = Session::arm(*std::move(target), *image, std::move(set), {});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->report().armed, 1u);
  ASSERT_EQ(session->report().skipped.size(), 1u);
  EXPECT_EQ(session->report().skipped[0].match.name, "one");
  EXPECT_TRUE(program.is_right());
  const auto disarmed = session->disarm();
  ASSERT_TRUE(disarmed);
  EXPECT_FALSE(disarmed->memory_left);
  EXPECT_TRUE(program.is_right());
  EXPECT_TRUE(change_byte(program.pid(), one + 1, 0x33, 0x31)) << "as it was";
}

}  // namespace
}  // namespace pinprick::session
