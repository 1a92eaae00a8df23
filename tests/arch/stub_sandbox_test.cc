// Stubs change nothing that a program can see: every result is compared with the same code at home.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "arch/differential.h"
#include "arch/jump.h"
#include "arch/stub_cases.h"

namespace pinprick::arch {
namespace {

// An rseq area of the test's own, with a cpu_id that the kernel does not overwrite.
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

  // Returns state and memory after `window` ran at home, and after a jump to its stub ran instead.
  void run_both(const Bytes& window, StackUse stack) {
    run_both(window, {{.stack = stack, .what = CountHit{kCounter}}});
  }
  void run_both(const Bytes& window, const std::vector<StubAction>& actions) {
    Assembler code(sandbox.away());
    const auto entries = emit_arena_header(code, arena);
    std::optional<RseqArea> rseq;
    if (GetParam().rseq) rseq = pretended_area();
    const Stub stub = emit_stub(
        code, entries, {.rseq = rseq, .has_switches = arena.has_switches, .actions = actions},
        {sandbox.home(), window});
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
  Counters counters{kCpus, kCounter};
  ArenaSpec arena = counters.arena(kPageSize);
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

// nop; adc %rcx,%rax; movq %rax,%xmm3: uses flags and the registers that the stub uses
const Bytes kMiddle = {0x90, 0x48, 0x11, 0xc8, 0x66, 0x48, 0x0f, 0x6e, 0xd8};

TEST_P(StubInSandbox, PreservesAllRegistersFlagsVectorsAndTheStack) {
  for (const Bytes& window : {kPrologue, kMiddle}) {
    for (int trial = 0; trial < 100; ++trial) {
      run_both(window, StackUse::at_entry);
      ASSERT_EQ(difference_of(plain, probed), "");
      ASSERT_TRUE(same_memory_from(start[Reg::rsp]));
    }
  }
  EXPECT_EQ(counters.total(), 200u);
}

TEST_P(StubInSandbox, InTheMiddleOfAFunctionPreservesTheRedZone) {
  for (int trial = 0; trial < 100; ++trial) {
    run_both(kMiddle, StackUse::keep_red_zone);
    ASSERT_EQ(difference_of(plain, probed), "");
    ASSERT_TRUE(same_memory_from(start[Reg::rsp] - kRedZone));
  }
  EXPECT_EQ(counters.total(), 100u);
}

TEST_P(StubInSandbox, WithSeveralPointsPreservesAllThatAndTheRedZone) {
  for (int trial = 0; trial < 100; ++trial) {
    run_both(kMiddle, counts_at({1, 4}));
    ASSERT_EQ(difference_of(plain, probed), "");
    ASSERT_TRUE(same_memory_from(start[Reg::rsp] - kRedZone));
  }
  EXPECT_EQ(counters.total_of(kCounter), 100u);
  EXPECT_EQ(counters.total_of(kCounter + 8), 100u);
}

// Of several probes at one instruction, each has its own condition: %rdi is what it is, or is not.
TEST_P(StubInSandbox, WithConditionsCountsWhereTheyHoldAndPreservesAllThat) {
  for (const bool has_switches : {false, true}) {
    arena.has_switches = has_switches;
    std::vector<StubAction> actions = counts_at({1, 1, 4, 4});
    for (size_t i = 0; i < actions.size(); ++i) {
      const auto number = static_cast<uint16_t>(i);
      actions[i].probe = number;
      const Source rdi = {.register_number = 7};
      const Operation how = i % 2 == 0 ? Operation::equal : Operation::not_equal;
      actions[i].condition.steps = {
          {.source = rdi}, {.source = rdi}, {.operation = how, .left = 0, .right = 1}};
    }
    for (int trial = 0; trial < 50; ++trial) {
      run_both(kMiddle, actions);
      ASSERT_EQ(difference_of(plain, probed), "");
      ASSERT_TRUE(same_memory_from(start[Reg::rsp] - kRedZone));
    }
  }
  for (uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(counters.total_of(kCounter + 8 * i), i % 2 == 0 ? 100u : 0u) << i;
}

// lea -24(%rsp),%r12; xor %r13d,%r13d: as at Go's stack check, where these registers and the flags
// hold nothing
const Bytes kStackCheck = {0x4c, 0x8d, 0x64, 0x24, 0xe8, 0x45, 0x31, 0xed};

TEST_P(StubInSandbox, AtAStackCheckWritesNothingToTheStackEither) {
  for (int trial = 0; trial < 100; ++trial) {
    run_both(kStackCheck, StackUse::none);
    ASSERT_EQ(difference_of(plain, probed), "");
    ASSERT_TRUE(same_memory_from(sandbox.data()));
  }
  EXPECT_EQ(counters.by_lock(), 100u);
}

TEST_P(StubInSandbox, AtAStackCheckWithEmptyTablesCountsNothing) {
  arena.locked_areas = {};
  run_both(kStackCheck, StackUse::none);
  ASSERT_EQ(difference_of(plain, probed), "");
  EXPECT_EQ(counters.total(), 0u);
}

TEST_P(StubInSandbox, CountsInTheAreaOfItsCpuOrWithoutOneInTheLockedOnes) {
  run_both(kPrologue, StackUse::at_entry);
  const Path& path = GetParam();
  const bool registered = path.rseq && path.cpu >= 0;
  EXPECT_EQ(counters.by_lock(), registered ? 0u : 1u);
  for (uint32_t cpu = 0; cpu < kCpus; ++cpu)
    EXPECT_EQ(counters.of_cpu(cpu), registered && static_cast<int32_t>(cpu) == path.cpu ? 1u : 0u);
}

}  // namespace
}  // namespace pinprick::arch
