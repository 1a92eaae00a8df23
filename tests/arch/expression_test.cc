// What hits compute: random expressions on random states of the processor, against an interpreter
// that shares nothing with the code under test. Everything a program could see stays as it is.
//
// PINPRICK_EXPRESSIONS=1000000 in the environment takes that many.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "arch/differential.h"
#include "arch/jump.h"
#include "arch/stub_cases.h"

namespace pinprick::arch {
namespace {

size_t expressions_to_try() {
  const char* const wanted = std::getenv("PINPRICK_EXPRESSIONS");
  return wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 20'000;
}

// --- The interpreter

// What the program has when it reaches the instruction.
struct Program {
  const MachineState& state;
  Sandbox& sandbox;

  uint64_t xmm(uint8_t number) const {
    constexpr size_t kXmm = 160;  // in the layout of xsave
    uint64_t low = 0;
    std::memcpy(&low, state.extended.data() + kXmm + size_t{16} * number, sizeof low);
    return low;
  }
  uint64_t reg(uint8_t number) const { return state.general[number]; }
};

uint64_t extended(uint64_t value, unsigned bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? static_cast<uint64_t>(int64_t{static_cast<int8_t>(value)})
                       : static_cast<uint8_t>(value);
    case 2:
      return is_signed ? static_cast<uint64_t>(int64_t{static_cast<int16_t>(value)})
                       : static_cast<uint16_t>(value);
    case 4:
      return is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)})
                       : static_cast<uint32_t>(value);
    default:
      return value;
  }
}

uint64_t truncated(uint64_t bits, unsigned bytes) {
  const double number = bytes == 8 ? std::bit_cast<double>(bits)
                                   : double{std::bit_cast<float>(static_cast<uint32_t>(bits))};
  const bool fits = number >= -0x1p63 && number < 0x1p63;  // false of NaN
  return static_cast<uint64_t>(fits ? static_cast<int64_t>(number)
                                    : std::numeric_limits<int64_t>::min());
}

uint64_t taken(const Source& source, const Program& program) {
  if (const auto* constant = std::get_if<Source::Constant>(&source.instead)) return constant->value;
  uint64_t bits = program.reg(source.register_number);
  if (source.is_vector) bits = program.xmm(source.register_number);
  if (const auto* memory = std::get_if<Source::Memory>(&source.instead)) {
    Address address = memory->displacement;
    if (memory->base) address += program.reg(*memory->base);
    if (memory->index) address += program.reg(*memory->index) * memory->scale;
    bits = program.sandbox.word(address);
  }
  if (source.is_high_byte) bits = bits >> 8;
  if (source.is_floating_point) return truncated(bits, source.bytes);
  return extended(bits, source.bytes, source.is_signed);
}

uint64_t result_of(const Expression& all, const Step& step, const Program& program) {
  const auto left = [&] { return result_of(all, all.steps[step.left], program); };
  const auto right = [&] { return result_of(all, all.steps[step.right], program); };
  const auto signed_left = [&] { return static_cast<int64_t>(left()); };
  const auto signed_right = [&] { return static_cast<int64_t>(right()); };
  switch (step.operation) {
    case Operation::take:
      return taken(step.source, program);
    case Operation::narrow:
      return extended(left(), step.bytes, step.is_signed);
    case Operation::negate:
      return 0 - left();
    case Operation::complement:
      return ~left();
    case Operation::is_zero:
      return left() == 0 ? 1 : 0;
    case Operation::add:
      return left() + right();
    case Operation::subtract:
      return left() - right();
    case Operation::multiply:
      return left() * right();
    case Operation::divide:
      return step.is_signed ? static_cast<uint64_t>(signed_left() / signed_right())
                            : left() / right();
    case Operation::remainder:
      return step.is_signed ? static_cast<uint64_t>(signed_left() % signed_right())
                            : left() % right();
    case Operation::bit_and:
      return left() & right();
    case Operation::bit_or:
      return left() | right();
    case Operation::bit_xor:
      return left() ^ right();
    case Operation::shift_left:
      return left() << (right() % 64);
    case Operation::shift_right:
      return step.is_signed ? static_cast<uint64_t>(signed_left() >> (right() % 64))
                            : left() >> (right() % 64);
    case Operation::equal:
      return left() == right() ? 1 : 0;
    case Operation::not_equal:
      return left() != right() ? 1 : 0;
    case Operation::less:
      return (step.is_signed ? signed_left() < signed_right() : left() < right()) ? 1 : 0;
    case Operation::less_or_equal:
      return (step.is_signed ? signed_left() <= signed_right() : left() <= right()) ? 1 : 0;
    case Operation::both:
      return left() != 0 && right() != 0 ? 1 : 0;
    case Operation::either:
      return left() != 0 || right() != 0 ? 1 : 0;
  }
  return 0;
}

std::string shown(const Expression& all, const Program& program) {
  std::string text;
  for (const Step& step : all.steps) {
    const Source& source = step.source;
    text += "\n" + std::to_string(static_cast<int>(step.operation)) + " left " +
            std::to_string(step.left) + " right " + std::to_string(step.right) +
            (step.is_signed ? " signed " : " ") + std::to_string(step.bytes) + " register " +
            std::to_string(source.register_number) + " bytes " + std::to_string(source.bytes) +
            " instead " + std::to_string(source.instead.index()) +
            (source.is_signed ? " signed" : "") + (source.is_high_byte ? " high" : "") +
            (source.is_floating_point ? " float" : "") + (source.is_vector ? " vector" : "") +
            " = " + std::to_string(result_of(all, step, program));
  }
  return text;
}

// --- Random expressions

constexpr uint64_t kNotable[] = {0,
                                 1,
                                 2,
                                 7,
                                 64,
                                 127,
                                 128,
                                 255,
                                 256,
                                 0x7fff,
                                 0x8000,
                                 0xffff,
                                 0x10000,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x1'0000'0000,
                                 ~0ull,
                                 ~0ull - 1,
                                 0x8000000000000000,
                                 0x7fffffffffffffff,
                                 0xffffffff80000000};

class Generator {
 public:
  Generator(std::mt19937_64& random, Sandbox& sandbox) : random_(random), sandbox_(sandbox) {}

  // A state in which comparisons may well hold, and two registers lead to memory.
  MachineState state() {
    MachineState start = random_state(random_, sandbox_);
    for (uint64_t& reg : start.general)
      if (&reg != &start[Reg::rsp] && below(3) != 0)
        reg = below(4) == 0 ? random_() : kNotable[below(std::size(kNotable))];
    start[Reg::r12] = data() + 512 + below(512);
    has_address_in_rcx_ = below(2) == 0;
    if (has_address_in_rcx_) start[Reg::rcx] = data() + 512 + below(512);
    start[Reg::r13] = below(16);
    start[Reg::rax] = below(2) == 0 ? start[Reg::rax] : below(16);
    if (below(2) == 0) {
      // Floating-point numbers that are some integer's neighbours.
      const double real = static_cast<double>(static_cast<int64_t>(random_())) / 4096;
      constexpr size_t kXmm = 160;
      for (size_t i = 0; i < 16; ++i)
        std::memcpy(start.extended.data() + kXmm + 16 * i, &real, sizeof real);
    }
    return start;
  }

  Expression expression(const MachineState& start, StackUse stack, size_t most_steps) {
    start_ = &start;
    stack_ = stack;
    Expression all;
    add(all, 1 + below(most_steps));
    return all;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  // Above all that is on the stack.
  Address data() const { return sandbox_.data_middle() + 1024; }

  uint64_t number() { return below(8) == 0 ? random_() : kNotable[below(std::size(kNotable))]; }

  // Adds at most this many steps. Returns the number of the last one.
  uint16_t add(Expression& all, size_t most) {
    Step step;
    step.is_signed = below(2) == 0;
    if (most < 2 || below(8) == 0) {
      step.source = source();
    } else if (most == 2 || below(5) == 0) {
      constexpr Operation kOfOne[] = {Operation::narrow, Operation::negate, Operation::complement,
                                      Operation::is_zero};
      step.operation = kOfOne[below(std::size(kOfOne))];
      step.bytes = width();
      step.left = add(all, most - 1);
    } else {
      const auto first = static_cast<uint64_t>(Operation::add);
      const auto end = static_cast<uint64_t>(Operation::either) + 1;
      step.operation = static_cast<Operation>(first + below(end - first));
      const size_t of_left = 1 + below(most - 2);
      step.left = add(all, of_left);
      const bool divides =
          step.operation == Operation::divide || step.operation == Operation::remainder;
      step.right = divides ? add_divisor(all, step.is_signed) : add(all, most - 1 - of_left);
    }
    all.steps.push_back(step);
    return static_cast<uint16_t>(all.steps.size() - 1);
  }

  uint16_t add_divisor(Expression& all, bool is_signed) {
    uint64_t divisor = number();
    if (divisor == 0 || (is_signed && divisor == ~0ull)) divisor = 10;
    all.steps.push_back({.source = {.instead = Source::Constant{divisor}}});
    return static_cast<uint16_t>(all.steps.size() - 1);
  }

  uint8_t width() { return static_cast<uint8_t>(1 << below(4)); }

  Source source() {
    Source source;
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        source.instead = Source::Constant{number()};
        return source;
      case 3:
        source.instead = memory();
        break;
      case 4:
        source.is_floating_point = source.is_vector = true;
        break;
      case 5:
        source.register_number = static_cast<uint8_t>(below(4));
        source.is_high_byte = true;
        source.bytes = 1;
        source.is_signed = below(2) == 0;
        return source;
      default:
        break;
    }
    source.register_number = static_cast<uint8_t>(below(16));
    source.bytes = width();
    source.is_signed = below(2) == 0;
    if (below(16) == 0) source.is_floating_point = true;
    if (source.is_floating_point) source.bytes = source.bytes < 8 ? 4 : 8;
    return source;
  }

  // Nothing below the stack pointer, but in the red zone if that is kept.
  Source::Memory memory() {
    const auto number = [](Reg reg) { return static_cast<uint8_t>(reg); };
    Source::Memory from;
    from.displacement = below(512);
    switch (below(4)) {
      case 0:
        from.base = number(Reg::rsp);
        if (stack_ == StackUse::keep_red_zone && below(2) == 0)
          from.displacement = 0 - (8 + below(kRedZone - 7));
        break;
      case 1:
        from.displacement += data();
        return from;
      default:
        from.base = number(has_address_in_rcx_ && below(2) == 0 ? Reg::rcx : Reg::r12);
        if (below(2) == 0) from.displacement = 0 - from.displacement;
        break;
    }
    if (below(3) == 0) {
      const bool takes_rax = (*start_)[Reg::rax] < 16;
      from.index = number(takes_rax ? Reg::rax : Reg::r13);
      from.scale = width();
    }
    return from;
  }

  std::mt19937_64& random_;
  Sandbox& sandbox_;
  const MachineState* start_ = nullptr;
  StackUse stack_ = StackUse::at_entry;
  bool has_address_in_rcx_ = false;
};

// --- The tests

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
    if (!action.condition.empty()) most += most_expression_bytes(action.condition.steps.size());
    if (const auto* records = std::get_if<RecordValue>(&action.what))
      most += most_expression_bytes(records->value.steps.size());
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
