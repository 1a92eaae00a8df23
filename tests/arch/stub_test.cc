// Stubs run in this process, through jumps written over the code that they displace.
#include "arch/stub.h"
#include "arch/jump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "arch/stub_cases.h"
#include "call_with_registers.h"
#include "executable_memory.h"

namespace pinprick::arch {
namespace {

// A function whose first `displaced` bytes run in a count stub.
class Counted {
 public:
  Counted(const Bytes& code, size_t displaced, std::optional<RseqArea> rseq)
      : Counted(code, displaced, rseq, {{.what = CountHit{kCounter}}}) {}
  Counted(const Bytes& code, size_t displaced, std::optional<RseqArea> rseq,
          const std::vector<StubAction>& actions)
      : counters(std::max(1u, std::thread::hardware_concurrency()), kCounter), memory_(1 << 16) {
    const Address function_address = memory_.address() + kFunction;
    Assembler stubs(memory_.address());
    const auto entries = emit_arena_header(stubs, counters.arena(memory_.size(), true));
    stub = emit_stub(stubs, entries, {.rseq = rseq, .actions = actions},
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
  // The kernel reads the descriptor that a thread announced last, and kills the thread if it is
  // gone.
  ~Counted() {
    if (__rseq_size != 0)
      __atomic_store_n(&own_rseq_area()->rseq_cs, uint64_t{0}, __ATOMIC_RELAXED);
  }

  template <class F>
  F* function() {
    return memory_.function<F>(kFunction);
  }

  // What the kernel does in a child that must not count.
  void empty_tables() {
    const Range tables = tables_in_arena(counters.cpus());
    void* begin = memory_.data() + tables.begin;
    ASSERT_EQ(
        ::mmap(begin, tables.size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        begin);
  }

  Counters counters;
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
  EXPECT_EQ(counted.counters.total(), 10'000u);
  EXPECT_EQ(GetParam() ? counted.counters.by_rseq() : counted.counters.by_lock(), 10'000u);
}

TEST_P(CountStubs, WithEmptyTablesCountNothingAndChangeNoResult) {
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, rseq());
  auto* function = counted.function<long(long)>();
  EXPECT_EQ(function(1), 5);
  counted.empty_tables();
  for (long i = 0; i < 1000; ++i) ASSERT_EQ(function(i), 2 * i + 3);
  EXPECT_EQ(counted.counters.total(), 1u);
}

TEST_P(CountStubs, LoseNothingWithEightThreads) {
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
  EXPECT_EQ(counted.counters.total(), uint64_t{kThreads} * kCalls);
  if (!GetParam()) {
    EXPECT_GT(counted.counters.stripes_used(), 1u) << "the threads must not all share a line";
  }
}

TEST_P(CountStubs, ChangeNothingButTheirCounter) {
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, rseq());
  counted.function<long(long)>()(1);
  EXPECT_EQ(counted.counters.words_written(), 1u);
  EXPECT_EQ(counted.counters.total(), 1u);
}

TEST_P(CountStubs, ACallAmongTheDisplacedReturnsToTheOriginalCode) {
  // sub $8,%rsp; call callee; add $8,%rsp; ret;  callee: mov (%rsp),%rax; ret
  const Bytes code = {0x48, 0x83, 0xec, 0x08, 0xe8, 0x05, 0,    0,    0,   0x48,
                      0x83, 0xc4, 0x08, 0xc3, 0x48, 0x8b, 0x04, 0x24, 0xc3};
  Counted counted(code, 9, rseq());
  auto* function = counted.function<uint64_t()>();
  EXPECT_EQ(function(), reinterpret_cast<Address>(function) + 9);
  EXPECT_EQ(counted.counters.total(), 1u);
}

TEST_P(CountStubs, AFunctionThatIsDisplacedToItsEndReturnsFromTheStub) {
  // lea 1(%rdi),%rax; ret: 5 bytes, nothing is left after the jump
  Counted counted({0x48, 0x8d, 0x47, 0x01, 0xc3}, 5, rseq());
  EXPECT_EQ(counted.function<long(long)>()(41), 42);
  EXPECT_EQ(counted.counters.total(), 1u);
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

// Raises a signal after each of the first `steps` instructions. To the kernel this is the same as
// preemption there: a restartable sequence restarts.
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
    ASSERT_EQ(counted.counters.total(), static_cast<uint64_t>(steps)) << "after " << steps;
  }
  EXPECT_THAT(stepping.visited, testing::Contains(counted.stub.begin));
}

TEST(RseqCountStub, InterruptedRepeatedlyRestartsAndNeverCountsTwice) {
  if (!own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  Counted counted(kTwicePlus3, kTwicePlus3Displaced, own_rseq());
  constexpr long kSteps = 2000;
  EXPECT_EQ(call_interrupted(counted, 7, kSteps), 17);
  EXPECT_EQ(counted.counters.total(), 1u);
  ASSERT_EQ(stepping.visited.size(), static_cast<size_t>(kSteps));
  // While every instruction is interrupted, it never gets through the sequence; the last step lets
  // it go.
  EXPECT_THAT(stepping.visited, testing::Not(testing::Contains(counted.stub.copy)));
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

// mov %rdi,%rax; test %rdi,%rdi; js .negative; shl $1,%rax; jc .carry; add $3,%rax; ret;
// .negative: neg %rax; .carry: ret. All but the last three lines are displaced.
const Bytes kLeftEarly = {0x48, 0x89, 0xf8, 0x48, 0x85, 0xff, 0x78, 0x0a, 0x48, 0xd1, 0xe0,
                          0x72, 0x08, 0x48, 0x83, 0xc0, 0x03, 0xc3, 0x48, 0xf7, 0xd8, 0xc3};
constexpr size_t kLeftEarlyDisplaced = 17;

TEST_P(CountStubs, EachPointCountsTheCallsThatReachIt) {
  Counted counted(kLeftEarly, kLeftEarlyDisplaced, rseq(), counts_at({0, 3, 6, 8, 11, 13}));
  auto* function = counted.function<long(long)>();
  for (long i = 0; i < 700; ++i) ASSERT_EQ(function(i), 2 * i + 3);
  for (long i = 1; i <= 300; ++i) ASSERT_EQ(function(-i), i);
  for (uint32_t i = 0; i < 6; ++i)
    EXPECT_EQ(counted.counters.total_of(kCounter + 8 * i), i <= 2 ? 1000u : 700u) << i;
}

TEST_P(CountStubs, InstructionsBeforeTheFirstPointAndBetweenPointsAreNotCounted) {
  Counted counted(kLeftEarly, kLeftEarlyDisplaced, rseq(), counts_at({6, 13}));
  auto* function = counted.function<long(long)>();
  for (long i = 0; i < 50; ++i) ASSERT_EQ(function(i), 2 * i + 3);
  for (long i = 1; i <= 20; ++i) ASSERT_EQ(function(-i), i);
  EXPECT_EQ(counted.counters.total_of(kCounter), 70u);
  EXPECT_EQ(counted.counters.total_of(kCounter + 8), 50u);
  EXPECT_LE(counted.counters.words_written(), 2u * std::thread::hardware_concurrency() + 16u);
}

TEST_P(CountStubs, ABranchBackToTheFirstInstructionCountsAgain) {
  // xor %eax,%eax; | dec %edi; inc %eax; test %edi,%edi; jne .-6 (the start of the window); nop;
  // ret
  const Bytes loop = {0xff, 0xcf, 0xff, 0xc0, 0x85, 0xff, 0x75, 0xf8, 0x90, 0xc3};
  Counted counted(loop, 9, rseq(), counts_at({0, 2, 6, 8}));
  CallRegisters registers = {};
  registers.rdi = 10;
  registers.flags = 0x202;
  call_with_registers(reinterpret_cast<void*>(counted.function<void()>()), &registers);
  EXPECT_EQ(registers.rax, 10u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(counted.counters.total_of(kCounter + 8 * i), 10u) << i;
  EXPECT_EQ(counted.counters.total_of(kCounter + 24), 1u);
}

TEST_P(CountStubs, InterruptedAfterAnyInstructionEachPointCountsOnce) {
  // A thread that is interrupted at every instruction does not get through its first sequence: each
  // point is the first one once.
  std::vector<uint8_t> offsets = {0, 3, 6, 8, 11, 13};
  for (; !offsets.empty(); offsets.erase(offsets.begin())) {
    Counted counted(kLeftEarly, kLeftEarlyDisplaced, rseq(), counts_at(offsets));
    // No more than a call has: the steps must end before the call does.
    const long most = 4 + 26 * static_cast<long>(offsets.size());
    for (long steps = 1; steps <= most; ++steps) {
      ASSERT_EQ(call_interrupted(counted, steps, steps), 2 * steps + 3);
      for (uint32_t i = 0; i < offsets.size(); ++i)
        ASSERT_EQ(counted.counters.total_of(kCounter + 8 * i), static_cast<uint64_t>(steps))
            << "point " << i << " after " << steps;
    }
    EXPECT_THAT(stepping.visited, testing::Contains(counted.stub.begin));
  }
}

TEST_P(CountStubs, EachPointLosesNothingWithEightThreads) {
  Counted counted(kLeftEarly, kLeftEarlyDisplaced, rseq(), counts_at({0, 8, 13}));
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
  EXPECT_EQ(counted.counters.total_of(kCounter), uint64_t{kThreads} * kCalls);
  EXPECT_EQ(counted.counters.total_of(kCounter + 8), uint64_t{kThreads} * kCalls / 2);
  EXPECT_EQ(counted.counters.total_of(kCounter + 16), uint64_t{kThreads} * kCalls / 2);
}

}  // namespace
}  // namespace pinprick::arch
