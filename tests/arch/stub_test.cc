// Stubs run in this very process, behind jumps written over the code that they displace.
#include "arch/x86_64/stub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/rseq.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "arch/differential.h"
#include "arch/disassembler.h"
#include "arch/x86_64/unwind_tables.h"
#include "bytes.h"
#include "call_with_registers.h"
#include "executable_memory.h"

namespace pinprick::arch {
namespace {

constexpr uint64_t kNoEnter = 0;

struct rseq* own_rseq_area() {
  return reinterpret_cast<struct rseq*>(static_cast<char*>(__builtin_thread_pointer()) +
                                        __rseq_offset);
}

std::optional<RseqArea> own_rseq() {
  if (__rseq_size == 0) return std::nullopt;
  return RseqArea{static_cast<int32_t>(__rseq_offset)};
}

// Counters as the controller lays them out: a region for each CPU and one for each locked stripe.
class Cells {
 public:
  Cells(uint32_t cpus, uint32_t cell) : cell_(cell), cpus_(cpus) {
    regions_.resize((cpus + layout::kLockedStripes) * kRegion / 8);
    for (uint32_t i = 0; i < cpus; ++i) cpu_cells_.push_back(region(i));
    for (uint32_t i = 0; i < layout::kLockedStripes; ++i) locked_cells_[i] = region(cpus + i);
  }

  ArenaSpec arena(uint64_t size, bool tables_apart = false) const {
    ArenaSpec spec;
    spec.size = size;
    spec.enter = kNoEnter;
    spec.locked_cells = locked_cells_;
    spec.cpu_cells = cpu_cells_;
    spec.tables_apart = tables_apart;
    return spec;
  }
  // Of another counter than the one that the cells are for.
  uint64_t total_of(uint32_t cell) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < cpus_ + layout::kLockedStripes; ++i)
      sum += regions_[(i * kRegion + cell) / 8];
    return sum;
  }
  uint64_t of_cpu(uint32_t cpu) const { return counter(cpu); }
  uint64_t by_rseq() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < cpus_; ++i) sum += counter(i);
    return sum;
  }
  uint64_t by_lock() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < layout::kLockedStripes; ++i) sum += counter(cpus_ + i);
    return sum;
  }
  uint64_t stripes_used() const {
    uint64_t used = 0;
    for (uint32_t i = 0; i < layout::kLockedStripes; ++i) used += counter(cpus_ + i) != 0;
    return used;
  }
  uint64_t total() const { return by_rseq() + by_lock(); }
  uint32_t cpus() const { return cpus_; }
  // Every other word must stay as it was.
  uint64_t words_written() const {
    return static_cast<uint64_t>(
        std::count_if(regions_.begin(), regions_.end(), [](uint64_t word) { return word != 0; }));
  }

 private:
  static constexpr uint64_t kRegion = 4096;
  Address region(uint32_t i) const {
    return reinterpret_cast<Address>(regions_.data()) + i * kRegion;
  }
  uint64_t counter(uint32_t region) const { return regions_[(region * kRegion + cell_) / 8]; }

  uint32_t cell_;
  uint32_t cpus_;
  std::vector<uint64_t> regions_;
  std::vector<Address> cpu_cells_;
  std::array<Address, layout::kLockedStripes> locked_cells_{};
};

constexpr uint32_t kCell = 0x208;

// A function whose first `displaced` bytes run in a count stub.
class Counted {
 public:
  Counted(const Bytes& code, size_t displaced, std::optional<RseqArea> rseq)
      : Counted(code, displaced, rseq, {{0, kCell, false}}) {}
  Counted(const Bytes& code, size_t displaced, std::optional<RseqArea> rseq,
          const std::vector<CountPoint>& points)
      : cells(std::max(1u, std::thread::hardware_concurrency()), kCell), memory_(1 << 16) {
    const Address function_address = memory_.address() + kFunction;
    Assembler stubs(memory_.address());
    const auto entries = emit_arena_header(stubs, cells.arena(memory_.size(), true));
    stub = emit_count_stub(stubs, entries, rseq, points,
                           {function_address, std::span(code).first(displaced)});
    const auto bytes = stubs.finish();
    EXPECT_TRUE(bytes && bytes->size() < kFunction);
    memory_.write(0, *bytes);
    memory_.write(kFunction, code);
    memory_.write(kFunction, *encode_jump(function_address, stub.begin));
    memory_.seal();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  // The kernel looks at the descriptor that a thread announced last, and kills the thread if it is
  // not there any more.
  ~Counted() {
    if (__rseq_size != 0)
      __atomic_store_n(&own_rseq_area()->rseq_cs, uint64_t{0}, __ATOMIC_RELAXED);
  }

  template <class F>
  F* function() {
    return memory_.function<F>(kFunction);
  }

  // As the kernel does in a child that is not to count.
  void empty_tables() {
    const Range tables = tables_in_arena(cells.cpus());
    void* begin = memory_.data() + tables.begin;
    ASSERT_EQ(
        ::mmap(begin, tables.size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        begin);
  }

  Cells cells;
  Stub stub;

 private:
  static constexpr uint64_t kFunction = 1 << 15;
  ExecutableMemory memory_;
};

// mov %rdi,%rax; shl $1,%rax; add $3,%rax; ret: the first two are displaced
const Bytes kTwicePlus3 = {0x48, 0x89, 0xf8, 0x48, 0xd1, 0xe0, 0x48, 0x83, 0xc0, 0x03, 0xc3};
constexpr size_t kTwicePlus3Displaced = 6;

class CountStubs : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  }
  std::optional<RseqArea> rseq() const { return GetParam() ? own_rseq() : std::nullopt; }
};
INSTANTIATE_TEST_SUITE_P(Paths, CountStubs, testing::Bool(),
                         [](const auto& path) { return path.param ? "rseq" : "locked"; });

TEST_P(CountStubs, CountEveryCallAndChangeNoResult) {
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, rseq());
  auto* function = counted.function<long(long)>();
  for (long i = 0; i < 10'000; ++i) ASSERT_EQ(function(i), 2 * i + 3);
  EXPECT_EQ(counted.cells.total(), 10'000u);
  EXPECT_EQ(GetParam() ? counted.cells.by_rseq() : counted.cells.by_lock(), 10'000u);
}

TEST_P(CountStubs, WithEmptyTablesCountNothingAndChangeNoResult) {
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, rseq());
  auto* function = counted.function<long(long)>();
  EXPECT_EQ(function(1), 5);
  counted.empty_tables();
  for (long i = 0; i < 1000; ++i) ASSERT_EQ(function(i), 2 * i + 3);
  EXPECT_EQ(counted.cells.total(), 1u);
}

TEST_P(CountStubs, OfEightThreadsLoseNothing) {
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, rseq());
  auto* function = counted.function<long(long)>();
  constexpr long kThreads = 8;
  constexpr long kCalls = 4'000'000;
  std::atomic<long> wrong = 0;
  std::latch all_there(kThreads);
  std::vector<std::thread> threads;
  for (long t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      all_there.arrive_and_wait();
      for (long i = 0; i < kCalls; ++i)
        if (function(i) != 2 * i + 3) ++wrong;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(counted.cells.total(), uint64_t{kThreads} * kCalls);
  if (!GetParam()) {
    EXPECT_GT(counted.cells.stripes_used(), 1u) << "the threads must not all share a line";
  }
}

TEST_P(CountStubs, TouchNothingButTheirCounter) {
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, rseq());
  counted.function<long(long)>()(1);
  EXPECT_EQ(counted.cells.words_written(), 1u);
  EXPECT_EQ(counted.cells.total(), 1u);
}

TEST_P(CountStubs, ACallAmongTheDisplacedReturnsToTheOriginalCode) {
  // sub $8,%rsp; call callee; add $8,%rsp; ret;  callee: mov (%rsp),%rax; ret
  const Bytes code = {0x48, 0x83, 0xec, 0x08, 0xe8, 0x05, 0,    0,    0,   0x48,
                      0x83, 0xc4, 0x08, 0xc3, 0x48, 0x8b, 0x04, 0x24, 0xc3};
  Counted counted(code, 9, rseq());
  auto* function = counted.function<uint64_t()>();
  EXPECT_EQ(function(), reinterpret_cast<Address>(function) + 9);
  EXPECT_EQ(counted.cells.total(), 1u);
}

TEST_P(CountStubs, AFunctionThatIsDisplacedToItsEndReturnsFromTheStub) {
  // lea 1(%rdi),%rax; ret: 5 bytes, nothing is left behind the jump
  Counted counted({0x48, 0x8d, 0x47, 0x01, 0xc3}, 5, rseq());
  EXPECT_EQ(counted.function<long(long)>()(41), 42);
  EXPECT_EQ(counted.cells.total(), 1u);
}

// --- Interrupted at any instruction

struct Stepping {
  long left = 0;
  std::vector<Address> visited;
} stepping;
constexpr greg_t kTrapFlag = 0x100;

void on_step(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  stepping.visited.push_back(static_cast<Address>(registers[REG_RIP]));
  if (--stepping.left <= 0) registers[REG_EFL] &= ~kTrapFlag;
}

// A signal after each of the first `steps` instructions. To the kernel that is what being preempted
// there is: a restartable sequence begins again.
long call_interrupted(Counted& counted, long argument, long steps) {
  stepping.left = steps;
  stepping.visited.clear();
  stepping.visited.reserve(static_cast<size_t>(steps));  // handlers must not allocate
  struct sigaction action = {}, previous;
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &previous);
  CallRegisters registers = {};
  registers.rdi = static_cast<uint64_t>(argument);
  registers.flags = static_cast<uint64_t>(kTrapFlag) | 0x202;
  call_with_registers(reinterpret_cast<void*>(counted.function<void()>()), &registers);
  sigaction(SIGTRAP, &previous, nullptr);
  return static_cast<long>(registers.rax);
}

TEST_P(CountStubs, InterruptedAfterAnyInstructionCountOnce) {
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, rseq());
  constexpr long kFromCallToStub = 20;
  constexpr long kMost = kFromCallToStub + 60;
  for (long steps = 1; steps <= kMost; ++steps) {
    ASSERT_EQ(call_interrupted(counted, steps, steps), 2 * steps + 3);
    ASSERT_EQ(counted.cells.total(), static_cast<uint64_t>(steps)) << "after " << steps;
  }
  EXPECT_THAT(stepping.visited, testing::Contains(counted.stub.begin));
}

TEST(RseqCountStub, InterruptedAgainAndAgainStartsAgainAndNeverCountsTwice) {
  if (!own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, own_rseq());
  constexpr long kSteps = 2000;
  EXPECT_EQ(call_interrupted(counted, 7, kSteps), 17);
  EXPECT_EQ(counted.cells.total(), 1u);
  ASSERT_EQ(stepping.visited.size(), static_cast<size_t>(kSteps));
  // While every instruction is interrupted, none gets past the sequence; the last step set it free.
  EXPECT_THAT(stepping.visited, testing::Not(testing::Contains(counted.stub.body)));
}

TEST(RseqCountStub, LeavesNoPointerToItsSequenceWithTheThread) {
  if (!own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, own_rseq());
  const auto* area = reinterpret_cast<const struct rseq*>(
      static_cast<const char*>(__builtin_thread_pointer()) + __rseq_offset);
  for (long i = 0; i < 1000; ++i) {
    ASSERT_EQ(counted.function<long(long)>()(i), 2 * i + 3);
    ASSERT_EQ(__atomic_load_n(&area->rseq_cs, __ATOMIC_RELAXED), 0u);
  }
}

// --- Several probes in one window

// Points at these offsets, with a counter each; in the middle of a function but for the first.
std::vector<CountPoint> points_at(const std::vector<uint8_t>& offsets) {
  std::vector<CountPoint> points;
  for (size_t i = 0; i < offsets.size(); ++i)
    points.push_back({offsets[i], kCell + 8 * static_cast<uint32_t>(i), offsets[i] != 0});
  return points;
}

// mov %rdi,%rax; test %rdi,%rdi; js .negative; shl $1,%rax; jc .carry; add $3,%rax; ret;
// .negative: neg %rax; .carry: ret. All but the last three lines are displaced.
const Bytes kLeftEarly = {0x48, 0x89, 0xf8, 0x48, 0x85, 0xff, 0x78, 0x0a, 0x48, 0xd1, 0xe0,
                          0x72, 0x08, 0x48, 0x83, 0xc0, 0x03, 0xc3, 0x48, 0xf7, 0xd8, 0xc3};
constexpr size_t kLeftEarlyDisplaced = 17;

TEST_P(CountStubs, EachPointCountsWhatComesThatFar) {
  Counted counted(kLeftEarly, kLeftEarlyDisplaced, rseq(), points_at({0, 3, 6, 8, 11, 13}));
  auto* function = counted.function<long(long)>();
  for (long i = 0; i < 700; ++i) ASSERT_EQ(function(i), 2 * i + 3);
  for (long i = 1; i <= 300; ++i) ASSERT_EQ(function(-i), i);
  for (uint32_t i = 0; i < 6; ++i)
    EXPECT_EQ(counted.cells.total_of(kCell + 8 * i), i <= 2 ? 1000u : 700u) << i;
}

TEST_P(CountStubs, InstructionsBeforeTheFirstPointAndBetweenPointsAreNotCounted) {
  Counted counted(kLeftEarly, kLeftEarlyDisplaced, rseq(), points_at({6, 13}));
  auto* function = counted.function<long(long)>();
  for (long i = 0; i < 50; ++i) ASSERT_EQ(function(i), 2 * i + 3);
  for (long i = 1; i <= 20; ++i) ASSERT_EQ(function(-i), i);
  EXPECT_EQ(counted.cells.total_of(kCell), 70u);
  EXPECT_EQ(counted.cells.total_of(kCell + 8), 50u);
  EXPECT_LE(counted.cells.words_written(), 2u * std::thread::hardware_concurrency() + 16u);
}

TEST_P(CountStubs, ABranchBackToTheFirstInstructionCountsAgain) {
  // xor %eax,%eax; | dec %edi; inc %eax; test %edi,%edi; jne .-6 (the window's begin); nop; ret
  const Bytes loop = {0xff, 0xcf, 0xff, 0xc0, 0x85, 0xff, 0x75, 0xf8, 0x90, 0xc3};
  Counted counted(loop, 9, rseq(), points_at({0, 2, 6, 8}));
  CallRegisters registers = {};
  registers.rdi = 10;
  registers.flags = 0x202;
  call_with_registers(reinterpret_cast<void*>(counted.function<void()>()), &registers);
  EXPECT_EQ(registers.rax, 10u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(counted.cells.total_of(kCell + 8 * i), 10u) << i;
  EXPECT_EQ(counted.cells.total_of(kCell + 24), 1u);
}

TEST_P(CountStubs, InterruptedAfterAnyInstructionEachPointCountsOnce) {
  // Interrupted all the time a thread does not get past its first sequence: each point is the first
  // one once.
  std::vector<uint8_t> offsets = {0, 3, 6, 8, 11, 13};
  for (; !offsets.empty(); offsets.erase(offsets.begin())) {
    Counted counted(kLeftEarly, kLeftEarlyDisplaced, rseq(), points_at(offsets));
    // No more than a call has: the steps must end before it does.
    const long most = 4 + 26 * static_cast<long>(offsets.size());
    for (long steps = 1; steps <= most; ++steps) {
      ASSERT_EQ(call_interrupted(counted, steps, steps), 2 * steps + 3);
      for (uint32_t i = 0; i < offsets.size(); ++i)
        ASSERT_EQ(counted.cells.total_of(kCell + 8 * i), static_cast<uint64_t>(steps))
            << "point " << i << " after " << steps;
    }
    EXPECT_THAT(stepping.visited, testing::Contains(counted.stub.begin));
  }
}

TEST_P(CountStubs, OfEightThreadsEachPointLosesNothing) {
  Counted counted(kLeftEarly, kLeftEarlyDisplaced, rseq(), points_at({0, 8, 13}));
  auto* function = counted.function<long(long)>();
  constexpr long kThreads = 8, kCalls = 500'000;
  std::atomic<long> wrong = 0;
  std::vector<std::thread> threads;
  for (long t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kCalls; ++i)
        if (function(i % 2 == 0 ? i : -i) != (i % 2 == 0 ? 2 * i + 3 : i)) ++wrong;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(counted.cells.total_of(kCell), uint64_t{kThreads} * kCalls);
  EXPECT_EQ(counted.cells.total_of(kCell + 8), uint64_t{kThreads} * kCalls / 2);
  EXPECT_EQ(counted.cells.total_of(kCell + 16), uint64_t{kThreads} * kCalls / 2);
}

// --- Nothing a program can see

// A thread's rseq area of the test's own, with a cpu_id that the kernel does not overwrite.
thread_local struct rseq pretended_rseq;

RseqArea pretended_area() {
  return {static_cast<int32_t>(reinterpret_cast<char*>(&pretended_rseq) -
                               static_cast<char*>(__builtin_thread_pointer()))};
}

struct Path {
  const char* name;
  bool rseq;
  int32_t cpu;
};

class StubInSandbox : public testing::TestWithParam<Path> {
 protected:
  static constexpr uint32_t kCpus = 4;

  void SetUp() override {
    pretended_rseq = {};
    pretended_rseq.cpu_id = static_cast<uint32_t>(GetParam().cpu);
    arena.tables_apart = false;  // the sandbox has one page
  }

  // The state and memory after `window` at home, and after a jump to its stub in its place.
  void run_both(const Bytes& window, bool keep_red_zone) {
    run_both(window, {{0, kCell, keep_red_zone}});
  }
  void run_both(const Bytes& window, const std::vector<CountPoint>& points) {
    Assembler code(sandbox.away());
    const auto entries = emit_arena_header(code, arena);
    std::optional<RseqArea> rseq;
    if (GetParam().rseq) rseq = pretended_area();
    const Stub stub = emit_count_stub(code, entries, rseq, points, {sandbox.home(), window});
    const auto stubs = code.finish();
    ASSERT_TRUE(stubs);

    start = random_state(random, sandbox);
    start.rip = sandbox.home();
    fill_randomly(sandbox.memory(), random);
    const Bytes before(sandbox.memory().begin(), sandbox.memory().end());
    sandbox.place_home(window);
    plain = sandbox.run(start);
    memory_plain.assign(sandbox.memory().begin(), sandbox.memory().end());

    std::copy(before.begin(), before.end(), sandbox.memory().begin());
    sandbox.place_home(*encode_jump(sandbox.home(), stub.begin));
    sandbox.place_away(*stubs);
    probed = sandbox.run(start);
    ASSERT_EQ(plain.signal, 0);
  }
  // Memory from `lowest` on.
  bool same_memory_from(Address lowest) {
    const auto offset = static_cast<long>(lowest - sandbox.data());
    return std::equal(memory_plain.begin() + offset, memory_plain.end(),
                      sandbox.memory().begin() + offset);
  }

  Sandbox sandbox;
  Cells cells{kCpus, kCell};
  ArenaSpec arena = cells.arena(kPageSize);
  std::mt19937_64 random{271828};
  MachineState start;
  Outcome plain, probed;
  Bytes memory_plain;
};
INSTANTIATE_TEST_SUITE_P(Paths, StubInSandbox,
                         testing::Values(Path{"locked", false, 0}, Path{"first_cpu", true, 0},
                                         Path{"last_cpu", true, 3},
                                         Path{"not_registered_yet", true, -1},
                                         Path{"registration_failed", true, -2}),
                         [](const auto& path) { return std::string(path.param.name); });

// push %rbp; mov %rsp,%rbp; sub $16,%rsp
const Bytes kPrologue = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10};
// nop; adc %rcx,%rax; movq %rax,%xmm3: lives on flags and on the registers that the stub uses
const Bytes kMiddle = {0x90, 0x48, 0x11, 0xc8, 0x66, 0x48, 0x0f, 0x6e, 0xd8};

TEST_P(StubInSandbox, PreservesAllRegistersFlagsVectorsAndTheStack) {
  for (const Bytes& window : {kPrologue, kMiddle}) {
    for (int trial = 0; trial < 100; ++trial) {
      run_both(window, false);
      ASSERT_EQ(difference_of(plain, probed), "");
      ASSERT_TRUE(same_memory_from(start[Reg::rsp]));
    }
  }
  EXPECT_EQ(cells.total(), 200u);
}

TEST_P(StubInSandbox, InTheMiddleOfAFunctionPreservesTheRedZone) {
  constexpr uint64_t kRedZone = 128;
  for (int trial = 0; trial < 100; ++trial) {
    run_both(kMiddle, true);
    ASSERT_EQ(difference_of(plain, probed), "");
    ASSERT_TRUE(same_memory_from(start[Reg::rsp] - kRedZone));
  }
  EXPECT_EQ(cells.total(), 100u);
}

TEST_P(StubInSandbox, WithSeveralPointsPreservesAllThatAndTheRedZone) {
  constexpr uint64_t kRedZone = 128;
  for (int trial = 0; trial < 100; ++trial) {
    run_both(kMiddle, points_at({1, 4}));
    ASSERT_EQ(difference_of(plain, probed), "");
    ASSERT_TRUE(same_memory_from(start[Reg::rsp] - kRedZone));
  }
  EXPECT_EQ(cells.total_of(kCell), 100u);
  EXPECT_EQ(cells.total_of(kCell + 8), 100u);
}

// lea -24(%rsp),%r12; xor %r13d,%r13d: as at Go's stack check, these registers and the flags held
// nothing.
const Bytes kStackCheck = {0x4c, 0x8d, 0x64, 0x24, 0xe8, 0x45, 0x31, 0xed};

TEST_P(StubInSandbox, AtAStackCheckWritesNothingToTheStackEither) {
  for (int trial = 0; trial < 100; ++trial) {
    run_both(kStackCheck, {{0, kCell, false, true}});
    ASSERT_EQ(difference_of(plain, probed), "");
    ASSERT_TRUE(same_memory_from(sandbox.data()));
  }
  EXPECT_EQ(cells.by_lock(), 100u);
}

TEST_P(StubInSandbox, AtAStackCheckWithEmptyTablesCountsNothing) {
  arena.locked_cells = {};
  run_both(kStackCheck, {{0, kCell, false, true}});
  ASSERT_EQ(difference_of(plain, probed), "");
  EXPECT_EQ(cells.total(), 0u);
}

TEST_P(StubInSandbox, CountsInTheCellsOfItsCpuOrWithoutOneInTheLockedOnes) {
  run_both(kPrologue, false);
  const Path& path = GetParam();
  const bool registered = path.rseq && path.cpu >= 0;
  EXPECT_EQ(cells.by_lock(), registered ? 0u : 1u);
  for (uint32_t cpu = 0; cpu < kCpus; ++cpu)
    EXPECT_EQ(cells.of_cpu(cpu), registered && static_cast<int32_t>(cpu) == path.cpu ? 1u : 0u);
}

// --- What is emitted

constexpr Address kArena = 0x7f00'0000'0000;
constexpr Address kSite = kArena + 0x100000;

struct Emitted {
  Bytes bytes;
  ArenaEntries entries;
  Stub stub;
  uint64_t header_size = 0;

  std::span<const uint8_t> at(Address address) const {
    return std::span(bytes).subspan(address - kArena);
  }
  Address word(Address address) const {
    Address value = 0;
    for (unsigned i = 0; i < 8; ++i) value |= Address{at(address)[i]} << (8 * i);
    return value;
  }
};

const std::vector<Address> kCpuCells = {0x10000, 0x20000, 0x30000};

ArenaSpec some_arena() {
  ArenaSpec spec;
  spec.size = 0x40000;
  spec.enter = 0x123456789a;
  for (uint32_t i = 0; i < layout::kLockedStripes; ++i) spec.locked_cells[i] = 0x1000 * (i + 1);
  spec.cpu_cells = kCpuCells;
  return spec;
}

template <class Emit>
Emitted emitted(const Emit& emit) {
  Emitted result;
  Assembler code(kArena);
  result.entries = emit_arena_header(code, some_arena());
  result.header_size = code.size();
  result.stub = emit(code, result.entries);
  auto bytes = code.finish();
  EXPECT_TRUE(bytes);
  if (bytes) result.bytes = *std::move(bytes);
  return result;
}

Emitted emitted_count_stub(const Bytes& window, bool keep_red_zone = false,
                           std::optional<RseqArea> rseq = RseqArea{-0x60}) {
  return emitted([&](Assembler& code, const ArenaEntries& entries) {
    // A cell as that of one among thousands of probes.
    const CountPoint point = {0, 0x12340, keep_red_zone};
    return emit_count_stub(code, entries, rseq, {&point, 1}, {kSite, window});
  });
}

TEST(Arena, BeginsWithWhatItsStubsShare) {
  const Emitted arena = emitted([](Assembler&, const ArenaEntries&) { return Stub(); });
  EXPECT_EQ(Bytes(arena.bytes.begin(), arena.bytes.begin() + 8),
            (Bytes{'P', 'N', 'A', 'R', 'E', 'N', 'A', '1'}));
  EXPECT_EQ(arena.word(kArena + 8), 0x40000u);
  EXPECT_EQ(arena.entries.enter_pointer, kArena + 16);
  EXPECT_EQ(arena.word(kArena + 16), 0x123456789au);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(arena.word(kArena + 64 + 8 * i), 0x1000u * (i + 1));
  // What a thread with cpu_id -2 or -1 reads, in front of CPU 0.
  EXPECT_EQ(arena.word(kArena + 128), 0u);
  EXPECT_EQ(arena.word(kArena + 136), 0u);
  EXPECT_EQ(arena.entries.cpu_table, kArena + 144);
  for (uint32_t cpu = 0; cpu < 3; ++cpu)
    EXPECT_EQ(arena.word(kArena + 144 + 8 * cpu), kCpuCells[cpu]);
  EXPECT_GE(arena.entries.locked_count, kArena + 144 + 8 * 3);
  EXPECT_LT(arena.entries.locked_count, kArena + arena.header_size);
}

TEST(CountStub, OfATypicalWindowAtAnEntryHasAtMost128Bytes) {
  for (const Bytes& window : {Bytes{0x55, 0x48, 0x89, 0xe5, 0x41, 0x57},  // 6 bytes
                              Bytes{0x41, 0x57, 0x41, 0x56, 0x41, 0x55},  // 6 bytes
                              Bytes{0x48, 0x81, 0xec, 0x88, 0, 0, 0},     // 7 bytes
                              Bytes{0x48, 0x8d, 0x05, 0x10, 0, 0, 0}}) {  // 7 bytes
    const Emitted code = emitted_count_stub(window);
    EXPECT_LE(code.bytes.size() - code.header_size, 128u);
  }
}

TEST(CountStub, InTheMiddleOfAFunctionPaysLittleMoreForTheRedZone) {
  const Bytes window = {0x48, 0x81, 0xec, 0x88, 0, 0, 0};  // sub $0x88,%rsp
  const Emitted inside = emitted_count_stub(window, true);
  // The budget is an average of 128. A step over the red zone that leaves the flags alone takes 5
  // bytes, the one back 8.
  EXPECT_LE(inside.bytes.size() - inside.header_size, 128u + 8u);
}

TEST(CountStub, EndsWithTheDisplacedInstructionsAndTheWayBack) {
  const Emitted code = emitted_count_stub(kPrologue);
  EXPECT_EQ(Disassembler().text(code.at(code.stub.body).first(code.stub.end - code.stub.body),
                                code.stub.body),
            "push rbp; mov rbp, rsp; sub rsp, 0x10; jmp 0x7f0000100008");
  EXPECT_EQ(code.stub.end, kArena + code.bytes.size());
}

TEST(CountStub, HasNoWayBackWhereNobodyWouldTakeIt) {
  // What is left of it is a distance, for unwinders.
  constexpr size_t kDistance = 4;
  const auto body = [](const Bytes& window) {
    const Emitted code = emitted_count_stub(window);
    const Address end = code.stub.end - kDistance;
    int32_t distance = 0;
    std::memcpy(&distance, code.at(end).data(), sizeof distance);
    EXPECT_EQ(code.stub.end + static_cast<Address>(int64_t{distance}), kSite + window.size());
    EXPECT_EQ(code.stub.frames.continuation, end);
    return Disassembler().text(code.at(code.stub.body).first(end - code.stub.body), code.stub.body);
  };
  EXPECT_EQ(body({0x31, 0xc0, 0xc3}), "xor eax, eax; ret");
  EXPECT_EQ(body({0x31, 0xc0, 0xeb, 0x10}), "xor eax, eax; jmp 0x7f0000100014");
  EXPECT_EQ(body({0x31, 0xc0, 0xff, 0xe0}), "xor eax, eax; jmp rax");
  // The call returns to the original code: behind the jump lies only the address that it pushed.
  const Emitted last = emitted_count_stub({0x31, 0xc0, 0xff, 0x50, 0x10});  // xor; call *16(%rax)
  const Address literal = last.stub.end - kDistance - 8;
  EXPECT_EQ(last.word(literal), kSite + 5);
  EXPECT_EQ(
      Disassembler().text(last.at(last.stub.body).first(literal - last.stub.body), last.stub.body),
      "xor eax, eax; push qword ptr [rip + 3]; jmp qword ptr [rax + 0x10]");
}

TEST(CountStub, SaysWhereTheCopyOfEachDisplacedInstructionBegins) {
  // nop; push %rbp; lea 0x10(%rip),%rax; je .+2+0x20; nopl 0(%rax)
  const Bytes window = {0x90, 0x55, 0x48, 0x8d, 0x05, 0x10, 0,   0,
                        0,    0x74, 0x20, 0x0f, 0x1f, 0x40, 0x00};
  const Emitted code = emitted_count_stub(window);
  std::vector<std::pair<unsigned, std::string>> copies;
  for (const Copy& copy : code.stub.copies) {
    const Address at = code.stub.body + copy.offset;
    const auto instruction = decode(code.at(at), at);
    ASSERT_TRUE(instruction);
    copies.emplace_back(copy.window_offset,
                        Disassembler().text(code.at(at).first(instruction->length), at));
  }
  // Nops are copied too, so that a thread that stands behind one has a place to go on.
  ASSERT_EQ(copies.size(), 5u);
  EXPECT_EQ(copies[0], std::pair(0u, std::string("nop")));
  EXPECT_EQ(copies[1], std::pair(1u, std::string("push rbp")));
  EXPECT_EQ(copies[2].first, 2u);
  EXPECT_EQ(copies[3], std::pair(9u, std::string("je 0x7f000010002b")));
  EXPECT_EQ(copies[4], std::pair(11u, std::string("nop dword ptr [rax]")));
  const Address lea = code.stub.body + code.stub.copies[2].offset;
  EXPECT_EQ(decode(code.at(lea), lea)->memory, kSite + 9 + 0x10);
  EXPECT_EQ(code.stub.copies[0].offset, 0u);
}

TEST(CountStub, HasNoCodeWhereTheDisplacedCannotBeReached) {
  Assembler code(kSite + (Address{3} << 30));
  const auto entries = emit_arena_header(code, some_arena());
  emit_count_stub(code, entries, std::nullopt, {}, {kSite, kPrologue});
  EXPECT_FALSE(code.finish());
}

TEST(RseqCountStub, AnnouncesASequenceThatEndsBehindTheOnlyStore) {
  const Emitted code = emitted_count_stub(kPrologue);
  const Address descriptor = kArena + code.header_size;
  EXPECT_EQ(code.word(descriptor), 0u) << "version 0, no flags";
  const Address begin = code.word(descriptor + 8);
  const Address end = begin + code.word(descriptor + 16);
  const Address abort = code.word(descriptor + 24);
  ASSERT_LT(code.stub.begin, begin);
  ASSERT_LE(end, code.stub.body);
  // The kernel sends nobody to an abort address that the signature does not stand before.
  EXPECT_EQ(Bytes(code.at(abort - 4).begin(), code.at(abort).begin()),
            little_endian(kRseqSignature));
  EXPECT_TRUE(abort < begin || abort >= end);
  // Within the sequence only its last instruction writes to memory.
  Disassembler disassembler;
  for (Address at = begin; at < end;) {
    const auto instruction = decode(code.at(at), at);
    ASSERT_TRUE(instruction);
    const std::string text = disassembler.text(code.at(at).first(instruction->length), at);
    const bool stores = text.starts_with("mov qword ptr");
    EXPECT_EQ(stores, instruction->end() == end) << text;
    at = instruction->end();
  }
}

TEST(ReturnStub, HandsItsRecordToTheRuntime) {
  const ReturnStub spec = {0x1111, 0x2222, 0x3333};
  const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
    return emit_return_stub(at, entries, spec, {kSite, kPrologue});
  });
  Address at = code.stub.begin;
  const auto push = decode(code.at(at), at);
  const auto lea = decode(code.at(push->end()), push->end());
  const auto jump = decode(code.at(lea->end()), lea->end());
  EXPECT_EQ(Disassembler().text(code.at(at).first(1), at), "push rax");
  EXPECT_EQ(lea->special, Special::lea);
  EXPECT_EQ(jump->flow, Flow::jump_indirect);
  EXPECT_EQ(jump->memory, code.entries.enter_pointer);
  const Address record = lea->memory;
  EXPECT_EQ(record % 8, 0u);
  EXPECT_EQ(code.word(record), code.stub.body);
  EXPECT_EQ(code.word(record + 8), spec.histogram);
  EXPECT_EQ(code.word(record + 16), spec.missed);
  EXPECT_EQ(code.word(record + 24), spec.unwound);
  EXPECT_EQ(code.word(record + 32), kSite);
  EXPECT_EQ(code.stub.end, record + sizeof(layout::ProbeRecord));
  EXPECT_EQ(code.stub.body, jump->end());
  EXPECT_TRUE(Disassembler()
                  .text(code.at(code.stub.body).first(kPrologue.size() + 5), code.stub.body)
                  .starts_with("push rbp; mov rbp, rsp; sub rsp, 0x10; jmp 0x7f0000100008"));
}

// --- Hooks where unwinders look up their tables

extern "C" void __register_frame(void*);
extern "C" void __deregister_frame(void*);
extern "C" const void* _Unwind_Find_FDE(void* pc, void* bases);

// A hook in front of `long f(long x) { return x + 1; }`, for code at addresses of nobody's.
class Hooked {
 public:
  static constexpr Range kSlotCode = {0x123400000000, 0x123400000000 + 16 * kSlotCodeSize};
  // Ranges apart from each other, to all sides of the slots.
  static constexpr Range kOthers[] = {{0x100000000000, 0x100000000010},
                                      {0x123300000000, 0x123400000000},
                                      {0x123500000000, 0x123500000001},
                                      {0x7fffffff0000, 0x7fffffff1000}};

  explicit Hooked(std::optional<layout::UnwinderTable> functions) {
    UnwindSpec tables;
    tables.slots = {kSlotCode, 0x123500000000, PP_RECORD_SITE};
    for (Range range : kOthers)
      tables.code.push_back(
          {{range.begin, CodeRow::Caller::returned_to, 1}, {range.end, CodeRow::Caller::nowhere}});
    Assembler at(memory_.address() + kTablesAt);
    const auto header = emit_unwind_tables(at, tables);
    const auto bytes = at.finish();
    memory_.write(kTablesAt, *bytes);
    UnwinderHook spec;
    spec.functions = functions;
    spec.ranges = header.ranges;
    spec.range_count = static_cast<uint32_t>(header.range_count);
    spec.slot_code = kSlotCode;
    spec.slots = tables.slots.slots;
    const Bytes original = {0x48, 0x8d, 0x47, 0x01, 0xc3};  // lea 1(%rdi),%rax; ret
    memory_.write(0, original);
    Assembler code(memory_.address() + kStubAt);
    emit_unwinder_hook(code, spec, {memory_.address(), original});
    const auto hook = code.finish();
    EXPECT_LE(kStubAt + hook->size(), kTablesAt);
    memory_.write(kStubAt, *hook);
    memory_.seal();
  }

  // What the function answers for an address, and what it stores.
  uint64_t look_up(Address pc) {
    std::fill(std::begin(result), std::end(result), kUntouched);
    return memory_.function<uint64_t(Address, uint64_t*)>(kStubAt)(pc, result);
  }
  static constexpr uint64_t kUntouched = 0x5555;
  uint64_t result[12];

 private:
  static constexpr uint64_t kStubAt = 64, kTablesAt = 1024;
  ExecutableMemory memory_{kPageSize};
};

template <class T>
T read(Address at) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
  return value;
}

void expect_untouched_outside(Hooked& hooked) {
  std::vector<Address> outside = {0, 41, Hooked::kSlotCode.end, ~Address{1}, ~Address{0}};
  for (Range range : Hooked::kOthers) {
    if (range.begin != Hooked::kSlotCode.end) outside.push_back(range.begin - 1);
    if (range.end != Hooked::kSlotCode.begin) outside.push_back(range.end);
  }
  for (Address pc : outside) {
    EXPECT_EQ(hooked.look_up(pc), pc + 1);
    for (uint64_t word : hooked.result) EXPECT_EQ(word, Hooked::kUntouched) << std::hex << pc;
  }
}

// libgcc reads the table as we mean it.
void expect_found_by_libgcc(Address table, Address fde, Range range) {
  const auto frames = reinterpret_cast<void*>(table);
  __register_frame(frames);
  for (Address pc : {range.begin, range.end - 1}) {
    uint64_t bases[3] = {};
    EXPECT_EQ(reinterpret_cast<Address>(_Unwind_Find_FDE(reinterpret_cast<void*>(pc), bases)), fde);
    EXPECT_EQ(bases[2], range.begin);
  }
  uint64_t bases[3];
  EXPECT_EQ(_Unwind_Find_FDE(reinterpret_cast<void*>(Hooked::kSlotCode.end), bases), nullptr);
  __deregister_frame(frames);
}

// An FDE says how far in front of it its CIE lies.
Address table_of(Address fde) {
  return fde + 4 - read<uint32_t>(fde + 4);
}

TEST(UnwinderHook, AnswersWithATableForEmittedCodeAndLeavesEverythingElseToTheUnwinder) {
  Hooked hooked(layout::UnwinderTable{});
  expect_untouched_outside(hooked);
  std::vector<Range> ranges(std::begin(Hooked::kOthers), std::end(Hooked::kOthers));
  ranges.push_back(Hooked::kSlotCode);
  for (Range range : ranges)
    for (Address pc : {range.begin, range.end - 1}) {
      const Address fde = hooked.look_up(pc);
      EXPECT_THAT(std::vector<uint64_t>(hooked.result, hooked.result + 4),
                  testing::ElementsAre(0, 0, range.begin, Hooked::kUntouched));
      const bool is_slots = range.begin == Hooked::kSlotCode.begin;
      // Of slots the hook has a table of its own; the others are what the CIE is the second of.
      EXPECT_STREQ(reinterpret_cast<const char*>(table_of(fde) + 9), is_slots ? "zPR" : "zR");
      if (is_slots) expect_found_by_libgcc(table_of(fde), fde, range);
      EXPECT_EQ(read<Address>(fde + 8), range.begin);
      EXPECT_EQ(read<Address>(fde + 16), range.size());
    }
}

TEST(LoaderHook, AnswersWithAnObjectThatHasATableForEmittedCode) {
  Hooked hooked(std::nullopt);
  expect_untouched_outside(hooked);
  std::vector<Range> ranges(std::begin(Hooked::kOthers), std::end(Hooked::kOthers));
  ranges.push_back(Hooked::kSlotCode);
  for (Range range : ranges)
    for (Address pc : {range.begin, range.end - 1}) {
      EXPECT_EQ(hooked.look_up(pc), 0u);
      const Address header = hooked.result[4];
      EXPECT_THAT(std::vector<uint64_t>(hooked.result, hooked.result + 6),
                  testing::ElementsAre(0, range.begin, range.end, 0, header, Hooked::kUntouched));
      EXPECT_EQ(read<uint32_t>(header), 0xffff0001u) << "version 1, absolute, no count, not sorted";
      const Address fde = read<Address>(header + 4);
      EXPECT_STREQ(reinterpret_cast<const char*>(table_of(fde) + 9), "zR") << "no personality";
      EXPECT_EQ(read<Address>(fde + 8), range.begin);
      EXPECT_EQ(read<Address>(fde + 16), range.size());
    }
}

TEST(SlotCode, CallsTheBodyOfItsSlotAndThenLeavesThroughTheRuntime) {
  constexpr Address kSlots = kArena - 0x10000;
  constexpr Address kLeave = kArena - 0x100;
  Assembler code(kArena);
  emit_slot_code(code, kSlots, 3, kLeave);
  const auto bytes = code.finish();
  ASSERT_TRUE(bytes);
  ASSERT_EQ(bytes->size(), 3 * kSlotCodeSize);
  for (uint64_t i = 0; i < 3; ++i) {
    const Address slot = kSlots + i * sizeof(layout::Slot);
    std::vector<Instruction> instructions;
    Address at = kArena + i * kSlotCodeSize;
    const Address begin = at;
    while (instructions.empty() || instructions.back().flow != Flow::jump) {
      const auto instruction = decode(std::span(*bytes).subspan(at - kArena), at);
      ASSERT_TRUE(instruction);
      instructions.push_back(*instruction);
      at = instruction->end();
    }
    ASSERT_EQ(instructions.size(), 5u);  // call, push, push %rax, lea, jmp
    EXPECT_EQ(instructions[0].flow, Flow::call_indirect);
    EXPECT_EQ(instructions[0].memory, slot + offsetof(layout::Slot, body));
    EXPECT_EQ(instructions[0].end(), begin + kSlotReturn);
    EXPECT_EQ(instructions[1].memory, slot + offsetof(layout::Slot, return_address));
    EXPECT_EQ(instructions[3].special, Special::lea);
    EXPECT_EQ(instructions[3].memory, slot);
    EXPECT_EQ(instructions[4].target, kLeave);
    while (at < begin + kSlotCodeSize) EXPECT_EQ((*bytes)[at++ - kArena], 0xcc);
  }
}

}  // namespace
}  // namespace pinprick::arch
