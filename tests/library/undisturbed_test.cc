// What belongs to the program, and what the library leaves alone: its descriptors, its number of
// threads, and the cancellation of its threads.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "library/functions.h"
#include "library/in_child.h"
#include "library/place.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

// ---------------------------------------------------------------------------------- descriptors

// The open descriptors, with what each of them leads to.
std::set<std::string> descriptors() {
  std::set<std::string> all;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto leads_to = std::filesystem::read_symlink(one.path(), error);
    // That of the iterator itself.
    if (!error && !leads_to.string().ends_with("/fd"))
      all.insert(one.path().filename().string() + " " + leads_to.string());
  }
  return all;
}

TEST(Descriptors, AreTheSameAfterEveryOperation) {
  const auto before = descriptors();
  const auto found = must(find_functions("libc:malloc"));
  Probe probe = place({.where = found.front(), .pre = [](Registers&) {}});
  const Probe named = place({.where = "self_window", .pre = [](Registers&) {}});
  EXPECT_EQ(descriptors(), before);
  const Probe breakpoint =
      place({.where = inside(self_short, 2), .pre = [](Registers&) {}, .allow_breakpoint = true});
  const ReturnProbe returns =
      place(ReturnProbeSpec{.where = self_insn, .on_return = [](Registers&) {}});
  const Latency latency = must(Latency::place(self_nop));
  EXPECT_FALSE(list_probes().empty());
  EXPECT_EQ(descriptors(), before);
  EXPECT_TRUE(probe.disable().ok());
  EXPECT_TRUE(disarm_all().ok());
  EXPECT_TRUE(arm_all().ok());
  EXPECT_EQ(descriptors(), before);
}

// As a daemon does, which closes all descriptors that it does not know.
TEST(Descriptors, OfTheProgramStayOpenWhenAnImageOfItIsDropped) {
  in_child([] {
    const Probe first = place({.where = self_insn, .pre = [](Registers&) {}});
    constexpr int kFirst = 3, kLast = 200;
    for (int fd = kFirst; fd < kLast; ++fd) ::close(fd);
    for (int fd = kFirst; fd < kLast; ++fd) ASSERT_EQ(::open("/dev/null", O_RDONLY), fd);
    void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
    const Probe second = place({.where = "self_window", .pre = [](Registers&) {}});
    if (library != nullptr) ::dlclose(library);
    const Probe third = place({.where = "self_nop", .pre = [](Registers&) {}});
    for (int fd = kFirst; fd < kLast; ++fd) EXPECT_NE(::fcntl(fd, F_GETFD), -1) << fd;
  });
}

// In a library of which nothing else needs to be known.
ProbeSpec not_looked_at_before() {
  return {.where = "libz:deflate", .pre = [](Registers&) {}, .allow_breakpoint = true};
}

// As a daemon does, which goes on in a child.
TEST(Descriptors, OfAParentThatHasEndedAreNotReadByItsChild) {
  int answer[2];
  ASSERT_EQ(::pipe2(answer, O_CLOEXEC), 0);
  in_child([&] {
    const Probe first = place({.where = self_insn, .pre = [](Registers&) {}});
    const pid_t parent = ::getpid();
    if (::fork() != 0) return;
    while (::getppid() == parent) ::sched_yield();
    const auto named = Probe::place({.where = "self_window", .pre = [](Registers&) {}});
    const auto elsewhere = Probe::place(not_looked_at_before());
    const char result = named && elsewhere ? 'y' : 'n';
    ::_exit(::write(answer[1], &result, 1) == 1 ? 0 : 1);
  });
  ::close(answer[1]);
  char result = 0;
  EXPECT_EQ(::read(answer[0], &result, 1), 1);
  EXPECT_EQ(result, 'y');
  ::close(answer[0]);
}

TEST(Descriptors, AreNotOpenedByWayOfAFirstThreadThatHasEnded) {
  in_child([] {
    const Probe first = place({.where = self_insn, .pre = [](Registers&) {}});
    const auto has_ended = [] {
      std::ifstream status("/proc/" + std::to_string(::getpid()) + "/status");
      const std::string text(std::istreambuf_iterator<char>(status), {});
      return text.find("State:\tZ") != text.npos;
    };
    std::thread([&] {
      while (!has_ended()) std::this_thread::yield();
      const auto named = Probe::place(not_looked_at_before());
      ::_exit(named ? 0 : 1);
    }).detach();
    ::syscall(SYS_exit, 0);
  });
}

// -------------------------------------------------------------------------------------- threads

// A library that was not there before makes all text be decoded again.
TEST(Threads, AreNotStartedToDecodeText) {
  if (::dlsym(RTLD_DEFAULT, "malloc") != ::dlsym(RTLD_NEXT, "malloc"))
    GTEST_SKIP() << "libc's malloc is replaced here, so it is not called";
  const pid_t own = ::gettid();
  std::atomic<int> hits = 0, elsewhere = 0;
  std::vector<ProbeSpec> specs;
  for (const Where& where : must(find_functions("libc:malloc")))
    specs.push_back({.where = where, .pre = [&](Registers&) {
                       ++hits;
                       if (::gettid() != own) ++elsewhere;
                     }});
  const auto probes = must(Probe::place(std::move(specs)));
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  hits = elsewhere = 0;
  {
    const Probe other = place({.where = self_insn, .pre = [](Registers&) {}});
    const Probe in_libc = place({.where = "libc:execve", .pre = [](Registers&) {}});
  }
  EXPECT_EQ(elsewhere, 0);
  ::dlclose(library);
  EXPECT_GT(hits, 0) << "by the test itself";
}

// --------------------------------------------------------------------------------- cancellation

struct Steps {
  bool handler = false, after = false;
};

// Hits a probe in a thread that was cancelled before.
void* hit_and_go_on(void* argument) {
  auto& steps = *static_cast<Steps*>(argument);
  ::pthread_cancel(::pthread_self());
  self_window(1, 1);
  steps.after = true;
  ::pthread_testcancel();
  return nullptr;
}

TEST(Cancellation, WaitsUntilAHandlerHasEnded) {
  Steps steps;
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) {
                               const int fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
                               EXPECT_EQ(::write(fd, "x", 1), 1);
                               ::close(fd);
                               steps.handler = true;
                             }});
  pthread_t thread;
  ASSERT_EQ(::pthread_create(&thread, nullptr, hit_and_go_on, &steps), 0);
  void* result = nullptr;
  ::pthread_join(thread, &result);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(steps.handler);
  EXPECT_TRUE(steps.after);
}

TEST(Cancellation, StaysDisabledWhereTheProgramHasDisabledIt) {
  const Probe probe = place({.where = self_window, .pre = [](Registers&) {}});
  int before = PTHREAD_CANCEL_ENABLE;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  self_window(1, 1);
  ::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
  EXPECT_EQ(before, PTHREAD_CANCEL_DISABLE);
}

}  // namespace
}  // namespace pinprick
