// Unwinding from any instruction that runs for a probe finds the program's frames: from stubs,
// trampolines, slots, the code that calls handlers, and handlers.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <link.h>
#include <linux/rseq.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

#include "library/cancel.h"
#include "library/functions.h"
#include "library/in_child.h"
#include "library/place.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"
#include "stepping.h"

namespace pinprick {
namespace {

using stepping::address_of;

PINPRICK_INTEGER_ONLY void count(Registers&, void* user) noexcept {
  __atomic_fetch_add(static_cast<uint64_t*>(user), 1, __ATOMIC_RELAXED);
}

uint64_t hits;

Handler marked() {
  return integer_only<&count>(&hits);
}
Handler unmarked() {
  return [](Registers&) { ++hits; };
}

// --- Step by step

// Probes at a site, which stay as long as this object.
class Placed {
 public:
  virtual ~Placed() = default;
};

template <class T>
class PlacedOne : public Placed {
 public:
  explicit PlacedOne(T probe) : probe_(std::move(probe)) {}

 private:
  T probe_;
};

template <class T>
std::unique_ptr<Placed> hold(T probe) {
  return std::make_unique<PlacedOne<T>>(std::move(probe));
}

std::unique_ptr<Placed> hold(std::vector<std::unique_ptr<Placed>> all) {
  return std::make_unique<PlacedOne<std::vector<std::unique_ptr<Placed>>>>(std::move(all));
}

struct Kind {
  const char* name;
  std::unique_ptr<Placed> (*place)(const void* site);
  bool has_sequences = false;  // it has restartable sequences
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

std::unique_ptr<Placed> place_probe(const void* site, Handler pre, Handler post = {}) {
  return hold(place(ProbeSpec{
      .where = site, .pre = std::move(pre), .post = std::move(post), .allow_breakpoint = true}));
}

std::unique_ptr<Placed> place_return_probe(const void* site, Handler entry, Handler back) {
  return hold(place(ReturnProbeSpec{.where = site,
                                    .on_entry = std::move(entry),
                                    .on_return = std::move(back),
                                    .allow_breakpoint = true}));
}

const Kind kAnywhere[] = {
    {"marked", [](const void* site) { return place_probe(site, marked()); }},
    {"unmarked", [](const void* site) { return place_probe(site, unmarked()); }},
    {"after", [](const void* site) { return place_probe(site, marked(), unmarked()); }},
    {"counter", [](const void* site) { return hold(must(Counter::place(site))); }, true},
    {"nested",
     [](const void* site) { return place_probe(site, [](Registers&) { self_insn(1); }); }}};

const Kind kAtEntries[] = {
    {"return_probe",
     [](const void* site) { return place_return_probe(site, marked(), unmarked()); }},
    {"declined",
     [](const void* site) {
       return place_return_probe(
           site, [](Registers&) { return false; }, marked());
     }},
    {"latency", [](const void* site) { return hold(must(Latency::place(site))); }, true},
    {"everything",
     [](const void* site) {
       std::vector<std::unique_ptr<Placed>> all;
       all.push_back(hold(must(Counter::place(site))));
       all.push_back(place_probe(site, unmarked(), marked()));
       all.push_back(place_return_probe(site, unmarked(), marked()));
       all.push_back(hold(must(Latency::place(site))));
       return hold(std::move(all));
     },
     true}};

struct Site {
  const char* name;
  long (*function)(long);
  uint64_t offset = 0;
};

void PrintTo(const Site& site, std::ostream* out) {
  *out << site.name;
}

const Site kEntries[] = {
    {"frame_pointer", unwound_frame_pointer},
    {"saves", unwound_saves},
    {"branches", unwound_branches},
    {"loops", unwound_loops},
    {"calls", unwound_calls},
    {"calls_through_memory", unwound_calls_through_memory},
    {"returns", unwound_returns},
    {"jumps", unwound_jumps},
    {"system_call", unwound_system_call},
};
const Site kInside[] = {
    {"frame_pointer_set_up", unwound_frame_pointer, 8},
    {"leaf", unwound_leaf, 5},
};

bool is_ours(Address ip) {
  constexpr uint64_t kStepThrough = 160;
  const Address begin = address_of(&step_through);
  return !stepping::kProgram.contains(ip) && (ip < begin || ip >= begin + kStepThrough);
}

// Runs in a thread of its own, whose rseq area names `cpu` but is not registered: otherwise the
// kernel would restart a sequence at each single step.
template <class F>
void with_pretended_cpu(int cpu, F&& f) {
  std::thread([&] {
    auto* const area = reinterpret_cast<struct rseq*>(
        static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset);
    constexpr uint32_t kSignature = 0x53053053;
    constexpr uint32_t kLength = 32;
    if (__rseq_size != 0) {
      ASSERT_EQ(::syscall(SYS_rseq, area, kLength, RSEQ_FLAG_UNREGISTER, kSignature), 0);
      area->cpu_id = static_cast<uint32_t>(cpu);
      stepping::steps.area = area;
    }
    f();
    stepping::steps.area = nullptr;
  }).join();
}

// Returns 0 if there is none.
Address target_of_jump(Address site) {
  const auto* const text = reinterpret_cast<const uint8_t*>(site);
  if (text[0] != 0xe9) return 0;
  int32_t distance = 0;
  std::memcpy(&distance, text + 1, sizeof distance);
  return site + 5 + static_cast<uint64_t>(int64_t{distance});
}

using Case = std::tuple<Site, Kind>;

std::string name_of(const testing::TestParamInfo<Case>& one) {
  return std::string(std::get<0>(one.param).name) + "_" + std::get<1>(one.param).name;
}

class SelfUnwinding : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { stepping::take_steps(); }
  void TearDown() override { ASSERT_TRUE(optimise(true).ok()); }
};

TEST_P(SelfUnwinding, FromEveryInstructionFindsTheProbedFunction) {
  const auto& [site, kind] = GetParam();
  const Probe nested = place({.where = self_insn, .pre = marked()});
  for (bool jumps : {true, false})
    for (int cpu : {0, -1}) {
      SCOPED_TRACE(testing::Message() << (jumps ? "a jump" : "a breakpoint") << ", CPU " << cpu);
      ASSERT_TRUE(optimise(jumps).ok());
      with_pretended_cpu(cpu, [&, &site = site, &kind = kind] {
        const auto expected = stepping::expected_of(site.function);
        const auto placed = kind.place(inside(site.function, site.offset));
        const Address jump = target_of_jump(address_of(site.function) + site.offset);
        const auto executed = stepping::expect_right_everywhere(site.function, expected, is_ours);
        EXPECT_GT(executed.size(), 15u);
        EXPECT_TRUE(jump == 0 || executed.contains(jump));
        const bool has_rseq = stepping::steps.area != nullptr;
        EXPECT_EQ(!stepping::steps.aborted.empty(), has_rseq && kind.has_sequences);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Entries, SelfUnwinding,
                         testing::Combine(testing::ValuesIn(kEntries),
                                          testing::ValuesIn(kAnywhere)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Calls, SelfUnwinding,
                         testing::Combine(testing::ValuesIn(kEntries),
                                          testing::ValuesIn(kAtEntries)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Inside, SelfUnwinding,
                         testing::Combine(testing::ValuesIn(kInside), testing::ValuesIn(kAnywhere)),
                         name_of);

TEST(SelfUnwindingOf, ATrampolineFindsTheProbedFunction) {
  stepping::take_steps();
  const auto expected = stepping::expected_of(unwound_returns);
  const Probe probe = place({.where = unwound_returns, .pre = marked()});
  const Address trampoline = target_of_jump(address_of(&unwound_returns));
  ASSERT_NE(trampoline, 0u);
  const auto* const jump = reinterpret_cast<const uint8_t*>(trampoline);
  ASSERT_TRUE(jump[0] == 0xff && jump[1] == 0x25) << "an indirect jump";
  const auto executed = stepping::expect_right_everywhere(unwound_returns, expected, is_ours);
  EXPECT_TRUE(executed.contains(trampoline));
}

// At an entry, and with data in the red zone.
TEST(SelfUnwindingOf, AHitWhoseHandlerRedirectsTheThreadFindsItsContinuation) {
  stepping::take_steps();
  constexpr uint64_t kFirstOfReturns = 4, kLeaf = 5, kOneOfLeaf = 5;
  const Site sites[] = {{"", unwound_returns, 0}, {"", unwound_leaf, kLeaf}};
  for (const Site& site : sites) {
    const uint64_t length = site.offset == 0 ? kFirstOfReturns : kOneOfLeaf;
    const auto expected = stepping::expected_of(site.function);
    const Probe probe = place({.where = inside(site.function, site.offset),
                               .pre = [length](Registers& r) { r.ip += length; },
                               .allow_breakpoint = true});
    stepping::expect_right_everywhere(site.function, expected, is_ours);
  }
}

bool is_emitted_or_of_library(Address ip) {
  dl_find_object found;
  return ::_dl_find_object(reinterpret_cast<void*>(ip), &found) != 0 ||
         std::string_view(found.dlfo_link_map->l_name).find("libpinprick") !=
             std::string_view::npos;
}

long throw_it(long x) {
  throw x;
}

long catch_it(long x) {
  try {
    return self_call_back(&throw_it, x);
  } catch (long thrown) {
    return thrown;
  }
}

TEST(SelfUnwindingOf, ACallLeftByAnExceptionFindsItsCallers) {
  stepping::take_steps();
  catch_it(1);  // loads what it needs
  const auto probe = place(ReturnProbeSpec{.where = self_call_back, .on_return = marked()});
  const Latency latency = must(Latency::place(self_call_back));
  size_t steps = 0;
  with_pretended_cpu(0, [&] {
    for (const auto& frames : stepping::step(catch_it, is_emitted_or_of_library)) {
      ++steps;
      EXPECT_FALSE(frames.empty()) << "the stack was not walked to its end";
    }
  });
  EXPECT_GT(steps, 300u);
  EXPECT_EQ(probe.unwound(), 1u);
  EXPECT_EQ(latency.unwound(), 1u);
}

// --- At any time

// All kinds of probes at once, on functions of each shape.
std::unique_ptr<Placed> place_everywhere() {
  std::vector<std::unique_ptr<Placed>> all;
  for (const Site& site : kEntries)
    for (const Kind& kind : kAtEntries) all.push_back(kind.place(inside(site.function, 0)));
  for (const Site& site : kInside)
    for (const Kind& kind : kAnywhere)
      all.push_back(kind.place(inside(site.function, site.offset)));
  return hold(std::move(all));
}

long call_all(long x) {
  for (const Site& site : kEntries) x = site.function(x) & 0xff;
  return unwound_leaf(x);
}

struct Profile {
  volatile bool taken = false;
  uint64_t whole = 0, cut = 0;
  std::vector<Address> cut_at;
};
Profile profile;

void on_profile(int, siginfo_t*, void*) {
  if (!profile.taken) return;
  void* frames[64];
  const int depth = ::backtrace(frames, 64);
  const auto is_in = [](Address address, auto* function) {
    return address > address_of(function) && address < address_of(function) + 32;
  };
  for (int i = 0; i < depth; ++i)
    if (is_in(address_of(frames[i]), &self_call_back)) {
      ++profile.whole;
      return;
    }
  if (++profile.cut == 1)
    for (int i = 0; i < depth; ++i) profile.cut_at.push_back(address_of(frames[i]));
}

// Calls work(argument), and unwinds ten thousand times a second meanwhile.
void profiled(long (*work)(long), long argument) {
  profile = {};
  void* frames[2];
  ::backtrace(frames, 2);  // loads what it needs
  struct sigaction action = {}, before;
  action.sa_sigaction = on_profile;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ASSERT_EQ(::sigaction(SIGPROF, &action, &before), 0);
  struct sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event._sigev_un._tid = ::gettid();
  timer_t timer;
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  const itimerspec often = {{0, 100'000}, {0, 100'000}};
  ASSERT_EQ(::timer_settime(timer, 0, &often, nullptr), 0);
  self_call_back(work, argument);
  ::timer_delete(timer);
  ::sigaction(SIGPROF, &before, nullptr);
  EXPECT_EQ(profile.cut, 0u);
  for (Address address : profile.cut_at) ADD_FAILURE() << std::hex << "at " << address;
}

long call_until_unwound_often(long n) {
  profile.taken = true;
  for (long i = 0; profile.whole + profile.cut < static_cast<uint64_t>(n); ++i) call_all(i);
  profile.taken = false;
  return n;
}

TEST(Profiler, ReachesTheCallersOfProbedFunctions) {
  const auto placed = place_everywhere();
  profiled(call_until_unwound_often, 3000);
}

TEST(Profiler, ReachesTheCallersOfFunctionsWithBreakpoints) {
  ASSERT_TRUE(optimise(false).ok());
  {
    const auto placed = place_everywhere();
    profiled(call_until_unwound_often, 3000);
  }
  ASSERT_TRUE(optimise(true).ok());
}

// Stubs of many shapes, some hundreds of each.
std::vector<Probe> place_on_many(bool with_post) {
  std::vector<Probe> probes;
  for (auto* function : stress_functions)
    if (auto probe = Probe::place({.where = function,
                                   .pre = marked(),
                                   .post = with_post ? marked() : Handler(),
                                   .allow_breakpoint = true}))
      probes.push_back(*std::move(probe));
  EXPECT_GT(probes.size(), 200u);
  return probes;
}

std::atomic<bool> done;

TEST(Profiler, ReachesTheCallersWhileProbesComeAndGo) {
  done = false;
  std::atomic<bool> begun = false;
  std::thread thread([&] {
    begun = true;
    profiled(
        [](long x) {
          profile.taken = true;
          while (!done) x = call_all(x);
          profile.taken = false;
          return x;
        },
        1);
  });
  while (!begun) ::sched_yield();
  for (bool with_post : {false, true}) {
    const auto many = place_on_many(with_post);
    for (int i = 0; i < 10; ++i) place_everywhere();
  }
  done = true;
  thread.join();
  EXPECT_GT(profile.whole, 100u);
}

TEST(SelfUnwindingOf, OneOfManyStubsFindsTheProbedFunction) {
  stepping::take_steps();
  const auto some = place_on_many(false), others = place_on_many(true);
  const auto expected = stepping::expected_of(unwound_calls);
  const Probe probe = place({.where = unwound_calls, .pre = marked(), .post = unmarked()});
  stepping::expect_right_everywhere(unwound_calls, expected, is_ours);
}

// While another thread of the parent unwinds.
TEST(SelfUnwindingOf, AForkedChildFindsItsCallers) {
  catch_it(1);  // loads what it needs
  const auto placed = place_everywhere();
  done = false;
  std::atomic<bool> begun = false;
  std::thread thread([&] {
    void* frames[64];
    for (; !done; begun = true) ::backtrace(frames, 64);
  });
  // A starting thread allocates memory, and a child that is forked meanwhile may find a sanitizer's
  // locks held.
  while (!begun) std::this_thread::yield();
  for (int i = 0; i < 5; ++i)
    in_child([] {
      stepping::take_steps();
      const Probe one = place({.where = unwound_returns, .pre = unmarked()});
      with_pretended_cpu(0, [] {
        for (const auto& frames : stepping::step(unwound_returns, is_ours))
          EXPECT_FALSE(frames.empty());
      });
      EXPECT_EQ(catch_it(7), 7);
    });
  done = true;
  thread.join();
}

[[gnu::noinline]] void call_forever(std::atomic<long>& begun) {
  long x = call_all(1);
  begun = 1;
  for (;;) x = call_all(x);
}

// With handlers that are marked: a thread that is cancelled in another handler kills the program.
class Cancelled : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { ASSERT_TRUE(optimise(GetParam()).ok()); }
  void TearDown() override { ASSERT_TRUE(optimise(true).ok()); }
};

TEST_P(Cancelled, AnywhereInAProbeAThreadRunsItsCleanUpHandlers) {
  std::vector<std::unique_ptr<Placed>> placed;
  for (const Site& site : kEntries) {
    const void* const entry = inside(site.function, 0);
    placed.push_back(hold(must(Counter::place(entry))));
    placed.push_back(place_probe(entry, marked(), marked()));
    placed.push_back(place_return_probe(entry, marked(), marked()));
    placed.push_back(hold(must(Latency::place(entry))));
  }
  for (const Site& site : kInside)
    placed.push_back(place_probe(inside(site.function, site.offset), marked(), marked()));
  cleaned = 0;
  constexpr int kThreads = 300;
  for (int i = 0; i < kThreads; ++i) cancel_in(call_forever, 2000 + i * 37 % 1000);
  EXPECT_EQ(cleaned, kThreads);
}

INSTANTIATE_TEST_SUITE_P(Placements, Cancelled, testing::Bool(),
                         [](const auto& one) { return one.param ? "jumps" : "breakpoints"; });

}  // namespace
}  // namespace pinprick
