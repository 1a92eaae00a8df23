// What hits compute: random expressions on random states of the processor, against an interpreter
// that shares nothing with the code under test. Everything a program could see stays as it is.
//
// PINPRICK_EXPRESSIONS=1000000 in the environment takes that many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "arch/differential.h"
#include "arch/jump.h"
#include "arch/random_expressions.h"
#include "arch/stub_cases.h"

namespace pinprick::arch {
namespace {

size_t expressions_to_try() {
  const char* const wanted = std::getenv("PINPRICK_EXPRESSIONS");
  return wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 20'000;
}

// nop; adc %rcx,%rax; movq %rax,%xmm3: uses flags and the registers that the stub uses
const Bytes kMiddle = {0x90, 0x48, 0x11, 0xc8, 0x66, 0x48, 0x0f, 0x6e, 0xd8};

class Expressions : public testing::Test {
 protected:
  void SetUp() override { arena_.tables_apart = false; }

  void given_state() {
    start = generator.state();
    start.rip = sandbox.home();
    fill_randomly(sandbox.memory(), random);
    memory_before_.assign(sandbox.memory().begin(), sandbox.memory().end());
  }
  StackUse some_stack() { return random() % 2 == 0 ? StackUse::at_entry : StackUse::keep_red_zone; }
  uint64_t result(const Expression& expression) {
    return result_of(expression, expression.steps.back(), {start, sandbox});
  }

  // Runs the window at home, and after a jump to its stub. Everything must be the same then.
  void run_both(const StubAction& action) {
    Assembler code(sandbox.away());
    const Address routine = sandbox.away() + kPageSize - 64;
    arena_.routines.record = arena_.routines.time = routine;
    const auto entries = emit_arena_header(code, arena_);
    const size_t before = code.size();
    const Stub stub =
        emit_stub(code, entries, {.actions = {&action, 1}}, {sandbox.home(), kMiddle});
    const size_t size = code.size() - before;
    auto stubs = code.finish();
    ASSERT_TRUE(stubs);
    expect_room(action, size);
    stubs->resize(kPageSize - 64, 0xcc);
    append_routine(*stubs, std::holds_alternative<TimeCall>(action.what));

    sandbox.place_home(kMiddle);
    const Outcome plain = sandbox.run(start);
    const Bytes memory_plain(sandbox.memory().begin(), sandbox.memory().end());
    std::copy(memory_before_.begin(), memory_before_.end(), sandbox.memory().begin());
    sandbox.place_home(*encode_jump(sandbox.home(), stub.begin));
    sandbox.place_away(*stubs);
    recorded = kNothing;
    const Outcome probed = sandbox.run(start);
    ASSERT_EQ(plain.signal, 0);
    ASSERT_EQ(difference_of(plain, probed), "");
    const Address lowest =
        start[Reg::rsp] - (action.stack == StackUse::keep_red_zone ? kRedZone : 0);
    const auto offset = static_cast<long>(lowest - sandbox.data());
    ASSERT_TRUE(std::equal(memory_plain.begin() + offset, memory_plain.end(),
                           sandbox.memory().begin() + offset));
    std::copy(memory_before_.begin(), memory_before_.end(), sandbox.memory().begin());
  }

  static constexpr uint64_t kNothing = 0x1234'5678'9abc'def0;
  uint64_t recorded = kNothing;    // what the routine was called with
  std::mt19937_64 random{314159};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  Sandbox sandbox;
  Generator generator{random, sandbox};
  Counters counters{1, kCounter};
  MachineState start;

 private:
  void expect_room(const StubAction& action, size_t size) {
    uint64_t most = most_stub_bytes(1, kMiddle.size());
    if (!action.condition.empty()) most += most_expression_bytes(action.condition);
    if (const auto* records = std::get_if<RecordValue>(&action.what))
      most += most_expression_bytes(records->value);
    EXPECT_LE(size, most);
  }

  // recorded = rax; and for calls: goes on at the copy that the record at rax names, with rax as it
  // was pushed.
  void append_routine(Bytes& bytes, bool is_call) {
    const auto append = [&](std::initializer_list<uint8_t> code) {
      bytes.insert(bytes.end(), code);
    };
    append({0x48, 0xa3});  // movabs %rax,recorded
    const auto address = reinterpret_cast<Address>(&recorded);
    for (unsigned i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(address >> (8 * i)));
    // mov (%rax),%rax; xchg %rax,(%rsp)
    if (is_call) append({0x48, 0x8b, 0x00, 0x48, 0x87, 0x04, 0x24});
    append({0xc3});
  }

  ArenaSpec arena_ = counters.arena(kPageSize);
  Bytes memory_before_;
};

TEST_F(Expressions, AreComputedAsAnInterpreterDoesAndChangeNothingElse) {
  for (size_t i = 0; i < expressions_to_try(); ++i) {
    given_state();
    const StackUse stack = some_stack();
    const Expression value = generator.expression(start, stack, 24);
    run_both({.stack = stack, .what = RecordValue{{}, value}});
    if (HasFatalFailure()) FAIL() << "expression " << i;
    ASSERT_EQ(recorded, result(value)) << shown(value, {start, sandbox});
  }
}

TEST_F(Expressions, AsConditionsDecideWhetherAHitCountsAndChangeNothingElse) {
  uint64_t hold = 0;
  for (size_t i = 0; i < expressions_to_try(); ++i) {
    given_state();
    const StackUse stack = some_stack();
    const Expression condition = generator.expression(start, stack, 16);
    const uint64_t before = counters.total();
    run_both({.stack = stack, .condition = condition, .what = CountHit{kCounter}});
    if (HasFatalFailure()) FAIL() << "expression " << i;
    const bool holds = result(condition) != 0;
    ASSERT_EQ(counters.total() - before, holds ? 1u : 0u) << shown(condition, {start, sandbox});
    hold += holds ? 1 : 0;
  }
  // Both happen often enough to mean something.
  EXPECT_GT(hold, expressions_to_try() / 5);
  EXPECT_LT(hold, expressions_to_try() * 4 / 5);
}

TEST_F(Expressions, AsConditionsDecideWhetherACallIsTimed) {
  const Metric metric;
  for (size_t i = 0; i < expressions_to_try() / 10; ++i) {
    given_state();
    const Expression condition = generator.expression(start, StackUse::at_entry, 6);
    run_both({.condition = condition, .what = TimeCall{.metrics = {&metric, 1}}});
    if (HasFatalFailure()) FAIL() << "expression " << i;
    ASSERT_EQ(recorded != kNothing, result(condition) != 0) << "expression " << i;
  }
}

TEST_F(Expressions, OfAConditionAreComputedBeforeWhatIsRecorded) {
  for (size_t i = 0; i < expressions_to_try() / 10; ++i) {
    given_state();
    const StackUse stack = some_stack();
    const Expression condition = generator.expression(start, stack, 6);
    const Expression value = generator.expression(start, stack, 6);
    run_both({.stack = stack, .condition = condition, .what = RecordValue{{}, value}});
    if (HasFatalFailure()) FAIL() << "expression " << i;
    ASSERT_EQ(recorded, result(condition) != 0 ? result(value) : kNothing) << "expression " << i;
  }
}

// As many as there may be, each waiting for the next on the stack.
TEST_F(Expressions, OfTheMostStepsStayWithinTheirRoom) {
  given_state();
  Expression deep;
  deep.steps.push_back({.source = Source{.register_number = 3}});
  for (size_t i = 1; 2 * i < kMostSteps; ++i) {
    const auto before = static_cast<uint16_t>(deep.steps.size() - 1);
    const auto other = static_cast<uint16_t>(deep.steps.size());
    deep.steps.push_back({.source = Source{.register_number = 0}});
    deep.steps.push_back({.operation = Operation::subtract, .left = other, .right = before});
  }
  run_both({.stack = StackUse::keep_red_zone, .what = RecordValue{{}, deep}});
  EXPECT_EQ(recorded, result(deep));
}

}  // namespace
}  // namespace pinprick::arch
