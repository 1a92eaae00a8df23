// What arming does about a target that went on since it was looked at.
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

// tests/targets/punned.c, on one thread, with a wall of mappings below it.
class Walled {
 public:
  Walled() {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
      ::execl(TARGETS "punned", TARGETS "punned", "1", "wall", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
  }
  ~Walled() {
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
  Walled program;
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
  ASSERT_EQ(set.probes.size(), 3u) << "one's bytes are followed by those of behind_one's jump";
  auto session = Session::arm(*std::move(target), *image, std::move(set), {});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->report().armed, 2u);
  ASSERT_EQ(session->report().skipped.size(), 2u);
  for (const probe::Skipped& skipped : session->report().skipped)
    EXPECT_EQ(plan::name(skipped.refusal.reason),
              skipped.match.name == "edge" ? "out_of_reach" : "too_short");
  EXPECT_TRUE(program.is_right());
  const auto disarmed = session->disarm();
  ASSERT_TRUE(disarmed);
  EXPECT_FALSE(disarmed->memory_left);
  EXPECT_TRUE(program.is_right());
}

}  // namespace
}  // namespace pinprick::session
