// Children that share the memory and the thread pointer of a program that probes itself.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "library/place.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

constexpr int kNothing = -12345;

volatile struct ::rseq& area() {
  return *reinterpret_cast<volatile struct ::rseq*>(static_cast<char*>(__builtin_thread_pointer()) +
                                                    __rseq_offset);
}

volatile int32_t found = kNothing;  // the CPU that a child has found in its rseq area
void look() {
  found = static_cast<int32_t>(area().cpu_id);
}

class ChildrenInTheSameMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (__rseq_size == 0) GTEST_SKIP() << "glibc has registered no rseq area";
    found = kNothing;
  }
  // As a sanitizer's run-time library has: functions that replace the C library's are left alone.
  template <class F>
  static bool program_has_its_own(F* function) {
    Dl_info of_function = {}, of_program = {};
    return ::dladdr(reinterpret_cast<void*>(function), &of_function) != 0 &&
           ::dladdr(reinterpret_cast<void*>(&look), &of_program) != 0 &&
           of_function.dli_fbase == of_program.dli_fbase;
  }
  // Children of posix_spawn call this.
  const Probe probe_ = place({.where = "libc:execve",
                              .pre = [](Registers&) noexcept { look(); },
                              .allow_breakpoint = true});
  void expect_own_cpu() { EXPECT_EQ(area().cpu_id, area().cpu_id_start) << "right after the call"; }
};

TEST_F(ChildrenInTheSameMemory, OfVforkAreMarked) {
  if (program_has_its_own(&::vfork)) GTEST_SKIP() << "vfork() is not the C library's";
  const pid_t child = ::vfork();
  if (child == 0) {
    look();
    ::_exit(7);
  }
  expect_own_cpu();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(found, RSEQ_CPU_ID_UNINITIALIZED);
}

TEST_F(ChildrenInTheSameMemory, OfCloneAreMarked) {
  alignas(16) static char stack[65536];
  int five = 5;
  const pid_t child = ::clone(
      [](void* argument) {
        look();
        return *static_cast<int*>(argument) == 5 ? 7 : 1;
      },
      stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &five);
  expect_own_cpu();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(found, RSEQ_CPU_ID_UNINITIALIZED);
}

TEST_F(ChildrenInTheSameMemory, OfPosixSpawnAreMarked) {
  if (program_has_its_own(&::posix_spawn)) GTEST_SKIP() << "posix_spawn() is not the C library's";
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ), 0);
  expect_own_cpu();
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(found, RSEQ_CPU_ID_UNINITIALIZED);
  found = kNothing;
  ASSERT_EQ(::posix_spawnp(&child, "true", nullptr, nullptr, arguments, environ), 0);
  expect_own_cpu();
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(found, RSEQ_CPU_ID_UNINITIALIZED);
}

TEST_F(ChildrenInTheSameMemory, OfCommandsAreMarked) {
  if (program_has_its_own(&::popen)) GTEST_SKIP() << "popen() is not the C library's";
  EXPECT_EQ(::system("exit 3"), 3 << 8);
  expect_own_cpu();
  EXPECT_EQ(found, RSEQ_CPU_ID_UNINITIALIZED);
  found = kNothing;
  FILE* const output = ::popen("echo x", "r");
  ASSERT_NE(output, nullptr);
  expect_own_cpu();
  EXPECT_EQ(std::fgetc(output), 'x');
  EXPECT_EQ(::pclose(output), 0);
  EXPECT_EQ(found, RSEQ_CPU_ID_UNINITIALIZED);
}

TEST_F(ChildrenInTheSameMemory, ThatCannotStartLeaveTheirParentUnchanged) {
  pid_t child = 0;
  char* arguments[] = {nullptr};
  EXPECT_EQ(::posix_spawn(&child, "/nowhere", nullptr, nullptr, arguments, environ), ENOENT);
  expect_own_cpu();
  errno = 0;
  EXPECT_EQ(::clone([](void*) { return 0; }, nullptr, CLONE_VM | CLONE_VFORK, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  expect_own_cpu();
}

TEST_F(ChildrenInTheSameMemory, AreNoThreads) {
  int32_t cpu = kNothing;
  std::thread([&] { cpu = static_cast<int32_t>(area().cpu_id); }).join();
  EXPECT_GE(cpu, 0);
  expect_own_cpu();
}

}  // namespace
}  // namespace pinprick
