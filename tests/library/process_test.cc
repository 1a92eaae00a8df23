// Probes on functions that everything uses; signals, forks, unloaded libraries.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "library/functions.h"
#include "library/in_child.h"
#include "library/place.h"
#include "library/trap_signal.h"
#include "library/write_text.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"
#include "scratch.h"

namespace pinprick {
namespace {

// ------------------------------------------------- functions that handlers and the library use

// AddressSanitizer has a malloc of its own, so libc's is not called.
bool calls_libcs_malloc() {
  return ::dlsym(RTLD_DEFAULT, "malloc") == ::dlsym(RTLD_NEXT, "malloc");
}

constexpr const char* kIsNotCalled = "libc's malloc is replaced here, so it is not called";

bool is_used(std::string_view pattern) {
  return calls_libcs_malloc() || (pattern != "libc:malloc" && pattern != "libc:free");
}

void use_everything() {
  std::unique_ptr<char[]> memory(new char[100]);
  void* volatile block = std::malloc(64);
  std::memset(block, 1, 64);
  char copy[64];
  void* (*volatile copy_function)(void*, const void*, size_t) = &std::memcpy;
  copy_function(copy, block, sizeof copy);
  std::free(block);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  ::pthread_mutex_lock(&mutex);
  ::pthread_mutex_unlock(&mutex);
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  ASSERT_EQ(::write(-1, copy, 1), -1);
  ::dl_iterate_phdr([](dl_phdr_info*, size_t, void*) { return 0; }, nullptr);
}

class Everywhere : public testing::TestWithParam<const char*> {};

TEST_P(Everywhere, LetAHandlerCallItsOwnFunction) {
  if (!is_used(GetParam())) GTEST_SKIP() << kIsNotCalled;
  std::atomic<int> hits{0};
  const auto found = must(find_functions(GetParam()));
  std::vector<ProbeSpec> specs;
  for (const Where& where : found)
    specs.push_back({.where = where,
                     .pre =
                         [&](Registers&) {
                           ++hits;
                           use_everything();
                         },
                     .allow_breakpoint = true});
  auto probes = must(Probe::place(std::move(specs)));
  use_everything();
  EXPECT_GT(hits, 0);
  uint64_t missed = 0;
  for (const Probe& probe : probes) missed += probe.missed();
  EXPECT_GT(missed, 0u);
  Probe::remove(std::move(probes));
  hits = 0;
  use_everything();
  EXPECT_EQ(hits, 0);
}

class ReturnsEverywhere : public testing::TestWithParam<const char*> {};

TEST_P(ReturnsEverywhere, LetReturnHandlersCallTheirOwnFunction) {
  if (!is_used(GetParam())) GTEST_SKIP() << kIsNotCalled;
  std::atomic<int> returns{0};
  const auto found = must(find_functions(GetParam()));
  std::vector<ReturnProbe> probes;
  for (const Where& where : found)
    probes.push_back(place(ReturnProbeSpec{.where = where,
                                           .on_return =
                                               [&](Registers&) {
                                                 ++returns;
                                                 use_everything();
                                               },
                                           .allow_breakpoint = true}));
  use_everything();
  EXPECT_GT(returns, 0);
}

INSTANTIATE_TEST_SUITE_P(Functions, Everywhere,
                         testing::Values("libc:malloc", "libc:free", "libc:memcpy",
                                         "libc:pthread_mutex_lock", "libc:write",
                                         "libc:clock_gettime", "libc:dl_iterate_phdr"));
// dl_iterate_phdr looks at its caller, so it cannot have a return probe.
INSTANTIATE_TEST_SUITE_P(Functions, ReturnsEverywhere,
                         testing::Values("libc:malloc", "libc:free", "libc:memcpy",
                                         "libc:pthread_mutex_lock", "libc:write",
                                         "libc:clock_gettime"));

TEST(Library, MissesItsOwnCallsOfProbedFunctions) {
  if (!calls_libcs_malloc()) GTEST_SKIP() << kIsNotCalled;
  std::atomic<int> hits{0};
  const auto found = must(find_functions("libc:malloc"));
  std::vector<ProbeSpec> specs;
  for (const Where& where : found)
    specs.push_back({.where = where, .pre = [&](Registers&) { ++hits; }});
  const auto probes = must(Probe::place(std::move(specs)));
  hits = 0;
  const uint64_t missed = probes.front().missed();
  {
    const Probe other = place({.where = self_insn, .pre = [](Registers&) {}});
  }
  EXPECT_GT(probes.front().missed(), missed);
}

// ------------------------------------------------------------------------------------- signals

TEST(TrapSignal, BlockedByAThreadRefusesProbes) {
  std::latch blocked(1), done(1);
  std::thread thread([&] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGTRAP);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    blocked.count_down();
    done.wait();
  });
  blocked.wait();
  const auto probe = Probe::place({.where = self_window, .pre = [](Registers&) {}});
  ASSERT_FALSE(probe.ok());
  EXPECT_EQ(probe.error().cause, Cause::signal_blocked);
  EXPECT_EQ(self_window(10, 7), 37);
  done.count_down();
  thread.join();
}

// A fork waits as long as the refusal takes.
TEST(TrapSignal, BlockedByTheLastOfManyThreadsRefusesProbesWithoutDelay) {
  constexpr ptrdiff_t kThreads = 200;
  {
    const Probe warm_up = place({.where = self_window, .pre = [](Registers&) {}});
  }
  std::latch started(kThreads), done(1);
  std::vector<std::thread> threads;
  for (ptrdiff_t i = 1; i <= kThreads; ++i)
    threads.emplace_back([&, blocks = i == kThreads] {
      std::optional<BlockedTrapSignal> blocked;
      if (blocks) blocked.emplace();
      started.count_down();
      done.wait();
    });
  started.wait();
  const auto start = std::chrono::steady_clock::now();
  const auto probe = Probe::place({.where = self_window, .pre = [](Registers&) {}});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ASSERT_FALSE(probe.ok());
  EXPECT_EQ(probe.error().cause, Cause::signal_blocked);
  done.count_down();
  for (std::thread& thread : threads) thread.join();
}

TEST(TrapSignal, BlockedWhenAProbeIsRemovedLeavesACorrectProgram) {
  int hits = 0;
  std::optional<Probe> probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTRAP);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  probe.reset();
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(hits, 0);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(hits, 1);
}

TEST(TrapSignal, BlockedWhenAProbeIsRemovedLeavesAJumpUntilAnotherIsPlacedOrRemoved) {
  const auto text = [] {
    const auto* const bytes = reinterpret_cast<const volatile uint8_t*>(&self_window);
    return std::vector<uint8_t>(bytes, bytes + 16);
  };
  const auto original = text();
  std::optional<Probe> other;
  for (const bool places : {true, false}) {
    std::optional<Probe> probe = place({.where = self_window, .pre = [](Registers&) {}});
    {
      const BlockedTrapSignal blocked;
      probe.reset();
    }
    EXPECT_NE(text(), original);
    if (places)
      other = place({.where = self_insn, .pre = [](Registers&) {}});
    else
      other.reset();
    EXPECT_EQ(text(), original);
    EXPECT_EQ(self_window(10, 7), 37);
  }
}

volatile sig_atomic_t own_traps;

void handle_traps_here() {
  struct sigaction action = {};
  action.sa_handler = [](int) { own_traps = own_traps + 1; };
  ::sigaction(SIGTRAP, &action, nullptr);
}

Probe breakpoint_that_counts(int& hits) {
  return place({.where = inside(self_short, 2),
                .pre = [&](Registers&) { ++hits; },
                .allow_breakpoint = true});
}

TEST(TrapSignal, OfTheProgramGoesToItsHandler) {
  in_child([] {
    handle_traps_here();
    int hits = 0;
    const Probe probe = breakpoint_that_counts(hits);
    EXPECT_EQ(self_short(1), 4);
    asm volatile("int3");
    ::raise(SIGTRAP);
    EXPECT_EQ(self_short(1), 4);
    EXPECT_EQ(own_traps, 2);
    EXPECT_EQ(hits, 2);
  });
}

// The kernel reports it as if it were the breakpoint of one byte.
TEST(TrapSignal, OfABreakpointOfTwoBytesGoesToTheProgramsHandler) {
  in_child([] {
    handle_traps_here();
    int hits = 0;
    const Probe probe = breakpoint_that_counts(hits);
    asm volatile(".byte 0xcd, 3");
    EXPECT_EQ(own_traps, 1);
    EXPECT_EQ(self_short(1), 4);
    EXPECT_EQ(hits, 1);
  });
}

sigset_t blocked_in_handler;

TEST(TrapSignal, OfTheProgramIsHandledWithItsOwnSignalMask) {
  in_child([] {
    struct sigaction action = {};
    action.sa_handler = [](int) { ::sigprocmask(SIG_BLOCK, nullptr, &blocked_in_handler); };
    ::sigaction(SIGTRAP, &action, nullptr);
    int hits = 0;
    const Probe probe = breakpoint_that_counts(hits);
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR2);
    ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
    ::raise(SIGTRAP);
    for (int signal = 1; signal < NSIG; ++signal)
      EXPECT_EQ(::sigismember(&blocked_in_handler, signal), signal == SIGUSR2) << signal;
    EXPECT_EQ(self_short(1), 4);
    EXPECT_EQ(hits, 1);
  });
}

TEST(TrapSignal, IsTakenBackFromALaterHandler) {
  in_child([] {
    const Probe early = place({.where = self_insn, .pre = [](Registers&) {}});
    handle_traps_here();
    int hits = 0;
    const Probe probe = breakpoint_that_counts(hits);
    EXPECT_EQ(self_short(1), 4);
    asm volatile("int3");
    EXPECT_EQ(own_traps, 1);
    EXPECT_EQ(hits, 1);
  });
}

struct sigaction chained_to;
volatile sig_atomic_t chained;

// A handler that passes traps that it does not know on to the handler that it has replaced.
void handle_traps_by_chaining() {
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
    chained = chained + 1;
    volatile long frame[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    chained_to.sa_sigaction(signal, info, context);
    for (long i = 0; i < 8; ++i)
      if (frame[i] != i + 1) ::_exit(2);
  };
  ::sigaction(SIGTRAP, &action, &chained_to);
}

TEST(TrapSignal, MayComeFromALaterHandlerThatChains) {
  in_child([] {
    int hits = 0;
    const Probe probe = breakpoint_that_counts(hits);
    handle_traps_by_chaining();
    EXPECT_EQ(self_short(1), 4);
    EXPECT_EQ(hits, 1);
    EXPECT_EQ(chained, 1);
  });
}

TEST(TrapSignal, GoesToEachHandlerOnceIfTheyChainToEachOther) {
  in_child([] {
    handle_traps_here();
    int hits = 0;
    const Probe probe = breakpoint_that_counts(hits);
    handle_traps_by_chaining();
    const Probe other = place({.where = self_insn, .pre = [](Registers&) {}});
    EXPECT_EQ(self_short(1), 4);
    EXPECT_EQ(hits, 1);
    EXPECT_EQ(chained, 0);
    for (int i = 1; i <= 3; ++i) {
      asm volatile("int3");
      EXPECT_EQ(own_traps, i);
      EXPECT_EQ(chained, i);
    }
    ::raise(SIGTRAP);
    EXPECT_EQ(own_traps, 4);
    EXPECT_EQ(chained, 4);
  });
}

void expect_killed_by_trap(pid_t child) {
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTRAP);
}

TEST(TrapSignal, KillsTheProgramIfNoHandlerInACycleKnowsIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTRAP, SIG_DFL);
    const Probe probe = place({.where = self_window, .pre = [](Registers&) {}});
    handle_traps_by_chaining();
    const Probe other = place({.where = self_insn, .pre = [](Registers&) {}});
    asm volatile("int3");
    ::_exit(0);
  }
  expect_killed_by_trap(child);
}

sigjmp_buf left_by;

TEST(TrapSignal, GoesToTheLatestHandlerAgainAfterALongjmpOutOfOne) {
  in_child([] {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      own_traps = own_traps + 1;
      ::siglongjmp(left_by, 1);
    };
    ::sigaction(SIGTRAP, &action, nullptr);
    const Probe probe = place({.where = self_window, .pre = [](Registers&) {}});
    static int times = 0;
    while (times < 3) {
      ++times;
      if (::sigsetjmp(left_by, 1) == 0) asm volatile("int3");
      EXPECT_EQ(own_traps, times);
    }
  });
}

TEST(TrapSignal, IsTakenBackBeforeAProbeIsRemoved) {
  in_child([] {
    // Calls only while the probe is being removed: a trap that is pending from its placing would
    // rightly go to the program's handler.
    enum class Do { wait, call, end };
    std::atomic<Do> wanted{Do::wait}, done{Do::wait};
    std::thread caller([&] {
      for (Do what = wanted; what != Do::end; what = wanted) {
        if (what == Do::call) {
          EXPECT_EQ(self_window(10, 7), 37);
        }
        done = what;
      }
    });
    const auto let_it = [&](Do what) {
      wanted = what;
      while (done != what) ::sched_yield();
    };
    for (int i = 0; i < 100; ++i) {
      std::optional<Probe> probe = place({.where = self_window, .pre = [](Registers&) {}});
      handle_traps_here();
      let_it(Do::call);
      probe.reset();
      let_it(Do::wait);
    }
    wanted = Do::end;
    caller.join();
    EXPECT_EQ(own_traps, 0);
    struct sigaction now = {};
    ::sigaction(SIGTRAP, nullptr, &now);
    EXPECT_NE(now.sa_flags & SA_SIGINFO, 0);
  });
}

TEST(TrapSignal, OfTheProgramKillsItWithoutAHandler) {
  for (const bool has_two_bytes : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGTRAP, SIG_DFL);
      const Probe probe = place({.where = self_window, .pre = [](Registers&) {}});
      // The second byte and the one after it are an instruction that does no harm.
      if (has_two_bytes)
        asm volatile("xor %%eax, %%eax; .byte 0xcd, 3, 0xc0" : : : "rax");
      else
        asm volatile("int3");
      ::_exit(0);
    }
    expect_killed_by_trap(child);
  }
}

std::atomic<int> hits_in_signal;

TEST(Signal, HandlersHitProbesLikeAnyCode) {
  const Probe probe = place({.where = self_insn, .pre = [](Registers&) { ++hits_in_signal; }});
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { self_insn(1); };
  ::sigaction(SIGUSR1, &action, &before);
  ::raise(SIGUSR1);
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(hits_in_signal, 1);
}

// ---------------------------------------------------------------------------------------- forks

TEST(Fork, KeepsProbesInTheChildWhichCanRemoveThem) {
  int hits = 0;
  std::optional<Probe> probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  in_child([&] {
    EXPECT_EQ(self_window(10, 7), 37);
    EXPECT_EQ(hits, 1);
    probe.reset();
    EXPECT_EQ(self_window(10, 7), 37);
    EXPECT_EQ(hits, 1);
    int others = 0;
    const Probe other = place({.where = self_nop, .pre = [&](Registers&) { ++others; }});
    std::thread([] { self_nop(1); }).join();
    EXPECT_EQ(others, 1);
  });
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(hits, 1);
}

TEST(Fork, WorksFromAHandlerInBothProcesses) {
  std::atomic<int> hits{0};
  const pid_t parent = ::getpid();
  {
    const Probe probe = place({.where = self_window, .pre = [&](Registers&) {
                                 ++hits;
                                 if (const pid_t child = ::fork(); child > 0) {
                                   int status = 0;
                                   ::waitpid(child, &status, 0);
                                   EXPECT_EQ(status, 0);
                                 }
                               }});
    EXPECT_EQ(self_window(10, 7), 37);
  }
  if (::getpid() != parent) ::_exit(self_window(10, 7) == 37 && hits == 1 ? 0 : 1);
  EXPECT_EQ(hits, 1);
}

TEST(Fork, MakesAWorkingChildWhileProbesComeAndGo) {
  if (!calls_libcs_malloc())
    GTEST_SKIP()
        << "AddressSanitizer's malloc may stay locked in a child, by a thread that it has not";
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    while (!stop) const Probe probe = place({.where = self_pushes, .pre = [](Registers&) {}});
  });
  for (int i = 0; i < 20; ++i)
    in_child([] {
      for (int n = 0; n < 100; ++n) ASSERT_EQ(self_pushes(n), n + 1);
      const Probe probe = place({.where = self_insn, .pre = [](Registers&) {}});
      ASSERT_EQ(self_insn(1), 1001);
    });
  stop = true;
  changer.join();
}

// Not from its parent's, which has changed since. The parent has not read that library's code.
TEST(Fork, LetsTheChildPlanProbesFromItsOwnText) {
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto* const function = reinterpret_cast<int (*)(int)>(::dlsym(library, "unloaded_function"));
  ASSERT_NE(function, nullptr);
  {
    const Probe first = place({.where = self_nop, .pre = [](Registers&) {}});
  }
  int changed[2];
  ASSERT_EQ(::pipe(changed), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    if (::read(changed[0], &byte, 1) != 1) ::_exit(2);
    int hits = 0;
    const auto probe = Probe::place({.where = function, .pre = [&](Registers&) { ++hits; }});
    ::_exit(probe.ok() && function(7) == 1001 && hits == 1 ? 0 : 1);
  }
  const void* const operand = inside(function, 2);
  const uint8_t original = *static_cast<const volatile uint8_t*>(operand);
  write_text(operand, static_cast<uint8_t>(original + 1));
  EXPECT_EQ(::write(changed[1], "", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  write_text(operand, original);
  for (const int end : changed) ::close(end);
  ::dlclose(library);
}

// Its prepare handler may wait for a lock that another thread holds while it uses the library.
TEST(Fork, RunsTheProgramsOwnHandlersBeforeItTakesTheLibrarysLocks) {
  static std::future_status listed = std::future_status::timeout;
  in_child([] {
    {
      const Probe probe = place({.where = self_nop, .pre = [](Registers&) {}});
    }
    ::pthread_atfork(
        [] {
          constexpr std::chrono::seconds kLong(20);
          std::packaged_task<void()> list([] { static_cast<void>(list_probes()); });
          const auto done = list.get_future();
          std::thread(std::move(list)).detach();
          listed = done.wait_for(kLong);
        },
        nullptr, nullptr);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(listed, std::future_status::ready);
  });
}

// Placing opens and reads files, where a thread may be cancelled.
TEST(Cancellation, WaitsUntilTheLibrarysWorkIsDone) {
  in_child([] {
    struct Seen {
      bool placed = false, listed = false;
    } seen;
    pthread_t thread;
    ASSERT_EQ(::pthread_create(
                  &thread, nullptr,
                  [](void* argument) -> void* {
                    auto& mine = *static_cast<Seen*>(argument);
                    ::pthread_cancel(::pthread_self());
                    {
                      const Probe probe = place({.where = self_nop, .pre = [](Registers&) {}});
                      mine.placed = true;
                    }
                    mine.listed = list_probes().empty();
                    ::pthread_testcancel();
                    return nullptr;
                  },
                  &seen),
              0);
    void* result = nullptr;
    ASSERT_EQ(::pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    EXPECT_TRUE(seen.placed);
    EXPECT_TRUE(seen.listed);
  });
}

TEST(Fork, ByPosixSpawnAndSystemWorksUnderProbes) {
  std::vector<ProbeSpec> specs;
  std::atomic<int> hits{0};
  for (const char* name : {"libc:malloc", "libc:write", "libc:__libc_fork", "libc:sigaction"})
    for (const Where& where : must(find_functions(name)))
      specs.push_back({.where = where, .pre = [&](Registers&) { ++hits; }});
  const auto probes = must(Probe::place(std::move(specs)));
  EXPECT_EQ(std::system("exit 7") >> 8, 7);
  // system() changes signal handling itself, before it starts the shell and after.
  EXPECT_GE(hits, 4);
}

// ------------------------------------------------------------------------------------- libraries

TEST(Loader, MarksAProbeOnAnUnloadedLibraryAsGone) {
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto* const function = reinterpret_cast<int (*)(int)>(::dlsym(library, "unloaded_function"));
  ASSERT_NE(function, nullptr);
  int hits = 0;
  std::optional<Probe> probe = place({.where = function, .pre = [&](Registers&) { ++hits; }});
  EXPECT_EQ(function(7), 1001);
  EXPECT_EQ(hits, 1);
  ::dlclose(library);
  EXPECT_EQ(probe->placement(), Placement::gone);
  EXPECT_THAT(list_probes(), testing::HasSubstr("[GONE]"));

  void* const again = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  auto* const reloaded = reinterpret_cast<int (*)(int)>(::dlsym(again, "unloaded_function"));
  const Probe anew = place({.where = reloaded, .pre = [&](Registers&) { ++hits; }});
  probe.reset();
  EXPECT_EQ(reloaded(7), 1001);
  EXPECT_EQ(hits, 2);
  ::dlclose(again);
}

TEST(Loader, ShowsAtOnceInTheListThatALibraryIsGone) {
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const Probe probe = place({.where = "unloaded_function", .pre = [](Registers&) {}});
  ::dlclose(library);
  EXPECT_THAT(list_probes(), testing::HasSubstr("[GONE]"));
}

// A program that loads its plugin anew once that was built again, at the same path.
class Plugin {
 public:
  Plugin() { load(UNLOADED_LIBRARY); }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  ~Plugin() { ::dlclose(library_); }
  int (*function() const)(int) {
    return reinterpret_cast<int (*)(int)>(::dlsym(library_, "unloaded_function"));
  }
  void load_anew() {
    ::dlclose(library_);
    load(UNLOADED_LIBRARY_ANEW);
  }

 private:
  void load(const char* built) {
    std::filesystem::copy_file(built, folder_ / "new.so");
    std::filesystem::rename(folder_ / "new.so", folder_ / "plugin.so");
    library_ = ::dlopen((folder_ / "plugin.so").c_str(), RTLD_NOW);
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
  }
  const Scratch folder_;
  void* library_ = nullptr;
};

TEST(Loader, LeavesALibraryAloneThatTakesThePlaceOfAnotherOne) {
  Plugin plugin;
  auto* const former = plugin.function();
  std::optional<Probe> probe = place({.where = former, .pre = [](Registers&) {}});
  plugin.load_anew();
  if (plugin.function() != former) GTEST_SKIP() << "the loader has chosen another address";
  int hits = 0;
  const Probe other = place({.where = plugin.function(), .pre = [&](Registers&) { ++hits; }});
  EXPECT_EQ(probe->placement(), Placement::gone);
  probe.reset();
  EXPECT_EQ(plugin.function()(7), 2002);
  EXPECT_EQ(hits, 1);
}

TEST(Loader, WritesNothingOverALibraryThatTakesThePlaceOfAnotherOne) {
  Plugin plugin;
  auto* const former = plugin.function();
  std::optional<Probe> probe = place({.where = former, .pre = [](Registers&) {}});
  plugin.load_anew();
  if (plugin.function() != former) GTEST_SKIP() << "the loader has chosen another address";
  probe.reset();
  EXPECT_EQ(plugin.function()(7), 2002);
}

// Memory of the test in place of an unloaded library's, so that nothing else is mapped there.
class InPlaceOfALibrary {
 public:
  explicit InPlaceOfALibrary(const void* function)
      : begin_(reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(function) & ~kPage)) {
    void* const mapped = ::mmap(begin_, kPage + 1, PROT_READ | PROT_WRITE | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != begin_) throw std::runtime_error("something else has been mapped there");
    std::memset(begin_, kContents, kPage + 1);
  }
  InPlaceOfALibrary(const InPlaceOfALibrary&) = delete;
  InPlaceOfALibrary& operator=(const InPlaceOfALibrary&) = delete;
  ~InPlaceOfALibrary() { ::munmap(begin_, kPage + 1); }
  bool is_untouched() const {
    return std::all_of(begin_, begin_ + kPage + 1, [](uint8_t byte) { return byte == kContents; });
  }

 private:
  static constexpr uintptr_t kPage = 4095;
  static constexpr uint8_t kContents = 0x5a;
  uint8_t* begin_;
};

TEST(Loader, WritesNothingWhenAProbeOnAnUnloadedLibraryIsRemoved) {
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto* const function = reinterpret_cast<int (*)(int)>(::dlsym(library, "unloaded_function"));
  std::optional<Probe> probe = place({.where = function, .pre = [](Registers&) {}});
  const Probe other = place({.where = function, .pre = [](Registers&) {}});
  ::dlclose(library);
  const InPlaceOfALibrary there(reinterpret_cast<const void*>(function));
  probe.reset();
  EXPECT_TRUE(there.is_untouched());
}

// By itself the counter would need a stub that was never made.
TEST(Loader, LeavesACounterOnAnUnloadedLibraryWhenTheProbeBesideItIsRemoved) {
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto* const function = reinterpret_cast<int (*)(int)>(::dlsym(library, "unloaded_function"));
  std::optional<Probe> probe = place({.where = function, .pre = [](Registers&) {}});
  const Counter counter = must(Counter::place(function));
  EXPECT_EQ(function(7), 1001);
  ::dlclose(library);
  const InPlaceOfALibrary there(reinterpret_cast<const void*>(function));
  probe.reset();
  EXPECT_TRUE(there.is_untouched());
  EXPECT_EQ(counter.value(), 1u);
}

// A thread looks all the time, also while text is written.
TEST(Text, IsNeverWritableAndExecutable) {
  std::atomic<bool> stop{false};
  std::atomic<int> looks{0};
  std::thread looker([&] {
    while (!stop) {
      std::ifstream maps("/proc/self/maps");
      for (std::string line; std::getline(maps, line);)
        EXPECT_THAT(line, testing::Not(testing::HasSubstr("rwx")));
      ++looks;
    }
  });
  constexpr int kLooks = 50;
  while (looks < kLooks) {
    const Probe probe = place({.where = self_window, .pre = [](Registers&) {}});
    const ReturnProbe other =
        place(ReturnProbeSpec{.where = self_insn, .on_return = [](Registers&) {}});
    const Latency latency = must(Latency::place(self_nop));
    EXPECT_TRUE(optimise(false).ok());
    EXPECT_TRUE(optimise(true).ok());
  }
  stop = true;
  looker.join();
}

}  // namespace
}  // namespace pinprick
