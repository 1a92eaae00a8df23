// Runs the runtime of calls that are timed by exits, in this process: stubs at which such calls
// start and end, run by threads, in signal handlers and in children. A stub is run by calling it,
// so its call's return address lies where that of the measured function would.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "call_with_registers.h"
#include "executable_memory.h"
#include "layout/session_file.h"
#include "own_thread.h"
#include "runtime/image.h"
#include "stats/histogram.h"

namespace pinprick::runtime {
namespace {

constexpr unsigned kBits = 3;
constexpr uint64_t kFunctions = 2;

// By locked instructions; by restartable sequences; on a thread without an area where others have
// one.
enum class Path : uint8_t { locked, rseq, unregistered };

// Two functions, each with a stub at its entry and one at its return.
class Functions {
 public:
  using Stub = void();

  explicit Functions(Path path)
      : cpus_(std::max(2u, std::thread::hardware_concurrency())),
        areas_(((cpus_ + 1) * kPageSize + PP_POOL_BLOCKS +
                (cpus_ + 1) * kFunctions * layout::histogram_size(kBits)) /
               8),
        spec_(spec(path == Path::locked ? std::nullopt : own_rseq())),
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
    table_ = reinterpret_cast<layout::OpenCall*>(threads_in(runtime_memory_.address(), spec_).end);
    make_stubs(runtime->span);
  }

  Stub* start(size_t function = 0) const { return starts_[function]; }
  Stub* end(size_t function = 0) const { return ends_[function]; }
  // At the function's entry before a start with a condition.
  Stub* leave(size_t function = 0) const { return leaves_[function]; }

  uint64_t recorded(uint64_t function = 0) const { return histogram(function).count(); }
  stats::Histogram histogram(uint64_t function = 0) const {
    stats::Histogram sum(kBits);
    for (uint64_t area = 0; area <= cpus_; ++area) {
      const uint64_t offset = counters_of(area, function).block;
      if (offset == 0) continue;
      const auto* cells = reinterpret_cast<const stats::Cell*>(spec_.blocks.begin + offset);
      for (uint32_t slot = 0; slot < stats::slot_count(kBits); ++slot) sum.add(slot, cells[slot]);
    }
    return sum;
  }
  uint64_t missed(uint64_t function = 0) const {
    return sum(&layout::TimeCounters::missed, function);
  }
  uint64_t left(uint64_t function = 0) const {
    return sum(&layout::TimeCounters::abandoned, function);
  }
  std::span<layout::OpenCall> table() const { return {table_, layout::kOpenCalls}; }
  uint64_t open() const {
    return static_cast<uint64_t>(
        std::count_if(table().begin(), table().end(),
                      [](const layout::OpenCall& call) { return call.stack > PP_OPEN_CALL_FREE; }));
  }

 private:
  RuntimeSpec spec(std::optional<arch::RseqArea> rseq) {
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
    spec.times_by_exits = true;
    return spec;
  }
  void make_stubs(Address enter) {
    arch::Assembler code(stubs_.address());
    arch::ArenaSpec arena;
    arena.size = stubs_.size();
    arena.routines = {enter, enter, enter, enter, enter};
    arena.locked_areas = locked_areas(spec_);
    const auto cpus = cpu_areas(spec_);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code, arena);
    const std::vector<uint8_t> displaced = {0xc3};
    const Address begin = stubs_.address() + stubs_.size() / 2;
    for (uint64_t function = 0; function < kFunctions; ++function)
      for (const auto pass :
           {layout::Pass::starts_call, layout::Pass::ends_call, layout::Pass::leaves_call}) {
        const arch::StubAction action = {
            .what = arch::PassSpan{{function * sizeof(layout::TimeCounters), kBits}, 0, pass}};
        const auto stub =
            arch::emit_stub(code, entries, {.actions = {&action, 1}}, {begin, displaced});
        (pass == layout::Pass::starts_call ? starts_
         : pass == layout::Pass::ends_call ? ends_
                                           : leaves_)
            .push_back(reinterpret_cast<Stub*>(stub.begin));
      }
    const auto bytes = code.finish();
    EXPECT_TRUE(bytes.has_value());
    stubs_.write(0, *bytes);
    stubs_.write(begin - stubs_.address(), displaced);
    stubs_.seal();
  }
  const layout::TimeCounters& counters_of(uint64_t area, uint64_t function) const {
    return reinterpret_cast<const layout::TimeCounters*>(&areas_[area * kPageSize / 8])[function];
  }
  uint64_t sum(uint64_t layout::TimeCounters::*field, uint64_t function) const {
    uint64_t sum = 0;
    for (uint64_t area = 0; area <= cpus_; ++area) sum += counters_of(area, function).*field;
    return sum;
  }

  uint32_t cpus_;
  std::vector<uint64_t> areas_;
  RuntimeSpec spec_;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stubs_;
  layout::OpenCall* table_ = nullptr;
  std::vector<Stub*> starts_, ends_, leaves_;
};

class OpenCall : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    if (GetParam() != Path::locked && !own_rseq())
      GTEST_SKIP() << "this libc does not register rseq";
    if (GetParam() == Path::unregistered) unregistered_.emplace();
  }

 private:
  std::optional<Unregistered> unregistered_;
};
INSTANTIATE_TEST_SUITE_P(Paths, OpenCall,
                         testing::Values(Path::locked, Path::rseq, Path::unregistered),
                         [](const auto& path) {
                           return std::string(path.param == Path::locked ? "locked"
                                              : path.param == Path::rseq ? "rseq"
                                                                         : "unregistered");
                         });

// Calls `start` and `end` at one position on the stack, which is lower the larger `depth` is. In
// between, `inside` runs below that.
template <class F>
__attribute__((noinline)) void call(const Functions& functions, size_t function, size_t depth,
                                    F&& inside) {
  auto* const lower = static_cast<volatile char*>(__builtin_alloca(64 + depth * 64));
  lower[0] = 0;
  functions.start(function)();
  inside();
  functions.end(function)();
  lower[0] = 1;
}

TEST_P(OpenCall, IsRecordedOnceWhenItEnds) {
  const Functions functions(GetParam());
  for (size_t i = 0; i < 10000; ++i) call(functions, i % 2, i % 7, [] {});
  EXPECT_EQ(functions.recorded(0), 5000u);
  EXPECT_EQ(functions.recorded(1), 5000u);
  EXPECT_EQ(functions.missed() + functions.left() + functions.open(), 0u);
}

TEST_P(OpenCall, LastsFromItsStartToItsEnd) {
  const Functions functions(GetParam());
  const uint64_t before = monotonic_ns();
  call(functions, 0, 0, [] {
    const uint64_t until = monotonic_ns() + 3'000'000;
    while (monotonic_ns() < until) {
    }
  });
  const auto elapsed = static_cast<double>(monotonic_ns() - before);
  EXPECT_GE(functions.histogram().sum(), 2.99e6);
  EXPECT_LE(functions.histogram().sum(), elapsed * 1.001 + 1000);
}

TEST_P(OpenCall, ThatStartedBeforeTheProbesEndsUnnoticed) {
  const Functions functions(GetParam());
  for (int i = 0; i < 100; ++i) functions.end()();
  EXPECT_EQ(functions.recorded() + functions.missed() + functions.left(), 0u);
}

TEST_P(OpenCall, ThatIsLeftIsCountedWhenAnotherTakesItsPlace) {
  const Functions functions(GetParam());
  for (int i = 0; i < 10; ++i) functions.start()();  // at one position, as a loop calls them
  EXPECT_EQ(functions.left(), 9u);
  EXPECT_EQ(functions.open(), 1u);
  functions.end()();
  EXPECT_EQ(functions.recorded(), 1u);
  EXPECT_EQ(functions.open(), 0u);
}

TEST_P(OpenCall, IsNotEndedByAnotherFunctionAtItsPosition) {
  const Functions functions(GetParam());
  functions.start(0)();
  functions.end(1)();
  EXPECT_EQ(functions.recorded(0) + functions.recorded(1), 0u);
  functions.end(0)();
  EXPECT_EQ(functions.recorded(0), 1u);
  EXPECT_EQ(functions.left(0) + functions.left(1) + functions.open(), 0u);
}

// No call that goes on has its position.
TEST_P(OpenCall, ThatIsLeftMakesRoomForOneOfAnotherFunctionAtItsPosition) {
  const Functions functions(GetParam());
  functions.start(0)();
  functions.start(1)();
  EXPECT_EQ(functions.left(0), 1u);
  EXPECT_EQ(functions.left(1), 0u);
  EXPECT_EQ(functions.open(), 1u);
  functions.end(0)();
  EXPECT_EQ(functions.recorded(0), 0u);
  functions.end(1)();
  EXPECT_EQ(functions.recorded(1), 1u);
  EXPECT_EQ(functions.left(1) + functions.open(), 0u);
}

void recurse(const Functions& functions, size_t depth) {
  call(functions, 0, 0, [&] {
    if (depth != 0) recurse(functions, depth - 1);
  });
}

// The condition does not hold for the later one, which starts nothing.
TEST_P(OpenCall, ThatIsLeftIsNotEndedByALaterOneThatIsNotTimed) {
  const Functions functions(GetParam());
  functions.leave(0)();
  EXPECT_EQ(functions.left(0) + functions.left(1), 0u) << "there is none";
  for (const size_t before : {0u, 1u}) {
    functions.start(before)();
    functions.leave(0)();
    EXPECT_EQ(functions.open(), 0u);
    EXPECT_EQ(functions.left(before), 1u);
    functions.end(before)();
    EXPECT_EQ(functions.recorded(before), 0u);
  }
}

TEST_P(OpenCall, OfADeepRecursionIsRecordedOnEachLevel) {
  const Functions functions(GetParam());
  constexpr size_t kDepth = 20'000;
  for (int i = 0; i < 3; ++i) recurse(functions, kDepth - 1);
  EXPECT_EQ(functions.recorded(), 3 * kDepth);
  EXPECT_EQ(functions.missed() + functions.left() + functions.open(), 0u);
}

__attribute__((noinline)) void recurse(const Functions& functions, size_t room, size_t depth) {
  auto* const frame = static_cast<char*>(__builtin_alloca(room));
  asm volatile("" : : "r"(frame) : "memory");
  functions.start()();
  if (depth > 1) recurse(functions, room, depth - 1);
  asm volatile("" : : "r"(frame) : "memory");
}

// A quarter of the table is in use then.
TEST_P(OpenCall, OfADeepRecursionFindsRoomWhateverTheSizeOfItsFrame) {
  for (size_t room = 16; room <= 256; room += 16) {
    Functions functions(GetParam());
    recurse(functions, room, layout::kOpenCalls / 4);
    EXPECT_EQ(functions.missed(), 0u) << room;
  }
}

TEST_P(OpenCall, IsMissedWhereItsWindowIsFull) {
  const Functions functions(GetParam());
  for (layout::OpenCall& entry : functions.table()) entry.stack = 0x4710;
  call(functions, 0, 0, [] {});
  EXPECT_EQ(functions.missed(), 1u);
  EXPECT_EQ(functions.recorded(), 0u);
  for (layout::OpenCall& entry : functions.table()) entry.stack = PP_OPEN_CALL_FREE;
  call(functions, 0, 0, [] {});
  EXPECT_EQ(functions.recorded(), 1u);
  EXPECT_EQ(functions.missed(), 1u);
}

// The one that was left lies after an entry that has become free since.
TEST_P(OpenCall, ThatWasLeftIsFoundBehindAFreeEntry) {
  const Functions functions(GetParam());
  functions.start()();
  const auto table = functions.table();
  const auto used = std::find_if(table.begin(), table.end(), [](const layout::OpenCall& entry) {
    return entry.stack > PP_OPEN_CALL_FREE;
  });
  ASSERT_LT(used + 2, table.end());
  used[2] = used[0];
  used[0].stack = used[1].stack = PP_OPEN_CALL_FREE;
  functions.start()();
  EXPECT_EQ(functions.left(), 1u);
  EXPECT_EQ(functions.open(), 1u);
  functions.end()();
  EXPECT_EQ(functions.recorded(), 1u);
}

TEST_P(OpenCall, ThatWasDroppedEndsWithoutBeingRecorded) {
  const Functions functions(GetParam());
  functions.start()();
  for (layout::OpenCall& entry : functions.table()) entry.tsc |= layout::kTscDropped;
  functions.end()();
  EXPECT_EQ(functions.recorded() + functions.left() + functions.open(), 0u);
}

TEST_P(OpenCall, IsMarkedUntilItsStartIsWrittenWhicheverWayItIsOpened) {
  const Functions functions(GetParam());
  const auto call = [&](bool is_ended) {
    functions.start()();
    if (is_ended) functions.end()();
  };
  call(true);
  const auto table = functions.table();
  const auto used = std::find_if(table.begin(), table.end(), [](const layout::OpenCall& entry) {
    return entry.stack == PP_OPEN_CALL_FREE;
  });
  ASSERT_NE(used, table.end());
  std::atomic<uint64_t> last_end = 0;
  std::atomic<bool> is_over = false;
  uint64_t too_old = 0;
  std::thread reader([&] {
    while (!is_over) {
      const uint64_t end = last_end;
      const uint64_t stack = std::atomic_ref(used->stack);
      const uint64_t tsc = std::atomic_ref(used->tsc);
      if (stack > PP_OPEN_CALL_FREE && (stack & PP_OPEN_CALL_FILLING) == 0 && tsc < end) ++too_old;
    }
  });
  // Every third call is left, and its entry is opened again by the next one.
  for (int i = 0; i < 300'000; ++i) {
    const bool is_ended = i % 3 != 0;
    call(is_ended);
    if (is_ended) last_end = read_tsc();
  }
  is_over = true;
  reader.join();
  EXPECT_EQ(too_old, 0u);
}

TEST_P(OpenCall, KeepsAllRegistersAndFlags) {
  const Functions functions(GetParam());
  for (const auto stub : {functions.start(), functions.end()}) {
    CallRegisters registers = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, kArithmeticFlags};
    const CallRegisters before = registers;
    call_with_registers(reinterpret_cast<void*>(stub), &registers);
    registers.flags &= kArithmeticFlags;
    EXPECT_EQ(std::memcmp(&registers, &before, sizeof before), 0);
  }
}

TEST_P(OpenCall, OfManyThreadsAreAllRecorded) {
  const Functions functions(GetParam());
  constexpr size_t kThreads = 8, kCalls = 50'000;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (size_t i = 0; i < kCalls; ++i)
        call(functions, 0, i % 5, [&] { call(functions, 1, i % 3, [] {}); });
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(functions.recorded(0), kThreads * kCalls);
  EXPECT_EQ(functions.recorded(1), kThreads * kCalls);
  EXPECT_EQ(functions.missed() + functions.left() + functions.left(1) + functions.open(), 0u);
}

TEST_P(OpenCall, OfASignalHandlerIsAnother) {
  const Functions functions(GetParam());
  static const Functions* on;
  static std::atomic<uint64_t> handled;
  on = &functions;
  handled = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {
    call(*on, 0, 0, [] {});
    ++handled;
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before);
  const itimerval often = {{0, 50}, {0, 50}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  constexpr uint64_t kCalls = 400'000;
  for (uint64_t i = 0; i < kCalls; ++i) call(functions, 0, 0, [] {});
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(functions.recorded(), kCalls + handled);
  EXPECT_EQ(functions.missed() + functions.left() + functions.open(), 0u);
}

TEST_P(OpenCall, EndsInAForkedChildToo) {
  const Functions functions(GetParam());
  functions.start()();
  const pid_t child = fork();
  functions.end()();
  if (child == 0) _exit(functions.recorded() == 1 && functions.open() == 0 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(functions.recorded(), 1u);
}

}  // namespace
}  // namespace pinprick::runtime
