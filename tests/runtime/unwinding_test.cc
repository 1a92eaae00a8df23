// Unwinding from any instruction of an attached session's stub finds the probed function.
#include <gtest/gtest.h>
#include <signal.h>
#include <unwind.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runtime/unwound_program.h"

extern "C" {
extern const uint8_t unwound_room[];
}

namespace pinprick::runtime::unwinding {
namespace {

arch::Expression number(uint64_t value) {
  return arch::Source{.instead = arch::Source::Constant{value}};
}

// --- The claim

// Every instruction of the stub that was executed.
std::set<Address> expect_right_everywhere(const Shape& shape, const Spec& with) {
  const auto expected = stepping::expected_of(shape.function);
  Program program(shape, with);
  auto executed = stepping::expect_right_everywhere(shape.function, expected, [&](Address at) {
    if (with.is_dropped) program.drop_calls();
    return program.is_ours(at);
  });
  EXPECT_EQ(stepping::steps.aborted.empty(), !with.has_rseq || !with.has_sequences());
  if (with.kind == Kind::time && with.free_slots != 0) {
    const bool is_rejected =
        !with.at_return.empty() &&
        std::all_of(with.at_return.begin(), with.at_return.end(), [](const arch::AtReturn& one) {
          return !one.condition.empty() && one.condition.steps.back() == number(0).steps.back();
        });
    const bool is_counted =
        std::any_of(with.at_return.begin(), with.at_return.end(),
                    [](const arch::AtReturn& one) { return one.rest || one.event; });
    EXPECT_EQ(program.has_recorded(), !with.is_dropped && !is_rejected && !with.is_unread &&
                                          !is_counted && with.blocks != 0);
  }
  if (with.gap == Pass::starts_gap_of_cpu) {
    EXPECT_EQ(program.has_gap(with), !with.is_dropped && with.free_slots != 0);
  }
  return executed;
}

StubAction count_at(uint8_t offset, StackUse stack) {
  return {.offset = offset, .stack = stack, .what = arch::CountHit{64}};
}

const Shape kAtEntries[] = {
    {"frame_pointer", unwound_frame_pointer, 0, 8},
    {"saves", unwound_saves, 0, 5},
    {"branches", unwound_branches, 0, 5},
    {"both_branches", unwound_branches, 0, 7},
    {"loops", unwound_loops, 0, 10},
    {"calls", unwound_calls, 0, 9},
    {"calls_through_memory", unwound_calls_through_memory, 0, 7},
    {"returns", unwound_returns, 0, 5},
    {"jumps", unwound_jumps, 0, 7},
    {"system_call", unwound_system_call, 0, 8},
};
const Shape kInside[] = {
    {"frame_pointer_set_up", unwound_frame_pointer, 8, 8},
    {"leaf", unwound_leaf, 5, 5},
};

using Case = std::tuple<Shape, bool, int>;  // has rseq; the CPU that the thread's area names

class Unwinding : public testing::TestWithParam<Case> {
 protected:
  const Shape& shape() const { return std::get<0>(GetParam()); }
  bool has_rseq() const { return std::get<1>(GetParam()); }
  void SetUp() override {
    pretended_rseq = {};
    pretended_rseq.cpu_id = static_cast<uint32_t>(std::get<2>(GetParam()));
    // The unwinder reads its tables, and allocates memory, at the first call.
    stepping::Backtrace frames;
    _Unwind_Backtrace(stepping::add_frame, &frames);
    before_ = stepping::take_steps();
    stepping::steps.area = &pretended_rseq;
  }
  void TearDown() override { ::sigaction(SIGTRAP, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};
using UnwindingAtEntry = Unwinding;

std::string name_of(const testing::TestParamInfo<Case>& one) {
  return std::string(std::get<0>(one.param).name) + (std::get<1>(one.param) ? "_rseq" : "_locked") +
         (std::get<2>(one.param) == 0 ? "" : "_unregistered");
}

template <size_t N>
auto paths_of(const Shape (&shapes)[N]) {
  return testing::Combine(testing::ValuesIn(shapes), testing::Bool(), testing::Values(0, -1));
}

INSTANTIATE_TEST_SUITE_P(AtEntries, Unwinding, paths_of(kAtEntries), name_of);
INSTANTIATE_TEST_SUITE_P(Inside, Unwinding, paths_of(kInside), name_of);
INSTANTIATE_TEST_SUITE_P(Stubs, UnwindingAtEntry, paths_of(kAtEntries), name_of);

TEST_P(Unwinding, FromEveryInstructionOfACountingProbeFindsTheProbedOne) {
  for (const StackUse stack : {StackUse::at_entry, StackUse::keep_red_zone}) {
    if (shape().site != 0 && stack == StackUse::at_entry) continue;
    Shape counted = shape();
    counted.counts = {count_at(0, stack)};
    expect_right_everywhere(counted, {Kind::count, has_rseq()});
  }
}

TEST_P(Unwinding, FromEveryInstructionOfSeveralProbesInOneStubFindsTheProbedOne) {
  Shape counted = shape();
  const std::span code(reinterpret_cast<const uint8_t*>(counted.function) + counted.site,
                       counted.displaced);
  for (uint8_t offset = 0; offset < counted.displaced;) {
    const bool is_entry = offset == 0 && counted.site == 0;
    counted.counts.push_back(
        count_at(offset, is_entry ? StackUse::at_entry : StackUse::keep_red_zone));
    offset += arch::decode(code.subspan(offset), 0)->length;
  }
  expect_right_everywhere(counted, {Kind::count, has_rseq()});
  counted.counts.erase(counted.counts.begin());
  if (!counted.counts.empty()) expect_right_everywhere(counted, {Kind::count, has_rseq()});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionOfATimedCallFindsTheTimedFunctionOrItsCaller) {
  expect_right_everywhere(shape(), {Kind::time, has_rseq()});
}

TEST_P(Unwinding, FromEveryInstructionThatRecordsAValueFindsTheFunction) {
  for (uint64_t blocks : {2, 1, 0})
    expect_right_everywhere(
        shape(),
        {.kind = Kind::value, .has_rseq = has_rseq(), .blocks = blocks, .own_blocks = blocks == 2});
}

TEST_P(Unwinding, FromEveryInstructionThatCountsByAKeyFindsTheFunction) {
  for (const Keys keys : {Keys::nowhere, Keys::free, Keys::own, Keys::of_others, Keys::full})
    for (const bool has_sum : {false, true})
      expect_right_everywhere(
          shape(), {.kind = Kind::key, .has_rseq = has_rseq(), .keys = keys, .has_sum = has_sum});
}

TEST_P(Unwinding, FromEveryInstructionThatKeepsExtremesFindsTheFunction) {
  for (const Keys keys : {Keys::nowhere, Keys::free, Keys::own, Keys::full})
    for (const auto order : {layout::NumberOrder::with_sign, layout::NumberOrder::without_sign,
                             layout::NumberOrder::real})
      expect_right_everywhere(shape(), {.kind = Kind::key,
                                        .has_rseq = has_rseq(),
                                        .keys = keys,
                                        .has_sum = true,
                                        .extremes = order});
}

// What reads through a pointer: memory that is there, and memory that is not.
struct Read {
  arch::Expression what;
  bool is_there = false;
  bool is_text() const {
    return what.steps.back().operation == arch::Operation::text ||
           what.steps.back().operation == arch::Operation::pair;
  }
};
std::vector<Read> reads() {
  using arch::Operation, arch::Source;
  static const char* const text = "text and more";
  std::vector<Read> all;
  for (const char* const address : {text, static_cast<const char*>(nullptr)}) {
    const arch::Step pointer = {.source = {.instead = Source::Constant{address_of(address)}}};
    const auto add = [&](std::vector<arch::Step> steps) {
      all.push_back({arch::Expression(std::move(steps)), address != nullptr});
    };
    for (const Operation operation :
         {Operation::load, Operation::text, Operation::equals_text, Operation::like_text})
      add({pointer, {.operation = operation, .left = 0}});
    all.back().what.texts = {"*m?*"};
    all.end()[-2].what.texts = {text};
    // The pair of an unreadable text is a number, too.
    if (address != nullptr)
      add({pointer,
           {.operation = Operation::text, .left = 0},
           {.source = {.register_number = 3}},
           {.operation = Operation::pair, .left = 1, .right = 2}});
    // While words are pushed, and rdx is saved.
    add({{.source = {.instead = Source::Constant{uint64_t{1} << 40}}},
         {.source = {.register_number = 2, .bytes = 1}},
         pointer,
         {.operation = Operation::load, .bytes = 4, .left = 2},
         {.operation = Operation::divide, .left = 1, .right = 3},
         {.operation = Operation::subtract, .left = 0, .right = 4}});
  }
  return all;
}

TEST_P(Unwinding, FromEveryInstructionThatReadsThroughAPointerFindsTheFunction) {
  for (const Read& one : reads()) {
    const Spec keyed = {.kind = Kind::key,
                        .has_rseq = has_rseq(),
                        .keys = Keys::free,
                        .key = one.what,
                        .is_unread = !one.is_there && !one.is_text()};
    expect_right_everywhere(shape(), keyed);
    Spec added = keyed;
    added.has_sum = true;
    expect_right_everywhere(shape(), added);
    expect_right_everywhere(shape(), {.kind = Kind::key,
                                      .has_rseq = has_rseq(),
                                      .keys = Keys::free,
                                      .condition = one.what,
                                      .is_unread = !one.is_there});
  }
}

TEST_P(UnwindingAtEntry, FromEveryInstructionThatReadsAtTheEntryOrAtTheReturnFindsTheFunction) {
  const arch::Source kept = {.instead = arch::Source::OfCall{.kept = 1, .may_be_unread = true}};
  for (const Read& one : reads())
    for (const uint64_t slots : {1, 0}) {
      expect_right_everywhere(shape(), {.kind = Kind::time,
                                        .has_rseq = has_rseq(),
                                        .free_slots = slots,
                                        .is_unread = !one.is_there && !one.is_text(),
                                        .at_return = {{.value = kept}},
                                        .kept = {arch::Source{6}, one.what}});
      expect_right_everywhere(shape(), {.kind = Kind::time,
                                        .has_rseq = has_rseq(),
                                        .free_slots = slots,
                                        .is_unread = !one.is_there,
                                        .at_return = {{.condition = one.what, .value = one.what}}});
    }
}

// The walk goes on as long as rules lead up the stack, and where they lead out of it.
TEST_P(Unwinding, FromEveryInstructionThatWalksTheStackFindsTheFunction) {
  const bool is_at_entry = shape().site == 0;
  const auto size = [](uint32_t words) { return words << PP_FRAME_SIZE_SHIFT; };
  const auto saved = [](uint32_t words) { return words << PP_FRAME_SAVED_SHIFT; };
  const uint32_t at_stack_pointer = PP_FRAME_AT_BIAS << PP_FRAME_AT_SHIFT;
  const uint32_t rules[] = {
      0,
      PP_FRAME_END,
      PP_FRAME_NORMAL | size(1),
      PP_FRAME_NORMAL | size(3) | saved(2),
      PP_FRAME_NORMAL | size(2) | saved(PP_FRAME_RBP_LOST),
      PP_FRAME_NORMAL | size(2) | PP_FRAME_BY_RBP,
      PP_FRAME_NORMAL | size(200),
      PP_FRAME_NORMAL | size(1 << 14) | saved(40),
      PP_FRAME_PLT | size(1) | 8 << PP_FRAME_PUSH_SHIFT,
      PP_FRAME_LOADED | at_stack_pointer | 1 << PP_FRAME_PLUS_SHIFT,
      PP_FRAME_LOADED | at_stack_pointer | PP_FRAME_RBP_AT_RBP | PP_FRAME_BY_RBP,
      PP_FRAME_SIGNAL,
  };
  for (const uint32_t rule : rules)
    expect_right_everywhere(shape(),
                            {.kind = Kind::key,
                             .has_rseq = has_rseq(),
                             .keys = Keys::free,
                             .key = arch::Source{.instead = arch::Source::Stack{9, is_at_entry}},
                             .frame_rule = rule});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionThatKeepsTheStackOfACallFindsTheFunction) {
  const arch::Source kept = {.instead = arch::Source::OfCall{.kept = 1}};
  for (const uint64_t slots : {1, 0})
    expect_right_everywhere(
        shape(), {.kind = Kind::time,
                  .has_rseq = has_rseq(),
                  .free_slots = slots,
                  .at_return = {{.value = kept}},
                  .kept = {arch::Source{6}, arch::Source{.instead = arch::Source::Stack{9, true}}},
                  .frame_rule = PP_FRAME_NORMAL | 2 << PP_FRAME_SIZE_SHIFT});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionThatFindsTheSelfTimeFindsTheFunction) {
  using arch::Source;
  for (const Entries entries : {Entries::free, Entries::own, Entries::full})
    for (const uint64_t slots : {1, 0})
      expect_right_everywhere(shape(),
                              {.kind = Kind::time,
                               .has_rseq = has_rseq(),
                               .free_slots = slots,
                               .entries = entries,
                               .has_begun = true,
                               .at_return = {{.value = Source{.instead = Source::SelfTime{0}}}},
                               .kept = {Source{.instead = Source::AccountedTime{}}}});
}

TEST_P(Unwinding, FromEveryInstructionThatFindsTheThreadFindsTheFunction) {
  expect_right_everywhere(shape(), {.kind = Kind::key,
                                    .has_rseq = has_rseq(),
                                    .keys = Keys::free,
                                    .key = arch::Source{.instead = arch::Source::Thread{}}});
}

TEST_P(Unwinding, FromEveryInstructionThatRecordsAValueByAKeyFindsTheFunction) {
  for (const Keys keys : {Keys::nowhere, Keys::free, Keys::own, Keys::of_others, Keys::full})
    for (const uint64_t blocks : {2, 0})
      expect_right_everywhere(shape(), {.kind = Kind::value,
                                        .has_rseq = has_rseq(),
                                        .blocks = blocks,
                                        .keys = keys,
                                        .by_key = true});
}

// A pointer that leads nowhere is one of the values.
std::vector<arch::Expression> told_values() {
  using arch::Operation, arch::Source;
  const arch::Expression follows(
      {{.source = {.instead = Source::Constant{8}}}, {.operation = Operation::load, .left = 0}});
  const arch::Expression divides({{.source = {.register_number = 6}},
                                  {.source = {.instead = Source::Constant{7}}},
                                  {.operation = Operation::divide, .left = 0, .right = 1}});
  return {arch::Source{1}, follows, divides, arch::Source{0}};
}

TEST_P(Unwinding, FromEveryInstructionThatRecordsAnEventFindsTheFunction) {
  for (const bool has_room : {true, false})
    expect_right_everywhere(shape(),
                            {.kind = Kind::event,
                             .has_rseq = has_rseq(),
                             .values = has_room ? told_values() : std::vector<arch::Expression>(),
                             .has_room = has_room});
}

TEST_P(Unwinding, FromEveryInstructionThatStartsOrEndsASpanOrAGapFindsTheFunction) {
  for (const Pass pass : {Pass::starts, Pass::ends, Pass::starts_gap_of_cpu, Pass::ends_gap_of_cpu,
                          Pass::starts_gap_of_thread}) {
    const bool is_of_cpu = pass == Pass::starts_gap_of_cpu || pass == Pass::ends_gap_of_cpu;
    for (const Entries entries : {Entries::free, Entries::ended, Entries::own, Entries::full})
      for (const bool has_begun : {false, true})
        if (is_of_cpu ? entries == Entries::free : entries == Entries::own || !has_begun)
          expect_right_everywhere(shape(), {.kind = Kind::pass,
                                            .has_rseq = has_rseq(),
                                            .pass = pass,
                                            .entries = entries,
                                            .has_begun = has_begun});
  }
}

TEST_P(UnwindingAtEntry, FromEveryInstructionOfATimedCallThatStartsAGapFindsTheFunction) {
  for (const uint64_t slots : {1, 0})
    expect_right_everywhere(shape(), {.kind = Kind::time,
                                      .has_rseq = has_rseq(),
                                      .free_slots = slots,
                                      .gap = Pass::starts_gap_of_cpu});
  for (const Entries entries : {Entries::free, Entries::ended, Entries::own, Entries::full})
    expect_right_everywhere(shape(), {.kind = Kind::time,
                                      .has_rseq = has_rseq(),
                                      .entries = entries,
                                      .gap = Pass::starts_gap_of_thread});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionOfATimedCallThatIsDroppedFindsTheFunction) {
  for (const size_t metrics : {1, 2})
    expect_right_everywhere(shape(), {.kind = Kind::time,
                                      .has_rseq = has_rseq(),
                                      .metrics = metrics,
                                      .gap = Pass::starts_gap_of_cpu,
                                      .is_dropped = true});
  expect_right_everywhere(shape(),
                          {.kind = Kind::time, .has_rseq = has_rseq(), .is_dropped = true});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionOfACallRecordedInTwoMetricsFindsTheFunction) {
  for (uint64_t slots : {1, 0})
    expect_right_everywhere(
        shape(), {.kind = Kind::time, .has_rseq = has_rseq(), .free_slots = slots, .metrics = 2});
}

// (kept - (%rax - %rsi / 7)) | 1, whose parts are pushed.
arch::Expression computed_with_pushes() {
  using arch::Operation, arch::Source;
  return arch::Expression({{.source = {.instead = Source::OfCall{.kept = 1}}},
                           {.source = {.register_number = 0}},
                           {.source = {.register_number = 6}},
                           {.source = {.instead = Source::Constant{7}}},
                           {.operation = Operation::divide, .left = 2, .right = 3},
                           {.operation = Operation::subtract, .left = 1, .right = 4},
                           {.operation = Operation::subtract, .left = 0, .right = 5},
                           {.source = {.instead = Source::Constant{1}}},
                           {.operation = Operation::bit_or, .left = 6, .right = 7}});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionThatKeepsValuesOrComputesAtTheReturnFindsTheFunction) {
  const arch::AtReturn cases[] = {{number(1), computed_with_pushes()},
                                  {number(0), {}},
                                  {computed_with_pushes(), {}},
                                  {{}, number(5)}};
  for (const arch::AtReturn& first : cases)
    for (const uint64_t slots : {1, 0}) {
      expect_right_everywhere(
          shape(),
          {.kind = Kind::time, .has_rseq = has_rseq(), .free_slots = slots, .at_return = {first}});
      expect_right_everywhere(shape(), {.kind = Kind::time,
                                        .has_rseq = has_rseq(),
                                        .free_slots = slots,
                                        .metrics = 2,
                                        .at_return = {first, {}}});
    }
}

TEST_P(UnwindingAtEntry, FromEveryInstructionThatCountsOrRecordsByAKeyAtTheReturnFindsTheFunction) {
  constexpr uint64_t kRest = 512;
  const arch::AtReturn cases[] = {{.key = number(77)},
                                  {.value = number(5), .key = computed_with_pushes()},
                                  {.key = number(77), .rest = kRest},
                                  {.value = number(5), .key = number(77), .rest = kRest}};
  for (const arch::AtReturn& one : cases)
    for (const Keys keys : {Keys::nowhere, Keys::free, Keys::own, Keys::full})
      expect_right_everywhere(
          shape(), {.kind = Kind::time, .has_rseq = has_rseq(), .keys = keys, .at_return = {one}});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionThatRecordsAnEventAtTheReturnFindsTheFunction) {
  const auto tells = [](const arch::Expression& condition) {
    return arch::AtReturn{
        .condition = condition,
        .event = arch::RecordEvent{1, {number(5), computed_with_pushes(), told_values()[1]}}};
  };
  const Spec told = {.kind = Kind::time, .has_rseq = has_rseq(), .at_return = {tells({})}};
  expect_right_everywhere(shape(), told);
  Spec dropped = told;
  dropped.has_room = false;
  expect_right_everywhere(shape(), dropped);
  Spec rejected = told;
  rejected.at_return = {tells(number(0))};
  expect_right_everywhere(shape(), rejected);
}

TEST_P(UnwindingAtEntry, FromEveryInstructionOfATimedCallWithoutABlockFindsTheFunction) {
  for (uint64_t blocks : {1, 0})
    expect_right_everywhere(
        shape(), {.kind = Kind::time, .has_rseq = has_rseq(), .blocks = blocks, .own_blocks = 0});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionOfACallWithoutASlotFindsTheFunction) {
  expect_right_everywhere(shape(), {Kind::time, has_rseq(), 0});
}

TEST_P(UnwindingAtEntry, FromEveryInstructionOfACallThatLooksForAnAbandonedSlotFindsTheFunction) {
  const auto expected = stepping::expected_of(shape().function);
  Program program(shape(), {Kind::time, has_rseq()});
  program.context().reusing = 1;
  for (bool is_left : {false, true}) {
    if (is_left) program.leave_slot();
    stepping::expect_right_everywhere(shape().function, expected,
                                      [&](Address at) { return program.is_ours(at); });
    EXPECT_EQ(program.abandoned(), is_left ? 1u : 0u);
  }
}

// --- Trampolines and hooks

class UnwindingOf : public testing::Test {
 protected:
  void SetUp() override { before_ = stepping::take_steps(); }
  void TearDown() override {
    ::sigaction(SIGTRAP, &before_, nullptr);
    stepping::steps.argument = stepping::Steps{}.argument;
  }

 private:
  struct sigaction before_ = {};
};

TEST_F(UnwindingOf, ATrampolineFindsTheProbedFunction) {
  for (const Shape& shape : {Shape{"", unwound_returns, 0, 5, {count_at(0, StackUse::at_entry)}},
                             Shape{"", unwound_jumps, 0, 7, {count_at(0, StackUse::at_entry)}}}) {
    const auto executed = expect_right_everywhere(shape, {.trampoline = address_of(unwound_room)});
    EXPECT_TRUE(executed.contains(address_of(unwound_room)));
  }
}

// A hook at a function's entry, for addresses in our code and for others; the function stores its
// result where its argument points.
TEST_F(UnwindingOf, AHookFindsTheHookedFunction) {
  constexpr uint64_t kEach = 128;
  alignas(kEach) static uint8_t known[2 * kEach];
  const Range routine = {address_of(known), address_of(known) + kEach};
  const Range slot_code = {routine.end, routine.end + kEach};
  arch::UnwindSpec tables;
  tables.code.push_back({{routine.begin, arch::CodeRow::Caller::returned_to, 1}, {routine.end}});
  ExecutableMemory memory(kPageSize);
  arch::Assembler code(memory.address());
  const auto header = arch::emit_unwind_tables(code, tables);
  memory.write(0, *code.finish());
  for (bool of_unwinder : {false, true}) {
    arch::UnwinderHook hook;
    hook.ranges = header.ranges;
    hook.range_count = static_cast<uint32_t>(header.range_count);
    hook.slot_code = slot_code;
    using At = arch::UnwinderHook::At;
    hook.at = of_unwinder ? At::unwinder : At::object_table;
    if (of_unwinder) hook.functions = layout::UnwinderTable{};
    const Shape shape = {"", unwound_returns, 0, 5};
    for (Address pc : {routine.begin, routine.begin + 64, slot_code.begin, Address{5}}) {
      if (pc == slot_code.begin && !of_unwinder) continue;
      stepping::steps.argument = static_cast<long>(pc);
      const auto executed = expect_right_everywhere(shape, {.kind = Kind::hook, .hook = hook});
      EXPECT_GT(executed.size(), 10u);
    }
  }
}

// The kernel refuses to make this child, so only the parent goes on.
TEST_F(UnwindingOf, AHookWhereChildrenStartFindsTheSystemCall) {
  const Shape shape = {"", unwound_starts_child, 10, 6};
  for (int cpu : {0, -1}) {
    pretended_rseq = {};
    pretended_rseq.cpu_id = static_cast<uint32_t>(cpu);
    stepping::steps.area = &pretended_rseq;
    const auto executed =
        expect_right_everywhere(shape, {.kind = Kind::vfork, .has_rseq = cpu == 0});
    EXPECT_GT(executed.size(), 20u);
    EXPECT_EQ(static_cast<int>(pretended_rseq.cpu_id), cpu);
  }
}

}  // namespace
}  // namespace pinprick::runtime::unwinding
