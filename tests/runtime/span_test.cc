// Runs the runtime of spans in this process: stubs whose actions start and end spans, called by
// threads, in signal handlers and in children.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/rseq.h>
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
#include "runtime/image.h"
#include "stats/histogram.h"

extern "C" {
long step_through(long (*f)(long), long x);
extern const uint8_t step_returned[];
}

namespace pinprick::runtime {
namespace {

constexpr unsigned kBits = 3;

// Where glibc has a thread's TID.
int64_t tid_offset() {
  const char* const control_block = static_cast<const char*>(__builtin_thread_pointer());
  for (int64_t at = 0; at < 0x800; at += 4) {
    int32_t word = 0;
    std::memcpy(&word, control_block + at, sizeof word);
    if (word == gettid()) return at;
  }
  ADD_FAILURE() << "this libc keeps no TID";
  return 0;
}

bool has_fsgsbase() {
  constexpr unsigned long kFsgsbase = 2;  // HWCAP2_FSGSBASE
  return (getauxval(AT_HWCAP2) & kFsgsbase) != 0;
}

// What a point does in a span.
struct Passes {
  uint64_t span = 0;
  bool ends = false;
};

enum class Path : uint8_t { locked, rseq };

// Points that start and end spans, in functions that do nothing else.
class Points {
 public:
  using Function = void();

  explicit Points(Path path, uint64_t spans = 1)
      : spans_(spans),
        cpus_(std::max(2u, std::thread::hardware_concurrency())),
        cells_(((cpus_ + 1) * kPageSize + PP_POOL_BLOCKS +
                (cpus_ + 1) * spans * layout::histogram_size(kBits)) /
               8),
        spec_(spec(path)),
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
    arena.locked_cells = locked_cells(spec_);
    const auto cpus = cpu_cells(spec_);
    arena.cpu_cells = cpus;
    const auto entries = arch::emit_arena_header(code, arena);
    const std::vector<uint8_t> body = {0xc3};
    const Address begin = stubs_.address() + stubs_.size() / 2;
    std::vector<Function*> all;
    for (const auto& point : points) {
      std::vector<arch::StubAction> actions;
      for (const Passes& one : point)
        actions.push_back(
            {.what = arch::PassSpan{{one.span * sizeof(layout::SpanCells), kBits},
                                    layout::span_start_offset(one.span),
                                    one.ends ? layout::Pass::ends : layout::Pass::starts}});
      const auto stub = arch::emit_stub(code, entries, {.actions = actions}, {begin, body});
      all.push_back(reinterpret_cast<Function*>(stub.begin));
    }
    const auto bytes = code.finish();
    EXPECT_TRUE(bytes.has_value());
    stubs_.write(0, *bytes);
    stubs_.write(begin - stubs_.address(), body);
    stubs_.seal();
    return all;
  }

  stats::Histogram histogram(uint64_t span = 0) const {
    stats::Histogram sum(kBits);
    for (uint64_t region = 0; region <= cpus_; ++region) {
      const uint64_t place = cells_of(region, span).place;
      if (place == 0) continue;
      const auto* cells = reinterpret_cast<const stats::Cell*>(spec_.blocks.begin + place);
      for (uint32_t slot = 0; slot < stats::slot_count(kBits); ++slot) sum.add(slot, cells[slot]);
    }
    return sum;
  }
  uint64_t recorded(uint64_t span = 0) const { return histogram(span).count(); }
  uint64_t missed(uint64_t span = 0) const { return sum(&layout::SpanCells::missed, span); }
  uint64_t repeated(uint64_t span = 0) const { return sum(&layout::SpanCells::repeated, span); }
  uint64_t unmatched(uint64_t span = 0) const { return sum(&layout::SpanCells::unmatched, span); }

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
    for (uint64_t region = 0; region <= cpus_; ++region)
      std::memset(reinterpret_cast<void*>(spec_.cells + region * kPageSize), 0, kPageSize);
    // Blocks are given out anew, and keep their contents.
    std::memset(reinterpret_cast<void*>(spec_.blocks.begin + PP_POOL_BLOCKS), 0,
                spec_.blocks.size() - PP_POOL_BLOCKS);
    reinterpret_cast<layout::PoolHeader*>(spec_.blocks.begin)->taken = 0;
  }
  Range code() const { return code_; }
  bool is_stub(Address at) const {
    return Range{stubs_.address(), stubs_.address() + stubs_.size() / 2}.contains(at);
  }

 private:
  RuntimeSpec spec(Path path) {
    RuntimeSpec spec;
    spec.slot_count = spec.capacity = 1;
    spec.cpu_count = cpus_;
    spec.most_fraction_bits = kBits;
    if (path == Path::rseq) spec.rseq = arch::RseqArea{static_cast<int32_t>(__rseq_offset)};
    spec.ns_multiplier = ns_multiplier();
    spec.cells = reinterpret_cast<Address>(cells_.data());
    spec.region_size = kPageSize;
    spec.blocks = {spec.cells + (cpus_ + 1) * kPageSize,
                   spec.cells + cells_.size() * sizeof cells_[0]};
    spec.has_pool = true;
    spec.spans = spans_;
    spec.tid_offset = tid_offset();
    return spec;
  }
  const layout::SpanCells& cells_of(uint64_t region, uint64_t span) const {
    return reinterpret_cast<const layout::SpanCells*>(&cells_[region * kPageSize / 8])[span];
  }
  uint64_t sum(uint64_t layout::SpanCells::*field, uint64_t span) const {
    uint64_t sum = 0;
    for (uint64_t region = 0; region <= cpus_; ++region) sum += cells_of(region, span).*field;
    return sum;
  }

  uint64_t spans_;
  uint32_t cpus_;
  std::vector<uint64_t> cells_;
  RuntimeSpec spec_;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stubs_;
  Range code_;
  Address span_ = 0;
  std::vector<layout::ThreadEntry*> entries_;
};

const Passes kStart = {0, false}, kEnd = {0, true};

class Span : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    if (!has_fsgsbase()) GTEST_SKIP() << "this kernel, or processor, does not let programs see fs";
    if (GetParam() == Path::rseq && __rseq_size == 0)
      GTEST_SKIP() << "this libc does not register rseq";
  }
};
INSTANTIATE_TEST_SUITE_P(Paths, Span, testing::Values(Path::locked, Path::rseq),
                         [](const auto& path) {
                           return path.param == Path::locked ? "locked" : "rseq";
                         });

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
  const auto on =
      points.functions({{{1, true}, {0, false}}, {{0, true}, {8, false}}, {{8, true}, {1, false}}});
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
    const auto body = [](void* of) -> void* {
      const auto& functions = *static_cast<const std::vector<Points::Function*>*>(of);
      functions[1]();
      functions[0]();
      functions[1]();
      functions[0]();  // a start without an end
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, body,
                             const_cast<void*>(static_cast<const void*>(&on))),
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

struct Stepping {
  std::function<bool(Address)> is_ours;
  std::function<void()> then;
  uint64_t steps = 0;  // until `then`; only the first two rounds of loops count
  std::map<Address, int> visits;
  bool is_done = false;
} stepping;

void on_step(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto ip = static_cast<Address>(registers[REG_RIP]);
  constexpr greg_t kTrapFlag = 0x100;
  const bool returned = ip == reinterpret_cast<Address>(step_returned);
  constexpr int kRounds = 2;
  if (stepping.is_ours(ip) && stepping.visits[ip]++ < kRounds && stepping.steps-- == 0) {
    stepping.then();
    stepping.is_done = true;
  }
  if (returned || stepping.is_done) registers[REG_EFL] &= ~kTrapFlag;
}

// With locked instructions, as a restartable sequence never ends under single steps.
TEST(SpanSteps, CountExactlyWhereverAHandlerInterrupts) {
  if (!has_fsgsbase()) GTEST_SKIP();
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

TEST_P(Span, PreservesAllRegistersAndFlags) {
  Points points(GetParam());
  // Each point without an entry, with an entry, and where it counts.
  const auto on = points.functions({{kEnd}, {kStart}, {kStart}, {kEnd}, {kEnd}, {kEnd, kStart}});
  for (uint64_t flags :
       {uint64_t{0}, kArithmeticFlags, uint64_t{0x801}, uint64_t{0x44}, uint64_t{0x90}}) {
    points.forget_all();
    for (auto* point : on) {
      CallRegisters registers;
      auto* words = reinterpret_cast<uint64_t*>(&registers);
      for (uint64_t i = 0; i < 15; ++i)
        words[i] = 0x1111'2222'3333'0000 + i * 0x0101'0101'0101'0101;
      registers.flags = flags | 2;
      const CallRegisters before = registers;
      call_with_registers(reinterpret_cast<void*>(point), &registers);
      const auto* old_words = reinterpret_cast<const uint64_t*>(&before);
      for (int i = 0; i < 15; ++i) EXPECT_EQ(words[i], old_words[i]) << "register " << i;
      EXPECT_EQ(registers.flags & kArithmeticFlags, flags);
    }
    EXPECT_EQ(points.recorded(), 1u);
    EXPECT_EQ(points.repeated(), 1u);
    EXPECT_EQ(points.unmatched(), 3u);
  }
}

}  // namespace
}  // namespace pinprick::runtime
