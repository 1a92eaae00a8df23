// Probes of a process that a debugger traces: what needs no breakpoint works while there is one
// thread, and what needs one is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "library/functions.h"
#include "library/in_child.h"
#include "library/place.h"
#include "library/traced.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"
#include "pinprick/tracepoint.h"

PINPRICK_POINT_DECLARE(traced, value, long);
PINPRICK_POINT_DEFINE(traced, value);

namespace pinprick {
namespace {

using testing::AllOf;
using testing::HasSubstr;

__attribute__((noinline)) void reach(long value) {
  PINPRICK_POINT(traced, value, value);
}

void add(void* sum, long value) {
  *static_cast<long*>(sum) += value;
}

std::vector<uint8_t> text_of(const void* function) {
  const auto* const bytes = static_cast<const volatile uint8_t*>(function);
  return {bytes, bytes + 16};
}

template <class F>
std::vector<uint8_t> text_of(F* function) {
  return text_of(reinterpret_cast<const void*>(function));
}

// One function of each form of site: a nop, one instruction, instructions with boundaries.
struct Form {
  const char* name;
  long (*function)(long);
  long added;
};
constexpr Form kForms[] = {{"a nop", self_nop, 1},
                           {"one instruction", self_insn, 1000},
                           {"one-byte instructions", self_pushes, 1},
                           {"three-byte instructions", self_steps, 4},
                           {"after endbr64", self_marked, 2}};

// ------------------------------------------------------------------------------- what works

TEST(Traced, OneThreadCountsTimesAndHandlesExactly) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    in_traced_child([&] {
      const auto before = text_of(form.function);
      uint64_t entered = 0, returned = 0;
      {
        const Counter counter = must(Counter::place(form.function));
        EXPECT_NE(text_of(form.function), before);
        const Latency latency = must(Latency::place(form.function));
        const Probe probe = place({.where = form.function, .pre = [&](Registers&) { ++entered; }});
        const ReturnProbe calls = place(
            ReturnProbeSpec{.where = form.function, .on_return = [&](Registers&) { ++returned; }});
        EXPECT_EQ(probe.placement(), Placement::jump);
        for (long i = 0; i < 1000; ++i) EXPECT_EQ(form.function(i), i + form.added);
        EXPECT_EQ(counter.value(), 1000u);
        EXPECT_EQ(latency.snapshot().count(), 1000u);
      }
      EXPECT_EQ(entered, 1000u);
      EXPECT_EQ(returned, 1000u);
      EXPECT_EQ(text_of(form.function), before);
      EXPECT_EQ(form.function(1), 1 + form.added);
    });
  }
}

// The thread runs a function right after its text has changed, and so may have fetched it before.
TEST(Traced, EachSwitchTakesEffectAtOnce) {
  in_traced_child([] {
    std::vector<Counter> counters;
    for (const Form& form : kForms) counters.push_back(must(Counter::place(form.function)));
    for (int round = 0; round < 300; ++round)
      for (size_t i = 0; i < counters.size(); ++i) {
        const uint64_t before = counters[i].value();
        ASSERT_TRUE(counters[i].disable().ok());
        ASSERT_EQ(kForms[i].function(round), round + kForms[i].added);
        ASSERT_EQ(counters[i].value(), before);
        ASSERT_TRUE(counters[i].enable().ok());
        ASSERT_EQ(kForms[i].function(round), round + kForms[i].added);
        ASSERT_EQ(counters[i].value(), before + 1);
      }
  });
}

// Five shapes at each offset to a cache line, so that many lie next to each other.
TEST(Traced, ManyProbesArePlacedAndRemovedTogether) {
  in_traced_child([] {
    constexpr long kAdded[] = {6, 3, 1000, 1, 4105};
    std::vector<std::vector<uint8_t>> before;
    std::vector<uint64_t> hits(std::size(stress_functions));
    std::vector<ProbeSpec> specs;
    for (size_t i = 0; i < std::size(stress_functions); ++i) {
      before.push_back(text_of(stress_functions[i]));
      specs.push_back({.where = stress_functions[i], .pre = [&hits, i](Registers&) { ++hits[i]; }});
    }
    auto some = must(Probe::place_possible(std::move(specs)));
    EXPECT_GT(some.placed.size(), std::size(stress_functions) * 9 / 10);
    std::vector<bool> is_placed(std::size(stress_functions), true);
    for (const Refusal& refusal : some.refused) {
      EXPECT_EQ(refusal.error.cause, Cause::refused) << refusal.error.message();
      is_placed[refusal.index] = false;
    }
    ASSERT_TRUE(disarm_all().ok());
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(text_of(stress_functions[i]), before[i]);
    ASSERT_TRUE(arm_all().ok());
    for (size_t i = 0; i < hits.size(); ++i) {
      EXPECT_EQ(stress_functions[i](7), 7 + kAdded[i / 64]);
      EXPECT_EQ(hits[i], is_placed[i] ? 1u : 0u) << i;
    }
    Probe::remove(std::move(some.placed));
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(text_of(stress_functions[i]), before[i]);
  });
}

TEST(Traced, TracepointsOfOneThreadAreTurnedOnAndOff) {
  in_traced_child([] {
    const auto before = text_of(reach);
    long sum = 0;
    for (int round = 0; round < 100; ++round) {
      reach(1);
      ASSERT_EQ(PINPRICK_POINT_ATTACH(traced, value, add, &sum, 0), 0) << pinprick_points_error();
      reach(100);
      ASSERT_EQ(PINPRICK_POINT_DETACH(traced, value, add, &sum), 0) << pinprick_points_error();
    }
    EXPECT_EQ(sum, 100 * 100);
    EXPECT_EQ(text_of(reach), before);
  });
}

TEST(Traced, AThreadThatIsStartedLaterHitsTheProbes) {
  in_traced_child([] {
    const auto before = text_of(self_steps);
    std::optional<Counter> counter = must(Counter::place(self_steps));
    std::thread([] {
      for (long i = 0; i < 500; ++i) EXPECT_EQ(self_steps(i), i + 4);
    }).join();
    for (long i = 0; i < 500; ++i) EXPECT_EQ(self_steps(i), i + 4);
    EXPECT_EQ(counter->value(), 1000u);
    counter.reset();  // of the thread, which was joined, something may still be there
    EXPECT_EQ(text_of(self_steps), before);
  });
}

TEST(Traced, HandlersMayPlaceAndRemoveProbes) {
  in_traced_child([] {
    const auto before = text_of(self_pushes);
    std::optional<Probe> other;
    int hits = 0;
    {
      const Probe probe =
          place({.where = self_steps, .pre = [&](Registers&) {
                   if (other)
                     other.reset();
                   else
                     other = place({.where = self_pushes, .pre = [&](Registers&) { ++hits; }});
                 }});
      for (int round = 0; round < 10; ++round) {
        EXPECT_EQ(self_steps(1), 5);
        EXPECT_EQ(self_pushes(1), 2);
      }
    }
    EXPECT_EQ(hits, 5);
    EXPECT_EQ(text_of(self_pushes), before);
  });
}

TEST(Traced, ProbesFromBeforeTheTracerCameAreTakenOut) {
  const auto window = text_of(self_steps), narrow = text_of(inside(self_short, 2));
  std::optional<Counter> counter = must(Counter::place(self_steps));
  std::optional<Probe> breakpoint =
      place({.where = inside(self_short, 2), .pre = [](Registers&) {}, .allow_breakpoint = true});
  ASSERT_EQ(breakpoint->placement(), Placement::breakpoint);
  in_traced_child([&] {
    counter.reset();
    breakpoint.reset();
    EXPECT_EQ(text_of(self_steps), window);
    EXPECT_EQ(text_of(inside(self_short, 2)), narrow);
    EXPECT_EQ(self_short(1), 4);
  });
}

// ----------------------------------------------------------------------------- what is refused

class Waiting {
 public:
  Waiting() : thread_([this] { stop_.wait(false); }) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    stop_ = true;
    stop_.notify_all();
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

template <class T>
void expect_refused(const Result<T, Error>& result, const std::string& why) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().cause, Cause::debugger);
  EXPECT_THAT(result.error().message(), AllOf(HasSubstr("a debugger holds this process"),
                                              HasSubstr(why), HasSubstr("detach it first")));
}

TEST(Traced, SeveralThreadsAreRefused) {
  in_traced_child([] {
    const Waiting other;
    for (const Form& form : kForms) {
      const auto before = text_of(form.function);
      expect_refused(Counter::place(form.function), "other threads");
      EXPECT_EQ(text_of(form.function), before);
    }
    long sum = 0;
    EXPECT_EQ(PINPRICK_POINT_ATTACH(traced, value, add, &sum, 0), -1);
    EXPECT_EQ(errno, EBUSY);
    EXPECT_THAT(pinprick_points_error(), HasSubstr("debugger"));
    reach(1);
    EXPECT_EQ(sum, 0);
  });
}

// Its first byte is enough, which each thread sees or does not see.
TEST(Traced, SeveralThreadsTakeBreakpointsOutButLeaveJumps) {
  const auto before = text_of(inside(self_short, 2));
  std::optional<Probe> breakpoint =
      place({.where = inside(self_short, 2), .pre = [](Registers&) {}, .allow_breakpoint = true});
  uint64_t hits = 0;
  std::optional<Probe> jump = place({.where = self_steps, .pre = [&](Registers&) { ++hits; }});
  in_traced_child([&] {
    const Waiting other;
    breakpoint.reset();
    EXPECT_EQ(text_of(inside(self_short, 2)), before);
    EXPECT_EQ(self_short(1), 4);
    jump.reset();
    EXPECT_EQ(self_steps(1), 5);
    EXPECT_EQ(hits, 0u);
  });
}

// Such a probe leads the jump that is there to another stub, and writes no text.
TEST(Traced, SeveralThreadsGetAnotherHandlerWhereAJumpIs) {
  const Counter counter = must(Counter::place(self_steps));
  in_traced_child([] {
    const Waiting other;
    uint64_t hits = 0;
    {
      const Probe probe = place({.where = self_steps, .pre = [&](Registers&) { ++hits; }});
      EXPECT_EQ(self_steps(1), 5);
    }
    EXPECT_EQ(self_steps(1), 5);
    EXPECT_EQ(hits, 1u);
  });
}

TEST(Traced, BreakpointsAreRefused) {
  in_traced_child([] {
    const auto before = text_of(inside(self_short, 2));
    expect_refused(
        Probe::place(
            {.where = inside(self_short, 2), .pre = [](Registers&) {}, .allow_breakpoint = true}),
        "breakpoint");
    EXPECT_EQ(text_of(inside(self_short, 2)), before);
    const Probe jump =
        place({.where = self_steps, .pre = [](Registers&) {}, .allow_breakpoint = true});
    expect_refused(optimise(false), "breakpoint");
    EXPECT_EQ(jump.placement(), Placement::jump);
  });
}

TEST(Traced, ThoseThatNeedABreakpointAreLeftOutOfABatch) {
  in_traced_child([] {
    uint64_t hits = 0;
    const Handler counts = [&](Registers&) { ++hits; };
    std::vector<ProbeSpec> specs;
    specs.push_back({.where = self_insn, .pre = counts});
    specs.push_back({.where = inside(self_short, 2), .pre = counts, .allow_breakpoint = true});
    specs.push_back({.where = self_steps, .pre = counts});
    const auto some = must(Probe::place_possible(std::move(specs)));
    ASSERT_EQ(some.refused.size(), 1u);
    EXPECT_EQ(some.refused[0].index, 1u);
    EXPECT_EQ(some.refused[0].error.cause, Cause::debugger);
    EXPECT_THAT(some.refused[0].error.site, HasSubstr("self_short"));
    self_insn(1);
    self_short(1);
    self_steps(1);
    EXPECT_EQ(hits, 2u);
  });
}

// It would make the other one a breakpoint.
TEST(Traced, AProbeBetweenTheInstructionsOfAnotherIsRefused) {
  in_traced_child([] {
    const Probe first =
        place({.where = self_steps, .pre = [](Registers&) {}, .allow_breakpoint = true});
    expect_refused(
        Probe::place(
            {.where = inside(self_steps, 3), .pre = [](Registers&) {}, .allow_breakpoint = true}),
        "breakpoint");
    EXPECT_EQ(first.placement(), Placement::jump);
    EXPECT_EQ(self_steps(1), 5);
  });
}

// A process in the same memory runs the same text. Only the kernel knows of one whose parent has
// ended.
struct Shared {
  std::atomic<bool> started = false, stop = false;
  alignas(16) std::array<uint8_t, 65536> stack = {}, other_stack = {};
  void* top() { return stack.data() + stack.size(); }
  void* other_top() { return other_stack.data() + other_stack.size(); }
};

int wait_in_same_memory(void* argument) {
  auto& shared = *static_cast<Shared*>(argument);
  shared.started = true;
  while (!shared.stop) ::sched_yield();
  return 0;
}

int leave_a_child(void* argument) {
  auto& shared = *static_cast<Shared*>(argument);
  return ::clone(wait_in_same_memory, shared.other_top(), CLONE_VM, argument) > 0 ? 0 : 1;
}

TEST(Traced, AProcessInTheSameMemoryCountsAsAThread) {
  for (auto* child : {&wait_in_same_memory, &leave_a_child})
    in_traced_child([&] {
      const auto shared = std::make_unique<Shared>();
      ASSERT_GT(::clone(child, shared->top(), CLONE_VM | SIGCHLD, shared.get()), 0);
      while (!shared->started) ::sched_yield();
      expect_refused(Counter::place(self_steps), "other threads");
      shared->stop = true;
    });
}

// It may kill the process for a system call that it does not expect.
TEST(Traced, AFilterOfSystemCallsIsNotTried) {
  in_traced_child([] {
    static sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {std::size(rules), rules};
    ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    expect_refused(Counter::place(self_steps), "other threads");
  });
}

// ------------------------------------------------------- a thread between the instructions

// A frame of a signal handler might lie where nothing is looked for.
[[gnu::noinline]] Result<Counter, Error> place_below_a_long_stack(long (*function)(long)) {
  volatile uint8_t used[9 << 20];
  for (size_t at = sizeof used; at >= 4096; at -= 4096) used[at - 4096] = 1;
  auto counter = Counter::place(function);
  used[0] = 2;
  return counter;
}

TEST(Traced, AThreadWithAStackTooLongToBeLookedAtIsTakenForOneThatMightReturnThere) {
  in_traced_child([] {
    const rlimit limit = {64 << 20, 64 << 20};
    ASSERT_EQ(::setrlimit(RLIMIT_STACK, &limit), 0);
    expect_refused(place_below_a_long_stack(self_steps), "between the instructions");
    EXPECT_TRUE(place_below_a_long_stack(self_insn).ok());
    EXPECT_TRUE(Counter::place(self_steps).ok());
  });
}

std::optional<Result<Counter, Error>> placed_in_handler;

void place_in_handler(int) {
  placed_in_handler.emplace(Counter::place(self_steps));
}

// A tracer interrupts the thread between two instructions, by a signal whose handler places a probe
// on them. (Handlers of signals must not do that; but the program should not go wrong.)
TEST(Traced, AThreadThatWillReturnBetweenTheInstructionsIsNotProbed) {
  for (const uint64_t offset : {0, 3, 6}) {
    SCOPED_TRACE(offset);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::signal(SIGUSR1, place_in_handler);
      wait_for_tracer();
      const long result = self_steps(1);
      EXPECT_EQ(result, 5);
      // The first boundary lies under the jump. The site itself, and what follows, do not.
      if (offset == 3)
        expect_refused(*placed_in_handler, "between the instructions");
      else
        must(*std::move(placed_in_handler));
      placed_in_handler.reset();
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    Tracer tracer(child);
    const auto wanted = reinterpret_cast<uint64_t>(self_steps) + offset;
    for (user_regs_struct registers = {}; registers.rip != wanted;) {
      ASSERT_EQ(::ptrace(PTRACE_SINGLESTEP, child, 0, 0), 0);
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, __WALL), child);
      ASSERT_TRUE(WIFSTOPPED(status));
      ASSERT_EQ(::ptrace(PTRACE_GETREGS, child, 0, &registers), 0);
    }
    const Seen seen = tracer.run(SIGUSR1);
    EXPECT_TRUE(WIFEXITED(seen.status)) << "ended by signal " << WTERMSIG(seen.status);
    EXPECT_EQ(WEXITSTATUS(seen.status), 0);
    EXPECT_EQ(seen.traps, 0);
  }
}

}  // namespace
}  // namespace pinprick
