#include "target/loader_walk.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "image/maps.h"
#include "target/hijacked_thread.h"

namespace pinprick::target {
namespace {

using Event = LoaderWalk::Event;

// A program at PTRACE_EVENT_EXEC. It is killed at the end of the test.
class Executed {
 public:
  explicit Executed(const std::vector<const char*>& command) {
    int go[2];
    if (pipe(go) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      char byte = 0;
      close(go[1]);
      if (read(go[0], &byte, 1) == 1) {
        auto arguments = command;
        arguments.push_back(nullptr);
        execv(command[0], const_cast<char**>(arguments.data()));
      }
      _exit(127);
    }
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    EXPECT_EQ(ptrace(PTRACE_SEIZE, pid_, nullptr, reinterpret_cast<void*>(options)), 0);
    EXPECT_EQ(write(go[1], "x", 1), 1);
    close(go[0]);
    close(go[1]);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, __WALL), pid_);
    EXPECT_EQ(status >> 16, PTRACE_EVENT_EXEC);
  }
  Executed(const Executed&) = delete;
  Executed& operator=(const Executed&) = delete;
  ~Executed() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, __WALL);
  }
  pid_t pid() const { return pid_; }

  bool has_code_of(const std::string& name) const {
    const auto maps = image::read_maps(pid_);
    return maps && std::any_of(maps->begin(), maps->end(), [&](const image::Mapping& mapping) {
             return mapping.executable && mapping.path.find(name) != std::string::npos;
           });
  }
  bool is_code(Range range) const {
    const auto maps = image::read_maps(pid_);
    return maps && std::any_of(maps->begin(), maps->end(), [&](const image::Mapping& mapping) {
             return mapping.executable && mapping.range.contains(range.begin);
           });
  }

 private:
  pid_t pid_ = 0;
};

TEST(LoaderWalk, StopsAtEachMappingOfCodeAndOnceTheObjectIsThere) {
  Executed program({"/bin/true"});
  LoaderWalk walk(program.pid(), loader_code(program.pid()));
  ASSERT_TRUE(walk.first_stop());
  EXPECT_FALSE(program.has_code_of("libc.so"));
  const auto code = walk.next();
  ASSERT_EQ(code.event, Event::code_mapped);
  EXPECT_TRUE(program.is_code(code.code));
  const auto object = walk.next();
  ASSERT_EQ(object.event, Event::object_mapped);
  EXPECT_EQ(object.code.begin, code.code.begin);
}

TEST(LoaderWalk, AThreadIsReadyWhenAllLibrariesAreMappedAndItsAreasExist) {
  Executed program({"/bin/true"});
  LoaderWalk walk(program.pid(), loader_code(program.pid()));
  ASSERT_TRUE(walk.first_stop());
  auto step = walk.next();
  while (step.event == Event::code_mapped || step.event == Event::object_mapped) step = walk.next();
  ASSERT_EQ(step.event, Event::thread_ready);
  EXPECT_TRUE(program.has_code_of("libc.so"));
  EXPECT_TRUE(__rseq_size == 0 || rseq_registration(program.pid()));
  // What it does afterwards is none of its libraries' mapping, up to its end.
  EXPECT_EQ(walk.next().event, Event::ended);
}

TEST(LoaderWalk, AProgramThatExecutesAnotherIsFollowedToItsExec) {
  Executed program({"/bin/sh", "-c", "exec /bin/true"});
  LoaderWalk walk(program.pid(), loader_code(program.pid()));
  ASSERT_TRUE(walk.first_stop());
  auto step = walk.next();
  while (step.event != Event::executed && step.event != Event::ended) step = walk.next();
  EXPECT_EQ(step.event, Event::executed);
}

TEST(LoaderWalk, SignalsReachTheThread) {
  Executed program({"/bin/sleep", "1000"});
  LoaderWalk walk(program.pid(), loader_code(program.pid()));
  ASSERT_TRUE(walk.first_stop());
  kill(program.pid(), SIGTERM);
  auto step = walk.next();
  while (step.event != Event::ended) step = walk.next();
}

}  // namespace
}  // namespace pinprick::target
