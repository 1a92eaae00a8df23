// Handlers that start programs and processes, and load libraries.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "library/functions.h"
#include "library/in_child.h"
#include "library/place.h"
#include "pinprick/probe.h"

extern char** environ;

namespace pinprick {
namespace {

// The handler runs through a jump, or through a breakpoint.
class HandlerCalls : public testing::TestWithParam<Placement> {
 protected:
  template <class F>
  Probe probe(F&& handler) {
    Probe placed = place(
        {.where = GetParam() == Placement::jump ? Where(self_insn) : Where(inside(self_short, 2)),
         .pre = std::forward<F>(handler),
         .allow_breakpoint = true});
    EXPECT_EQ(placed.placement(), GetParam());
    return placed;
  }
  long hit() { return GetParam() == Placement::jump ? self_insn(1) : self_short(1); }
  long right() { return GetParam() == Placement::jump ? 1001 : 4; }
};

int status_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// Exits with 0 if no signal was blocked at its start.
constexpr const char* kNothingBlocked = "grep -q '^SigBlk:[[:space:]]*0*$' /proc/self/status";

TEST_P(HandlerCalls, ExecWhichLeavesNothing) {
  in_child([&] {
    const Probe probed = probe([](Registers&) {
      ::execl("/bin/sh", "sh", "-c", kNothingBlocked, nullptr);
      ::_exit(2);
    });
    hit();
    ::_exit(3);
  });
}

TEST_P(HandlerCalls, VforkAndExec) {
  int status = -1;
  const Probe probed = probe([&](Registers&) {
    const pid_t child = ::vfork();
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", kNothingBlocked, nullptr);
      ::_exit(2);
    }
    status = status_of(child);
  });
  EXPECT_EQ(hit(), right());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(hit(), right());
}

TEST_P(HandlerCalls, VforkWhoseChildHitsProbes) {
  int inner_hits = 0, status = -1;
  const Probe inner = place({.where = self_window, .pre = [&](Registers&) { ++inner_hits; }});
  const Probe probed = probe([&](Registers&) {
    const pid_t child = ::vfork();
    if (child == 0) {
      self_window(1, 1);  // in its parent's handler, so it is missed
      ::_exit(0);
    }
    status = status_of(child);
  });
  EXPECT_EQ(hit(), right());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(inner_hits, 0);
  EXPECT_EQ(inner.missed(), 1u);
  self_window(1, 1);
  EXPECT_EQ(inner_hits, 1);
}

TEST_P(HandlerCalls, PosixSpawn) {
  int status = -1;
  const Probe probed = probe([&](Registers&) {
    const char* const arguments[] = {"sh", "-c", kNothingBlocked, nullptr};
    pid_t child = -1;
    EXPECT_EQ(::posix_spawn(&child, "/bin/sh", nullptr, nullptr,
                            const_cast<char* const*>(arguments), environ),
              0);
    status = status_of(child);
  });
  EXPECT_EQ(hit(), right());
  EXPECT_EQ(status, 0);
}

TEST_P(HandlerCalls, ForkWhoseChildGoesOnAlone) {
  int status = -1;
  const pid_t parent = ::getpid();
  const Probe probed = probe([&](Registers&) {
    const pid_t child = ::fork();
    if (child > 0) status = status_of(child);
  });
  const long answer = hit();
  if (::getpid() != parent) {
    // A handler was running in the thread that forked; it has ended in the child, too.
    int hits = 0;
    const Probe other = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
    self_window(1, 1);
    ::_exit(answer == right() && hits == 1 ? 0 : 1);
  }
  EXPECT_EQ(answer, right());
  EXPECT_EQ(status, 0);
}

TEST_P(HandlerCalls, DlopenOfALibraryThatItProbes) {
  int hits = 0, answer = 0;
  const Probe probed = probe([&](Registers&) {
    void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    auto* const function = reinterpret_cast<int (*)(int)>(::dlsym(library, "unloaded_function"));
    {
      const Probe inner = place({.where = function, .pre = [&](Registers&) { ++hits; }});
      answer = function(7);
      EXPECT_EQ(inner.missed(), 1u);
    }
    ::dlclose(library);
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(hit(), right());
    EXPECT_EQ(answer, 1001);
  }
  EXPECT_EQ(hits, 0);
}

INSTANTIATE_TEST_SUITE_P(Placements, HandlerCalls,
                         testing::Values(Placement::jump, Placement::breakpoint),
                         [](const auto& about) {
                           return about.param == Placement::jump ? "BehindAJump"
                                                                 : "BehindABreakpoint";
                         });

TEST(HandlerOfDlopen, MayCallDlopen) {
  int hits = 0;
  std::vector<Probe> probes;
  for (const Where& where : must(find_functions("libc:dlopen*")))
    probes.push_back(place({.where = where, .pre = [&](Registers&) {
                              ++hits;
                              void* const inner = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
                              EXPECT_NE(inner, nullptr);
                              ::dlclose(inner);
                            }}));
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  ::dlclose(library);
  EXPECT_GT(hits, 0);
}

TEST(ProbedExec, RunsTheOtherProgramWithoutProbes) {
  std::vector<ProbeSpec> specs;
  std::atomic<int> hits{0};
  for (const Where& where : must(find_functions("libc:exec*")))
    specs.push_back({.where = where, .pre = [&](Registers&) { ++hits; }});
  const auto probes = must(Probe::place(std::move(specs)));
  in_child([&] {
    ::execl("/bin/sh", "sh", "-c", kNothingBlocked, nullptr);
    ::_exit(2);
  });
}

TEST(Processes, CanBeStartedWhileProbesComeAndGo) {
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    while (!stop) const Probe probe = place({.where = self_pushes, .pre = [](Registers&) {}});
  });
  for (int i = 0; i < 50; ++i) {
    const char* const arguments[] = {"true", nullptr};
    pid_t child = -1;
    ASSERT_EQ(::posix_spawn(&child, "/bin/true", nullptr, nullptr,
                            const_cast<char* const*>(arguments), environ),
              0);
    EXPECT_EQ(status_of(child), 0);
    const pid_t other = ::vfork();
    if (other == 0) {
      ::execl("/bin/true", "true", nullptr);
      ::_exit(2);
    }
    EXPECT_EQ(status_of(other), 0);
  }
  stop = true;
  changer.join();
}

}  // namespace
}  // namespace pinprick
