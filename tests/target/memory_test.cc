#include "target/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pinprick::target {
namespace {

TEST(Memory, IsGoneOnceTheProcessRunsAnotherProgram) {
  int go[2], runs[2];  // a byte in `go` lets the child exec, which closes `runs`
  ASSERT_EQ(::pipe(go), 0);
  ASSERT_EQ(::pipe2(runs, O_CLOEXEC), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    char word = 0;
    ::close(go[1]);
    ::close(runs[0]);
    if (::read(go[0], &word, 1) == 1) {
      ::dup2(go[0], STDIN_FILENO);
      ::execl("/bin/cat", "cat", nullptr);
    }
    ::_exit(1);
  }
  ::close(go[0]);
  ::close(runs[1]);
  const auto memory = Memory::open(pid);
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(memory->is_gone());
  uint8_t byte = 0;
  EXPECT_FALSE(memory->read(0, {&byte, 1})) << "there is nothing, and yet the memory is there";
  EXPECT_FALSE(memory->is_gone());
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  EXPECT_EQ(::read(runs[0], &byte, 1), 0);
  EXPECT_TRUE(memory->is_gone());
  const auto other = Memory::open(pid);
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->is_gone());
  ::close(go[1]);
  ::close(runs[0]);
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(other->is_gone()) << "it has ended";
}

}  // namespace
}  // namespace pinprick::target
