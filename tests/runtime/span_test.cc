// Runs the runtime of spans in this process: stubs whose actions start and end spans, and gaps
// between them, called by threads, in signal handlers and in children.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "call_with_registers.h"
#include "executable_memory.h"
#include "layout/session_file.h"
#include "own_thread.h"
#include "runtime/image.h"
#include "stats/histogram.h"

extern "C" {
long step_through(long (*f)(long), long x);
extern const uint8_t step_returned[];
}

namespace pinprick::runtime {
namespace {

constexpr unsigned kBits = 3;

// What a point does in a span, or in the gaps of that number.
struct Passes {
  uint64_t span = 0;
  layout::Pass pass = layout::Pass::starts;
};
constexpr Passes start_of(uint64_t span) {
  return {span, layout::Pass::starts};
}
constexpr Passes end_of(uint64_t span) {
  return {span, layout::Pass::ends};
}

// By locked instructions; by restartable sequences; on a thread without an area where others have
// one; or where programs must not use rdfsbase.
enum class Path : uint8_t { locked, rseq, unregistered, without_fsgsbase };

// Points that start and end spans, in functions that do nothing else.
class Points {
 public:
  using Function = void();

  // The last of the spans may be gaps.
  explicit Points(Path path, uint64_t spans = 1)
      : Points(path == Path::locked ? std::nullopt : own_rseq(), spans,
               path == Path::without_fsgsbase ? ThreadPointer::in_memory : thread_pointer_here()) {}
  Points(std::optional<arch::RseqArea> rseq, uint64_t spans,
         ThreadPointer thread_pointer = thread_pointer_here())
      : spans_(spans),
        cpus_(std::max(2u, std::thread::hardware_concurrency())),
        areas_(((cpus_ + 1) * kPageSize + PP_POOL_BLOCKS +
                (cpus_ + 1) * spans * layout::histogram_size(kBits)) /
               8),
        spec_(spec(rseq, thread_pointer)),
        extent_(runtime_extent(spec_)),
        runtime_memory_(extent_.size()),
        stubs_(1 << 16) {
    auto& pool = *reinterpret_cast<layout::PoolHeader*>(spec_.blocks.begin);
    pool.limit = pool.own_limit = spec_.blocks.size() - PP_POOL_BLOCKS;
    const auto runtime = build_runtime(runtime_memory_.address(), spec_);
    EXPECT_TRUE(runtime.has_value());
    for (const Piece& piece : runtime->pieces)
      runtime_memory_.write(piece.address - runtime_memory_.address(), piece.bytes);
    runtime_memory_.seal(extent_.data_size);
    code_ = {runtime->code_address, runtime->slot_code.begin};
    span_ = runtime->span;
    const Range table = threads_in(runtime_memory_.address(), spec_);
    const uint64_t size = layout::thread_entry_size(spans_);
    for (uint64_t i = 0; i < layout::kThreadEntries; ++i)
      entries_.push_back(reinterpret_cast<layout::ThreadEntry*>(table.begin + i * size));
  }

  // Makes a function for each list. To be called once.
  std::vector<Function*> functions(const std::vector<std::vector<Passes>>& points) {
    arch::Assembler code(stubs_.address());
    arch::ArenaSpec arena;
    arena.size = stubs_.size();
    arena.enter = span_;
    arena.locked_areas = locked_areas(spec_);
    const auto cpus = cpu_areas(spec_);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code, arena);
    const std::vector<uint8_t> function = {0xc3};
    const Address begin = stubs_.address() + stubs_.size() / 2;
    std::vector<Function*> all;
    for (const auto& point : points) {
      std::vector<arch::StubAction> actions;
      for (const Passes& one : point)
        actions.push_back({.what = arch::PassSpan{{one.span * sizeof(layout::SpanCounters), kBits},
                                                  layout::span_start_offset(one.span),
                                                  one.pass}});
      const auto stub = arch::emit_stub(code, entries, {.actions = actions}, {begin, function});
      all.push_back(reinterpret_cast<Function*>(stub.begin));
    }
    const auto bytes = code.finish();
    EXPECT_TRUE(bytes.has_value());
    stubs_.write(0, *bytes);
    stubs_.write(begin - stubs_.address(), function);
    stubs_.seal();
    return all;
  }

  stats::Histogram histogram(uint64_t span = 0) const {
    stats::Histogram sum(kBits);
    for (uint64_t area = 0; area <= cpus_; ++area) {
      const uint64_t offset = counters_of(area, span).block;
      if (offset == 0) continue;
      const auto* cells = reinterpret_cast<const stats::Cell*>(spec_.blocks.begin + offset);
      for (uint32_t slot = 0; slot < stats::slot_count(kBits); ++slot) sum.add(slot, cells[slot]);
    }
    return sum;
  }
  uint64_t recorded(uint64_t span = 0) const { return histogram(span).count(); }
  uint64_t missed(uint64_t span = 0) const { return sum(&layout::SpanCounters::missed, span); }
  uint64_t repeated(uint64_t span = 0) const { return sum(&layout::SpanCounters::repeated, span); }
  uint64_t unmatched(uint64_t span = 0) const {
    return sum(&layout::SpanCounters::unmatched, span);
  }

  const std::vector<layout::ThreadEntry*>& entries() const { return entries_; }
  // From then on entries() has only the window of this entry.
  void narrow_to_window_of(layout::ThreadEntry* home) {
    const auto first = std::find(entries_.begin(), entries_.end(), home);
    entries_ = {first, first + PP_THREAD_WINDOW};
  }
  uint64_t* starts(layout::ThreadEntry* entry) { return reinterpret_cast<uint64_t*>(entry + 1); }
  // How many of the owner's, or of all threads' spans are started, as the threads will find them:
  // a thread only finds its first entry.
  uint64_t pending(uint64_t owner = 0, uint64_t span = 0) {
    uint64_t n = 0;
    std::set<uint64_t> seen = {0};
    for (auto* entry : entries())
      if ((owner == 0 || entry->owner == owner) && seen.insert(entry->owner).second)
        n += starts(entry)[span] != 0;
    return n;
  }
  // The entry of the only thread that has one.
  layout::ThreadEntry* only_entry() {
    layout::ThreadEntry* found = nullptr;
    for (auto* entry : entries())
      if (entry->owner != 0) {
        EXPECT_EQ(found, nullptr);
        found = entry;
      }
    return found;
  }
  void forget_all() {
    for (auto* entry : entries())
      if (entry->owner != 0) std::memset(entry, 0, layout::thread_entry_size(spans_));
    for (uint64_t area = 0; area <= cpus_; ++area)
      std::memset(reinterpret_cast<void*>(spec_.areas + area * kPageSize), 0, kPageSize);
    // Blocks are given out anew, and keep their contents.
    std::memset(reinterpret_cast<void*>(spec_.blocks.begin + PP_POOL_BLOCKS), 0,
                spec_.blocks.size() - PP_POOL_BLOCKS);
    reinterpret_cast<layout::PoolHeader*>(spec_.blocks.begin)->taken = 0;
  }
  // Where the areas keep the end of the last call or span, for gaps of a CPU.
  std::vector<uint64_t*> gap_words() {
    std::vector<uint64_t*> words;
    for (uint64_t area = 0; area <= cpus_; ++area)
      words.push_back(&areas_[(area * kPageSize + spans_ * sizeof(layout::SpanCounters)) / 8]);
    return words;
  }
  // As the kernel does in a child that must not count.
  void empty_tables() {
    std::memset(runtime_memory_.data() + extent_.data_size - sizeof(layout::RuntimeContext) +
                    layout::kAreaTablesBegin,
                0, layout::kAreaTablesEnd - layout::kAreaTablesBegin);
  }
  Range code() const { return code_; }
  bool is_stub(Address at) const {
    return Range{stubs_.address(), stubs_.address() + stubs_.size() / 2}.contains(at);
  }

 private:
  RuntimeSpec spec(std::optional<arch::RseqArea> rseq, ThreadPointer thread_pointer) {
    RuntimeSpec spec;
    spec.slot_count = spec.capacity = 1;
    spec.cpu_count = cpus_;
    spec.most_fraction_bits = kBits;
    spec.rseq = rseq;
    spec.ns_multiplier = ns_multiplier();
    spec.areas = reinterpret_cast<Address>(areas_.data());
    spec.area_size = kPageSize;
    spec.blocks = {spec.areas + (cpus_ + 1) * kPageSize,
                   spec.areas + areas_.size() * sizeof areas_[0]};
    spec.has_pool = true;
    spec.spans = spans_;
    spec.thread_pointer = thread_pointer;
    spec.tid_offset = tid_offset();
    return spec;
  }
  const layout::SpanCounters& counters_of(uint64_t area, uint64_t span) const {
    return reinterpret_cast<const layout::SpanCounters*>(&areas_[area * kPageSize / 8])[span];
  }
  uint64_t sum(uint64_t layout::SpanCounters::*field, uint64_t span) const {
    uint64_t sum = 0;
    for (uint64_t area = 0; area <= cpus_; ++area) sum += counters_of(area, span).*field;
    return sum;
  }

  uint64_t spans_;
  uint32_t cpus_;
  std::vector<uint64_t> areas_;
  RuntimeSpec spec_;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stubs_;
  Range code_;
  Address span_ = 0;
  std::vector<layout::ThreadEntry*> entries_;
};

const Passes kStart = start_of(0), kEnd = end_of(0);

// Runs a test on a path, or skips it where there is none.
class OnPath : public testing::Test {
 protected:
  void take(Path path) {
    if (path != Path::locked && !own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
    if (path == Path::unregistered) unregistered_.emplace();
  }

 private:
  std::optional<Unregistered> unregistered_;
};

std::string text_of(Path path) {
  switch (path) {
    case Path::locked:
      return "locked";
    case Path::rseq:
      return "rseq";
    case Path::unregistered:
      return "unregistered";
    case Path::without_fsgsbase:
      return "without_fsgsbase";
  }
  return {};
}

class Span : public OnPath, public testing::WithParamInterface<Path> {
 protected:
  void SetUp() override { take(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Paths, Span,
                         testing::Values(Path::locked, Path::rseq, Path::unregistered,
                                         Path::without_fsgsbase),
                         [](const auto& path) { return text_of(path.param); });

void wait_ns(uint64_t ns) {
  const uint64_t until = monotonic_ns() + ns;
  while (monotonic_ns() < until) {
  }
}

TEST_P(Span, IsRecordedOncePerStartAndEnd) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  for (int i = 0; i < 10000; ++i) {
    on[0]();
    on[1]();
  }
  EXPECT_EQ(points.recorded(), 10000u);
  EXPECT_EQ(points.repeated() + points.unmatched() + points.missed() + points.pending(), 0u);
}

TEST_P(Span, LastsFromItsFirstStartAndCountsLaterOnes) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  const uint64_t before = monotonic_ns();
  on[0]();
  wait_ns(3'000'000);
  on[0]();
  on[0]();
  on[1]();
  const uint64_t elapsed = monotonic_ns() - before;
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(points.repeated(), 2u);
  EXPECT_GE(points.histogram().sum(), 2.99e6);
  EXPECT_LE(points.histogram().sum(), static_cast<double>(elapsed) * 1.001 + 1000);
}

TEST_P(Span, CountsAnEndWithoutAStart) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  on[1]();
  EXPECT_EQ(points.unmatched(), 1u);
  EXPECT_EQ(points.only_entry(), nullptr) << "an end takes no entry";
  on[0]();
  on[1]();
  on[1]();
  EXPECT_EQ(points.unmatched(), 2u);
  EXPECT_EQ(points.recorded(), 1u);
}

TEST_P(Span, FromAPointToItselfLastsFromHitToHit) {
  Points points(GetParam());
  const auto on = points.functions({{kEnd, kStart}});
  for (int i = 0; i < 1000; ++i) on[0]();
  EXPECT_EQ(points.recorded(), 999u);
  EXPECT_EQ(points.unmatched(), 1u);
  EXPECT_EQ(points.repeated(), 0u);
}

TEST_P(Span, SharesOnlyPointsWithOtherSpans) {
  Points points(GetParam(), 9);  // an entry is larger than a line of the cache
  // a..b, b..c as the last one, and c..a.
  const auto on = points.functions(
      {{end_of(1), start_of(0)}, {end_of(0), start_of(8)}, {end_of(8), start_of(1)}});
  for (int i = 0; i < 100; ++i)
    for (auto* point : on) point();
  on[0]();
  on[0]();
  EXPECT_EQ(points.recorded(0), 100u);
  EXPECT_EQ(points.recorded(8), 100u);
  EXPECT_EQ(points.recorded(1), 100u);
  EXPECT_EQ(points.unmatched(1), 2u) << "the first hit, and the last";
  EXPECT_EQ(points.repeated(0), 1u);
  EXPECT_EQ(points.repeated(8) + points.repeated(1) + points.unmatched(0) + points.unmatched(8),
            0u);
}

TEST_P(Span, IsNotEndedByAnotherThread) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  on[0]();
  std::thread([&] { on[1](); }).join();
  EXPECT_EQ(points.recorded(), 0u);
  EXPECT_EQ(points.unmatched(), 1u);
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
}

TEST_P(Span, LosesNothingWithSeveralThreads) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  constexpr uint64_t kThreads = 8, kPairs = 100'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kPairs; ++i) {
        on[0]();
        if (i % 8 == 0) on[0]();
        on[1]();
        if (i % 4 == 0) on[1]();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(points.recorded(), kThreads * kPairs);
  EXPECT_EQ(points.repeated(), kThreads * kPairs / 8);
  EXPECT_EQ(points.unmatched(), kThreads * kPairs / 4);
  EXPECT_EQ(points.missed(), 0u);
}

// A new thread on the stack of an ended one has the same control block, with another TID.
TEST_P(Span, IsNotEndedByANewThreadInTheMemoryOfAnEndedOne) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  constexpr size_t kStack = 1 << 18;
  void* const stack =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStack);
  constexpr uint64_t kThreads = 1000;
  for (uint64_t i = 0; i < kThreads; ++i) {
    pthread_t thread;
    const auto run = [](void* of) -> void* {
      const auto& functions = *static_cast<const std::vector<Points::Function*>*>(of);
      functions[1]();
      functions[0]();
      functions[1]();
      functions[0]();  // a start without an end
      return nullptr;
    };
    ASSERT_EQ(
        pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&on))),
        0);
    pthread_join(thread, nullptr);
  }
  pthread_attr_destroy(&attributes);
  munmap(stack, kStack);
  EXPECT_EQ(points.recorded(), kThreads);
  EXPECT_EQ(points.unmatched(), kThreads);
  EXPECT_EQ(points.repeated(), 0u);
  EXPECT_NE(points.only_entry(), nullptr) << "all had the same";
}

TEST_P(Span, IsMissedWithoutAFreeEntryUntilTheControllerMarksADeadThread) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  for (auto* entry : points.entries()) {
    *entry = {.owner = uint64_t{0x4711} << 32 | 77, .tid = 77, .dead = 0};
    *points.starts(entry) = 1;
  }
  on[0]();
  on[1]();
  EXPECT_EQ(points.missed(), 1u);
  EXPECT_EQ(points.unmatched(), 1u);
  for (auto* entry : points.entries()) entry->dead = 77;
  on[1]();
  EXPECT_EQ(points.unmatched(), 2u) << "nor has it what the one that ended began";
  on[0]();
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(points.missed(), 1u);
}

TEST_P(Span, IsNotEndedByAForkedChild) {
  Points points(GetParam());
  const auto on = points.functions({{kStart}, {kEnd}});
  on[0]();
  const pid_t child = fork();
  if (child == 0) {
    on[1]();
    if (points.recorded() != 0 || points.unmatched() != 1) _exit(1);
    on[0]();
    on[1]();
    _exit(points.recorded() == 1 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
}

// The sum over all hits, whatever happened in between.
struct Hits {
  std::atomic<uint64_t> starts = 0, ends = 0;
};
void expect_exact(Points& points, const Hits& hits, uint64_t owner = 0,
                  const std::string& where = {}) {
  EXPECT_EQ(points.recorded() + points.repeated() + points.pending(owner), hits.starts.load())
      << where;
  EXPECT_EQ(points.recorded() + points.unmatched(), hits.ends.load()) << where;
  EXPECT_EQ(points.missed(), 0u) << where;
}

TEST_P(Span, CountsExactlyIfSignalHandlersPassTheSamePoints) {
  Points points(GetParam());
  static std::vector<Points::Function*> on;
  static Hits hits;
  on = points.functions({{kStart}, {kEnd}});
  hits.starts = hits.ends = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {
    static std::atomic<unsigned> turn = 0;
    switch (turn++ % 3) {
      case 0:
        ++hits.starts;
        on[0]();
        break;
      case 1:
        ++hits.ends;
        on[1]();
        break;
      default:
        ++hits.starts;
        on[0]();
        ++hits.ends;
        on[1]();
    }
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before);
  const itimerval often = {{0, 50}, {0, 50}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  constexpr uint64_t kThreads = 4, kPairs = 400'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kPairs; ++i) {
        on[0]();
        on[1]();
      }
      hits.starts += kPairs;
      hits.ends += kPairs;
    });
  for (auto& thread : threads) thread.join();
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  expect_exact(points, hits);
}

// --- A handler at each instruction

// An area that is not registered: the kernel restarts no sequence of the thread, on_step does.
thread_local struct rseq pretended_rseq;

struct Stepping {
  std::function<bool(Address)> is_ours;
  std::function<void()> then;
  uint64_t steps = 0;  // until `then`; only the first two rounds of loops count
  std::map<Address, int> visits;
  bool is_done = false;
} stepping;

// Returns where a thread goes on that is interrupted at `ip`, as the kernel decides it.
Address resumes_at(Address ip) {
  // The descriptor is not aligned as its type would be; the kernel does not ask for that.
  Address descriptor = 0;
  std::memcpy(&descriptor, reinterpret_cast<char*>(&pretended_rseq) + PP_RSEQ_CS,
              sizeof descriptor);
  if (descriptor == 0) return ip;
  pretended_rseq.rseq_cs = 0;
  struct rseq_cs sequence;
  std::memcpy(&sequence, reinterpret_cast<const void*>(descriptor), sizeof sequence);
  return ip - sequence.start_ip < sequence.post_commit_offset ? sequence.abort_ip : ip;
}

void on_step(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto ip = static_cast<Address>(registers[REG_RIP]);
  constexpr greg_t kTrapFlag = 0x100;
  const bool returned = ip == reinterpret_cast<Address>(step_returned);
  constexpr int kRounds = 2;
  if (stepping.is_ours(ip) && stepping.visits[ip]++ < kRounds && stepping.steps-- == 0) {
    registers[REG_RIP] = static_cast<greg_t>(resumes_at(ip));
    stepping.then();
    stepping.is_done = true;
  }
  if (returned || stepping.is_done) registers[REG_EFL] &= ~kTrapFlag;
}

// With locked instructions, as a restartable sequence never ends under single steps.
TEST(SpanSteps, CountExactlyWhereverAHandlerInterrupts) {
  Points points(Path::locked);
  static std::vector<Points::Function*> on;
  on = points.functions({{kStart}, {kEnd}});
  struct sigaction action = {}, before;
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  stepping.is_ours = [&](Address at) { return points.is_stub(at) || points.code().contains(at); };
  static Hits hits;
  const auto pass = [](bool ends) {
    ++(ends ? hits.ends : hits.starts);
    on[ends ? 1 : 0]();
  };
  on[0]();
  const uint64_t own = points.only_entry()->owner;
  points.narrow_to_window_of(points.only_entry());
  // What the thread finds in its window.
  enum Found : uint8_t {
    nothing,
    what_it_has_begun,
    its_predecessors,
    half_claimed,
    all_ended,
    end
  };
  const std::vector<std::vector<bool>> handlers = {{false}, {true}, {false, true}, {true, false}};
  uint64_t most_steps = 0;
  for (int found = nothing; found != Found::end; ++found)
    for (const bool ends : {false, true})
      for (const auto& handler : handlers)
        for (uint64_t steps = 0;; ++steps) {
          points.forget_all();
          hits.starts = hits.ends = 0;
          if (found == what_it_has_begun) pass(false);
          for (auto* entry : points.entries()) {
            if (found <= what_it_has_begun) break;
            entry->tid = 5;
            *points.starts(entry) = 7;
            entry->owner = own + 1;  // another TID
            if (found == half_claimed) entry->owner |= uint64_t{1} << 63;
            if (found != all_ended) break;
            entry->owner = uint64_t{1} << 40 | 5;
            entry->dead = 5;
          }
          stepping.steps = steps;
          stepping.visits.clear();
          stepping.is_done = false;
          stepping.then = [&] {
            for (const bool one : handler) pass(one);
          };
          ++(ends ? hits.ends : hits.starts);
          step_through(
              [](long at) {
                on[static_cast<size_t>(at)]();
                return 0L;
              },
              ends ? 1 : 0);
          const std::string where = "found " + std::to_string(found) + (ends ? " end" : " start") +
                                    " step " + std::to_string(steps);
          expect_exact(points, hits, own, where);
          pass(true);
          expect_exact(points, hits, own, where);
          EXPECT_EQ(points.pending(own), 0u);
          if (testing::Test::HasFailure() || !stepping.is_done) {
            most_steps = std::max(most_steps, steps);
            break;
          }
        }
  EXPECT_GT(most_steps, 100u);
  sigaction(SIGTRAP, &before, nullptr);
}

// Passes the points with known registers and flags, and expects that these stay as they are.
void expect_preserved(const std::vector<Points::Function*>& points, uint64_t flags) {
  for (auto* point : points) {
    CallRegisters registers;
    auto* words = reinterpret_cast<uint64_t*>(&registers);
    for (uint64_t i = 0; i < 15; ++i) words[i] = 0x1111'2222'3333'0000 + i * 0x0101'0101'0101'0101;
    registers.flags = flags | 2;
    const CallRegisters before = registers;
    call_with_registers(reinterpret_cast<void*>(point), &registers);
    const auto* old_words = reinterpret_cast<const uint64_t*>(&before);
    for (int i = 0; i < 15; ++i) EXPECT_EQ(words[i], old_words[i]) << "register " << i;
    EXPECT_EQ(registers.flags & kArithmeticFlags, flags);
  }
}

constexpr uint64_t kFlags[] = {0, kArithmeticFlags, 0x801, 0x44, 0x90};

TEST_P(Span, PreservesAllRegistersAndFlags) {
  Points points(GetParam());
  // Each point without an entry, with an entry, and where it counts.
  const auto on = points.functions({{kEnd}, {kStart}, {kStart}, {kEnd}, {kEnd}, {kEnd, kStart}});
  for (const uint64_t flags : kFlags) {
    points.forget_all();
    expect_preserved(on, flags);
    EXPECT_EQ(points.recorded(), 1u);
    EXPECT_EQ(points.repeated(), 1u);
    EXPECT_EQ(points.unmatched(), 3u);
  }
}

// --- Gaps

using layout::Gap;

// The points of the gaps with that number: where a call or span ends, and where the next starts.
Passes last_end_of(Gap of, uint64_t gap) {
  return {gap,
          of == Gap::cpu ? layout::Pass::starts_gap_of_cpu : layout::Pass::starts_gap_of_thread};
}
Passes next_start_of(Gap of, uint64_t gap) {
  return {gap, of == Gap::cpu ? layout::Pass::ends_gap_of_cpu : layout::Pass::ends};
}

// One kind of gaps, on one CPU.
class Gaps : public OnPath, public testing::WithParamInterface<std::tuple<Path, Gap>> {
 protected:
  void SetUp() override { take(path()); }
  static Path path() { return std::get<0>(GetParam()); }
  static Gap of() { return std::get<1>(GetParam()); }
  static bool is_of_cpu() { return of() == Gap::cpu; }
  // Leaves every thread's entry to others, so that none is free.
  static void fill_table(Points& points) {
    for (auto* entry : points.entries()) {
      *entry = {.owner = uint64_t{0x4711} << 32 | 77, .tid = 77, .dead = 0};
      *points.starts(entry) = 1;
    }
  }
  // Where the end of the last call or span is kept, by the areas or by the threads with an entry.
  static std::vector<uint64_t*> words(Points& points) {
    if (is_of_cpu()) return points.gap_words();
    std::vector<uint64_t*> words;
    for (auto* entry : points.entries())
      if (entry->owner != 0) words.push_back(points.starts(entry));
    return words;
  }
  static uint64_t pending(Points& points) {
    const auto all = words(points);
    return static_cast<uint64_t>(
        std::count_if(all.begin(), all.end(), [](const uint64_t* word) { return *word != 0; }));
  }

  const OnOneCpu here_;
};
std::string text_of(Gap of) {
  return of == Gap::cpu ? "of_cpu" : "of_thread";
}
INSTANTIATE_TEST_SUITE_P(Paths, Gaps,
                         testing::Combine(testing::Values(Path::locked, Path::rseq,
                                                          Path::unregistered,
                                                          Path::without_fsgsbase),
                                          testing::Values(Gap::cpu, Gap::thread)),
                         [](const auto& one) {
                           return text_of(std::get<0>(one.param)) + "_" +
                                  text_of(std::get<1>(one.param));
                         });

TEST_P(Gaps, LastFromTheLastEndToTheNextStart) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  wait_ns(50'000'000);
  const uint64_t before = monotonic_ns();
  on[0]();
  wait_ns(3'000'000);
  on[1]();
  const uint64_t elapsed = monotonic_ns() - before;
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_GE(points.histogram().sum(), 2.99e6);
  EXPECT_LE(points.histogram().sum(), static_cast<double>(elapsed) * 1.001 + 1000);
}

TEST_P(Gaps, AreTakenOnce) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  EXPECT_EQ(pending(points), 1u);
  for (int i = 0; i < 3; ++i) on[1]();
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(pending(points), 0u);
}

TEST_P(Gaps, AndStartsThatEndNoneAreTogetherAllStarts) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[1]();
  EXPECT_EQ(points.unmatched(), 1u) << "before the first end there is none";
  on[0]();
  on[0]();
  on[1]();
  EXPECT_EQ(points.unmatched(), 1u);
  on[1]();
  EXPECT_EQ(points.unmatched(), 2u) << "the last gap was taken";
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(points.missed() + points.repeated(), 0u);
}

TEST_P(Gaps, AreNoneBeforeTheFirstEnd) {
  Points points(path());
  const auto on = points.functions({{next_start_of(of(), 0)}});
  on[0]();
  EXPECT_EQ(points.recorded(), 0u);
  EXPECT_EQ(points.missed(), 0u);
  EXPECT_EQ(points.only_entry(), nullptr) << "a start takes no entry for them";
}

TEST_P(Gaps, AreNeverNegativeThoughTheClocksOfTwoCpusDiffer) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  for (uint64_t* word : words(points))
    if (*word != 0) *word = uint64_t{1} << 62;
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
  EXPECT_EQ(points.histogram().sum(), 0.0);
}

TEST_P(Gaps, LieBetweenTheSpansOfOnePoint) {
  Points points(path(), 2);
  const auto on =
      points.functions({{next_start_of(of(), 1), kStart}, {kEnd, last_end_of(of(), 1)}});
  constexpr uint64_t kRounds = 10'000;
  for (uint64_t i = 0; i < kRounds; ++i)
    for (auto* point : on) point();
  EXPECT_EQ(points.recorded(0), kRounds);
  EXPECT_EQ(points.recorded(1), kRounds - 1);
  EXPECT_EQ(points.missed(0) + points.missed(1) + points.repeated(0) + points.repeated(1), 0u);
}

TEST_P(Gaps, OfAThreadAreNotEndedByAnotherButThoseOfACpuAre) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  std::thread([&] { on[1](); }).join();
  EXPECT_EQ(points.recorded(), is_of_cpu() ? 1u : 0u);
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
}

TEST_P(Gaps, OfACpuAreNotEndedOnAnotherButThoseOfAThreadAre) {
  const auto another = here_.another();
  if (!another) GTEST_SKIP() << "there is only one CPU";
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  const int home = ::sched_getcpu();
  on[0]();
  OnOneCpu::move_to(*another);
  on[1]();
  const bool counts_by_cpu = path() == Path::rseq || path() == Path::without_fsgsbase;
  EXPECT_EQ(points.recorded(), is_of_cpu() && counts_by_cpu ? 0u : 1u);
  OnOneCpu::move_to(home);
  on[1]();
  EXPECT_EQ(points.recorded(), 1u);
}

TEST_P(Gaps, OfAThreadWithoutAFreeEntryAreNotRecorded) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  fill_table(points);
  on[0]();
  on[1]();
  EXPECT_EQ(points.recorded(), is_of_cpu() ? 1u : 0u);
  EXPECT_EQ(points.missed(), 0u);
  for (auto* entry : points.entries()) ASSERT_EQ(*points.starts(entry), 1u) << "another thread's";
  for (auto* entry : points.entries()) entry->dead = 77;
  on[0]();
  on[1]();
  EXPECT_EQ(points.recorded(), is_of_cpu() ? 2u : 1u);
}

TEST_P(Gaps, ArePassedInAChildThatMustNotCount) {
  Points points(path());
  const auto on = points.functions({{last_end_of(of(), 0)}, {next_start_of(of(), 0)}});
  on[0]();
  points.empty_tables();
  on[1]();
  on[0]();
  on[1]();
  EXPECT_EQ(points.recorded(), 0u);
  EXPECT_EQ(points.unmatched(), 0u);
}

TEST_P(Gaps, AreNotTakenTwiceByThreadsOfOneCpu) {
  Points points(path(), 2);
  const auto on =
      points.functions({{next_start_of(of(), 1), kStart}, {kEnd, last_end_of(of(), 1)}});
  constexpr uint64_t kThreads = 8, kRounds = 20'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kRounds; ++i)
        for (auto* point : on) point();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(points.recorded(0), kThreads * kRounds);
  // Each has a start and an end of its own; an end that another one follows first has none.
  const uint64_t most = kThreads * kRounds - (is_of_cpu() ? 1 : kThreads);
  EXPECT_LE(points.recorded(1), most);
  if (is_of_cpu()) {
    EXPECT_GT(points.recorded(1), most / 2);
  } else {
    EXPECT_EQ(points.recorded(1), most);
  }
}

TEST_P(Gaps, PreserveAllRegistersAndFlags) {
  Points points(path());
  const Passes ends = next_start_of(of(), 0), starts = last_end_of(of(), 0);
  // Each point without an entry, with an entry, where there is no end, and where there is one.
  const auto on = points.functions({{ends}, {starts}, {starts}, {ends}, {ends}, {starts, ends}});
  for (const uint64_t flags : kFlags) {
    points.forget_all();
    expect_preserved(on, flags);
    EXPECT_EQ(points.recorded(), 2u);
    fill_table(points);
    expect_preserved(on, flags);
    EXPECT_EQ(points.recorded(), is_of_cpu() ? 4u : 2u);
  }
}

// What is left after ends (false) and starts (true), one after the other.
struct GapsLeft {
  uint64_t recorded = 0;
  bool is_pending = false;
  friend bool operator==(const GapsLeft&, const GapsLeft&) = default;
};
GapsLeft after(bool has_ended, std::initializer_list<std::vector<bool>> parts) {
  GapsLeft left = {0, has_ended};
  for (const auto& part : parts)
    for (const bool is_start : part) {
      left.recorded += is_start && left.is_pending;
      left.is_pending = !is_start;
    }
  return left;
}

class GapSteps : public testing::TestWithParam<std::tuple<bool, Gap>> {};
INSTANTIATE_TEST_SUITE_P(Paths, GapSteps,
                         testing::Combine(testing::Bool(), testing::Values(Gap::cpu, Gap::thread)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param) ? "rseq_" : "locked_") +
                                  text_of(std::get<1>(one.param));
                         });

// A handler runs before the point that it interrupts takes effect, or after that. A sequence that
// it interrupts is started again, as the kernel does that.
TEST_P(GapSteps, AreTakenOnceWhereverAHandlerInterrupts) {
  const auto [has_rseq, of] = GetParam();
  std::optional<arch::RseqArea> area;
  if (has_rseq)
    area = {static_cast<int32_t>(reinterpret_cast<char*>(&pretended_rseq) -
                                 static_cast<char*>(__builtin_thread_pointer()))};
  Points points(area, 1);
  static std::vector<Points::Function*> on;
  on = points.functions({{last_end_of(of, 0)}, {next_start_of(of, 0)}});
  struct sigaction action = {}, before;
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  stepping.is_ours = [&](Address at) { return points.is_stub(at) || points.code().contains(at); };
  const auto is_pending = [&] {
    for (const uint64_t* word : points.gap_words())
      if (*word != 0) return true;
    return points.pending() != 0;
  };
  const std::vector<std::vector<bool>> handlers = {{false}, {true}, {false, true}, {true, false}};
  uint64_t most_steps = 0;
  bool is_first_of_its_thread = true;
  for (const bool has_ended : {false, true})
    for (const bool is_start : {false, true})
      for (const auto& handler : handlers)
        for (uint64_t steps = 0;; ++steps) {
          points.forget_all();
          pretended_rseq = {};
          if (has_ended) on[0]();
          stepping.steps = steps;
          stepping.visits.clear();
          stepping.is_done = false;
          stepping.then = [&] {
            for (const bool one : handler) on[one ? 1 : 0]();
          };
          step_through(
              [](long at) {
                on[static_cast<size_t>(at)]();
                return 0L;
              },
              is_start ? 1 : 0);
          if (is_first_of_its_thread && points.only_entry() != nullptr) {
            points.narrow_to_window_of(points.only_entry());
            is_first_of_its_thread = false;
          }
          if (!stepping.is_done) {
            most_steps = std::max(most_steps, steps);
            break;
          }
          const GapsLeft left = {points.recorded(), is_pending()};
          EXPECT_TRUE(left == after(has_ended, {handler, {is_start}}) ||
                      left == after(has_ended, {{is_start}, handler}))
              << (is_start ? "start" : "end") << (has_ended ? " after an end" : "") << ", step "
              << steps << ": recorded " << left.recorded << (left.is_pending ? ", pending" : "");
          EXPECT_EQ(pretended_rseq.rseq_cs, 0u) << "step " << steps;
          EXPECT_EQ(points.missed(), 0u);
          if (testing::Test::HasFailure()) break;
        }
  EXPECT_GT(most_steps, 30u);
  sigaction(SIGTRAP, &before, nullptr);
}

}  // namespace
}  // namespace pinprick::runtime
