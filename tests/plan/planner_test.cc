// Where a probe goes, or why it cannot: bytes of a function before, and after the jump is written.
#include "plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bytes.h"
#include "plan/annotated_function.h"

namespace pinprick::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Expected {
  Tactic tactic;
  const char* after;
  Bytes displaced;
  std::vector<uint8_t> boundaries;
};

void expect_patch(const Function& function, uint64_t offset, const Expected& expected) {
  const auto patch = function.plan(offset);
  ASSERT_TRUE(patch) << "refused: " << name(patch.error().reason);
  EXPECT_EQ(name(patch->tactic), name(expected.tactic));
  EXPECT_EQ(patch->written, 5);
  EXPECT_EQ(function.after({{patch->site, patch->written, "jj"}}), expected.after);
  const auto displaced = patch->displaced_bytes();
  EXPECT_EQ(Bytes(displaced.begin(), displaced.end()), expected.displaced);
  EXPECT_EQ(patch->boundaries, expected.boundaries);
}

void expect_refusal(const Function& function, uint64_t offset, Reason reason, uint64_t where) {
  const auto patch = function.plan(offset);
  ASSERT_FALSE(patch) << "planned: " << name(patch->tactic);
  EXPECT_EQ(name(patch.error().reason), name(reason));
  EXPECT_EQ(patch.error().where, at(where));
}

// --- nop

TEST(PlanNop, TakesTheFiveByteNopOfATracepoint) {
  expect_patch(Function(joined({kNop5, kRet})), 0, {Tactic::nop, "jj jj jj jj jj c3", kNop5, {}});
}

TEST(PlanNop, TakesALongerNopAndLeavesItsTail) {
  expect_patch(Function(joined({kNop9, kRet})), 0,
               {Tactic::nop, "jj jj jj jj jj 00 00 00 00 c3", kNop9, {}});
}

TEST(PlanNop, TakesThePatchableEntryOfFiveOneByteNops) {
  // -fpatchable-function-entry=5; a thread may be between any two of them
  expect_patch(Function(joined({repeated(0x90, 5), kRet})), 0,
               {Tactic::nop, "jj jj jj jj jj c3", repeated(0x90, 5), {1, 2, 3, 4}});
}

TEST(PlanNop, TakesShorterNopsTogether) {
  // xchg %ax,%ax; nopl (%rax)
  const Bytes nops = {0x66, 0x90, 0x0f, 0x1f, 0x00};
  expect_patch(Function(joined({nops, kRet})), 0, {Tactic::nop, "jj jj jj jj jj c3", nops, {2}});
}

TEST(PlanNop, MayBeInTheMiddleOfAFunction) {
  expect_patch(Function(joined({kPushRbp, kNop5, kRet})), 1,
               {Tactic::nop, "55 jj jj jj jj jj c3", kNop5, {}});
}

// Computed jumps do not lead into them, but what is known to be a branch target is one.
TEST(PlanNop, TakesTheRoomOfACompilerWhereComputedJumpsAreNotUnderstood) {
  const Bytes nops = repeated(0x90, 5);
  expect_patch(Function(joined({nops, kRet})).unresolved().room(0, 5), 0,
               {Tactic::nop, "jj jj jj jj jj c3", nops, {1, 2, 3, 4}});
  expect_refusal(Function(joined({nops, kRet})).unresolved().room(0, 4), 0, Reason::indirect_jumps,
                 0);
  expect_refusal(Function(joined({nops, kRet})).room(0, 5).branch_to(2), 0, Reason::branch_inside,
                 0);
}

// A jump over nops.
TEST(PlanNop, TakesAnXRaySled) {
  const Bytes jump = {0xeb, 0x09};
  expect_patch(Function(joined({jump, kNop9, kRet})).unresolved().room(0, 11), 0,
               {Tactic::nop, "jj jj jj jj jj 84 00 00 00 00 00 c3", jump, {}});
}

TEST(PlanNop, WithAnotherInstructionIsAWindow) {
  // nopl 0(%rax); push %rbp
  const Bytes bytes = {0x0f, 0x1f, 0x40, 0x00, 0x55};
  expect_patch(Function(joined({bytes, kRet})), 0,
               {Tactic::window, "jj jj jj jj jj c3", bytes, {4}});
}

// --- A prefix before the jump, at the start of a function

Patch prefixed(const Function& function, uint64_t offset = 0) {
  const auto patch = function.plan(offset);
  EXPECT_TRUE(patch);
  if (!patch) return {};
  return with_prefix(function.code(), *patch).value_or(*patch);
}

TEST(Prefix, TakesTheNextByteOfAWindow) {
  const Function function(joined({kPushRbp, kMovRspRbp, kSub16, kRet}));
  const Patch patch = prefixed(function);
  EXPECT_EQ(patch.written, 6);
  EXPECT_EQ(patch.displaced, 8);
  EXPECT_EQ(function.after({{patch.site, patch.written, "jj"}}), "jj jj jj jj jj jj ec 10 c3");
}

TEST(Prefix, TakesTheNextByteOfOneInstruction) {
  // sub $0x88,%rsp
  const Function function(joined({{0x48, 0x81, 0xec, 0x88, 0, 0, 0}, kRet}));
  EXPECT_EQ(prefixed(function).written, 6);
  EXPECT_EQ(prefixed(function).displaced, 7);
}

TEST(Prefix, TakesThePaddingAfterAFunction) {
  EXPECT_EQ(prefixed(Function(kRet, repeated(0x90, 6))).written, 6);
  EXPECT_EQ(prefixed(Function(kRet, repeated(0x90, 4))).written, 5);
}

TEST(Prefix, TakesOneMoreInstructionOfAWindow) {
  // push %rbp; sub $16,%rsp; push %rbp
  const Function function(joined({kPushRbp, kSub16, kPushRbp, kRet}));
  const Patch patch = prefixed(function);
  EXPECT_EQ(patch.written, 6);
  EXPECT_EQ(patch.displaced, 6);
  EXPECT_THAT(patch.boundaries, ElementsAre(1, 5));
}

TEST(Prefix, LeavesACallOrASystemCallInPlace) {
  const Bytes call_rax = {0xff, 0xd0}, system_call = {0x0f, 0x05};
  for (const Bytes& next : {call_rax, system_call}) {
    const Patch patch = prefixed(Function(joined({kPushRbp, kSub16, next, kRet})));
    EXPECT_EQ(patch.written, 5);
    EXPECT_EQ(patch.displaced, 5);
  }
}

TEST(Prefix, DoesNotTurnOneInstructionIntoAWindow) {
  EXPECT_EQ(prefixed(Function(joined({kMov5, kPushRbp, kRet}))).written, 5);
}

TEST(Prefix, DoesNotLieUnderABranchTarget) {
  EXPECT_EQ(prefixed(Function(joined({kPushRbp, kSub16, kPushRbp, kRet})).branch_to(5)).written, 5);
}

TEST(Prefix, IsOnlyForTheStartOfAFunction) {
  EXPECT_EQ(prefixed(Function(joined({kRet, kPushRbp, kMovRspRbp, kSub16, kRet})), 1).written, 5);
  EXPECT_EQ(prefixed(Function(joined({kEndbr64, kPushRbp, kMovRspRbp, kSub16, kRet}))).written, 5);
}

// --- insn

TEST(PlanInsn, TakesAnInstructionOfFiveBytes) {
  expect_patch(Function(joined({kMov5, kRet})), 0, {Tactic::insn, "jj jj jj jj jj c3", kMov5, {}});
}

TEST(PlanInsn, LeavesTheTailOfALongerInstruction) {
  // sub $0x88,%rsp
  const Bytes sub = {0x48, 0x81, 0xec, 0x88, 0, 0, 0};
  expect_patch(Function(joined({sub, kRet})), 0,
               {Tactic::insn, "jj jj jj jj jj 00 00 c3", sub, {}});
}

TEST(PlanInsn, TakesTheLongestInstructionThereIs) {
  // lock addq $0x11223344,%fs:0x55667788(%rax,%rax), with prefixes that do not change it: 15 bytes
  const Bytes longest = {0x2e, 0x64, 0xf0, 0x48, 0x81, 0x84, 0x00, 0x88,
                         0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  const auto patch = Function(joined({longest, kRet})).plan();
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->displaced, 15);
  EXPECT_EQ(name(patch->tactic), name(Tactic::insn));
}

TEST(PlanInsn, NeedsNoKnowledgeOfControlFlow) {
  expect_patch(Function(joined({kMov5, kRet})).unresolved(), 0,
               {Tactic::insn, "jj jj jj jj jj c3", kMov5, {}});
  expect_patch(Function(joined({kNop5, kRet})).unresolved(), 0,
               {Tactic::nop, "jj jj jj jj jj c3", kNop5, {}});
}

TEST(PlanInsn, TakesAJumpOrAReturnThatIsLongEnough) {
  // jmp .+5+0x100, as in a function that is only a tail call
  const Bytes jump = {0xe9, 0x00, 0x01, 0, 0};
  expect_patch(Function(jump), 0, {Tactic::insn, "jj jj jj jj jj", jump, {}});
}

TEST(PlanInsn, EndsWithTheSegment) {
  // Nothing follows the function, and nothing is read there.
  expect_patch(Function(joined({kPushRbp, kMov5})), 1,
               {Tactic::insn, "55 jj jj jj jj jj", kMov5, {}});
}

// --- window

TEST(PlanWindow, TakesAsManyWholeInstructionsAsTheJumpTouches) {
  const Bytes prologue = joined({kPushRbp, kMovRspRbp, kSub16});
  expect_patch(Function(joined({prologue, kRet})), 0,
               {Tactic::window, "jj jj jj jj jj 83 ec 10 c3", prologue, {1, 4}});
}

TEST(PlanWindow, StopsWhereTheJumpEnds) {
  const Bytes two = joined({kPushRbp, kSub16});
  expect_patch(Function(joined({two, kMovRspRbp, kRet})), 0,
               {Tactic::window, "jj jj jj jj jj 48 89 e5 c3", two, {1}});
}

TEST(PlanWindow, MayContainRelativeBranchesAndOperands) {
  // test %edi,%edi; je .+2+0x40; mov 0x10(%rip),%eax
  const Bytes window = {0x85, 0xff, 0x74, 0x40, 0x8b, 0x05, 0x10, 0, 0, 0};
  expect_patch(Function(joined({window, kRet})), 0,
               {Tactic::window, "jj jj jj jj jj 05 10 00 00 00 c3", window, {2, 4}});
}

TEST(PlanWindow, MayEndWithACallWhichReturnsAfterTheJump) {
  // sub $8,%rsp; call .+5+0x100
  const Bytes window = {0x48, 0x83, 0xec, 0x08, 0xe8, 0x00, 0x01, 0, 0};
  expect_patch(Function(joined({window, kRet})), 0,
               {Tactic::window, "jj jj jj jj jj 00 01 00 00 c3", window, {4}});
  // push %rbx; call *8(%r12): returns right after the last byte of the jump
  const Bytes exact = {0x53, 0x41, 0xff, 0x54, 0x24, 0x08};
  expect_patch(Function(joined({exact, kRet})), 0,
               {Tactic::window, "jj jj jj jj jj 08 c3", exact, {1}});
  // mov %rdi,%rbx; call *%rax
  const Bytes at_the_edge = {0x48, 0x89, 0xfb, 0xff, 0xd0};
  expect_patch(Function(joined({at_the_edge, kRet})), 0,
               {Tactic::window, "jj jj jj jj jj c3", at_the_edge, {3}});
}

TEST(PlanWindow, MayEndTheFunction) {
  // mov %rdi,%rax; pop %rbx; ret: 5 bytes, and nothing after them
  const Bytes code = {0x48, 0x89, 0xf8, 0x5b, 0xc3};
  expect_patch(Function(code), 0, {Tactic::window, "jj jj jj jj jj", code, {3, 4}});
  // xor %eax,%eax; jmp .+5+0x100
  const Bytes tail_call = {0x31, 0xc0, 0xe9, 0x00, 0x01, 0, 0};
  expect_patch(Function(tail_call), 0, {Tactic::window, "jj jj jj jj jj 00 00", tail_call, {2}});
}

TEST(PlanWindow, MayBeEnteredAtItsStartAndAfterItsEnd) {
  const Bytes window = joined({kPushRbp, kSub16});
  expect_patch(Function(joined({window, kRet})).branch_to(0).branch_to(5), 0,
               {Tactic::window, "jj jj jj jj jj c3", window, {1}});
}

TEST(PlanWindow, InTheMiddleOfAFunctionIgnoresBranchesBeforeIt) {
  expect_patch(Function(joined({kXorEax, kPushRbp, kSub16, kRet})).branch_to(1), 2,
               {Tactic::window, "31 c0 jj jj jj jj jj c3", joined({kPushRbp, kSub16}), {1}});
}

// --- pad

TEST(PlanPad, TakesTheNopThatAlignsTheNextFunction) {
  // xor %eax,%eax; ret | nopl 0L(%rax)
  expect_patch(Function(joined({kXorEax, kRet}), {0x0f, 0x1f, 0x80, 0, 0, 0, 0}), 0,
               {Tactic::pad, "jj jj jj jj jj 80 00 00 00 00", joined({kXorEax, kRet}), {2}});
}

TEST(PlanPad, TakesInt3) {
  // filler of MSVC, lld and hardened compilers
  expect_patch(Function(joined({kXorEax, kRet}), repeated(0xcc, 13)), 0,
               {Tactic::pad,
                "jj jj jj jj jj cc cc cc cc cc cc cc cc cc cc cc",
                joined({kXorEax, kRet}),
                {2}});
}

TEST(PlanPad, TakesZerosBetweenFunctions) {
  expect_patch(Function(joined({kXorEax, kRet}), repeated(0, 13)), 0,
               {Tactic::pad,
                "jj jj jj jj jj 00 00 00 00 00 00 00 00 00 00 00",
                joined({kXorEax, kRet}),
                {2}});
}

// A constant of the function after it, which begins with zeros.
TEST(PlanPad, LeavesZerosAloneThatOtherBytesFollow) {
  auto data = repeated(0, 13);
  data.back() = 1;
  expect_refusal(Function(joined({kXorEax, kRet}), data), 0, Reason::too_short, 3);
}

TEST(PlanPad, TakesPaddingOfSeveralKinds) {
  // ret | nop; int3; xchg %ax,%ax
  expect_patch(Function(kRet, {0x90, 0xcc, 0x66, 0x90}), 0,
               {Tactic::pad, "jj jj jj jj jj", kRet, {}});
}

TEST(PlanPad, TakesPaddingInsideTheFunction) {
  // xor %eax,%eax; ret; nopw 0L(%rax,%rax); push %rbp; ...
  expect_patch(Function(joined({kXorEax, kRet, kNop9, kPushRbp, kSub16, kRet})), 0,
               {Tactic::pad,
                "jj jj jj jj jj 1f 84 00 00 00 00 00 55 48 83 ec 10 c3",
                joined({kXorEax, kRet}),
                {2}});
}

TEST(PlanPad, TakesPaddingThatStartsInsideAndContinuesAfterTheFunction) {
  // ret; nop: the size of the symbol includes the nop
  expect_patch(Function({0xc3, 0x90}, repeated(0, 6)), 0,
               {Tactic::pad, "jj jj jj jj jj 00 00 00", kRet, {}});
}

TEST(PlanPad, FollowsAnyInstructionThatDoesNotFallThrough) {
  const Bytes padding = repeated(0x90, 8);
  const Bytes kLast[] = {
      {0xeb, 0x40},        // jmp .+2+0x40
      {0xff, 0xe0},        // jmp *%rax
      {0xff, 0x23},        // jmp *(%rbx)
      {0xc2, 0x08, 0x00},  // ret $8
      {0xf3, 0xc3},        // repz ret
  };
  for (const Bytes& last : kLast) {
    const auto patch = Function(last, padding).plan();
    ASSERT_TRUE(patch);
    EXPECT_EQ(name(patch->tactic), name(Tactic::pad));
    EXPECT_EQ(patch->displaced, last.size());
    EXPECT_THAT(patch->boundaries, IsEmpty());
  }
}

TEST(PlanPad, KeepsTheOverwrittenPaddingToRestoreIt) {
  const auto patch = Function(kRet, {0x90, 0xcc, 0x66, 0x90, 0x0f}).plan();
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->displaced, 1);
  EXPECT_EQ(Bytes(patch->original.begin(), patch->original.begin() + patch->written),
            (Bytes{0xc3, 0x90, 0xcc, 0x66, 0x90}));
}

TEST(PlanPad, IsEnoughIfItReachesTheNextFunction) {
  expect_patch(Function(joined({kXorEax, kRet}), repeated(0x90, 2)), 0,
               {Tactic::pad, "jj jj jj jj jj", joined({kXorEax, kRet}), {2}});
  expect_refusal(Function(joined({kXorEax, kRet}), repeated(0x90, 1)), 0, Reason::too_short, 3);
}

TEST(PlanPad, IsNotTakenIfSomethingBranchesIntoIt) {
  for (uint64_t offset : {3, 4})
    expect_refusal(Function(joined({kXorEax, kRet}), repeated(0x90, 13)).branch_to(offset), 0,
                   Reason::branch_inside, 0);
  EXPECT_TRUE(Function(joined({kXorEax, kRet}), repeated(0x90, 13)).branch_to(5).plan());
}

TEST(PlanPad, IsNotTakenAfterAnInstructionThatFallsThrough) {
  // je .+2+0x40 | nops: if not taken, it would run into them
  expect_refusal(Function({0x74, 0x40}, repeated(0x90, 14)), 0, Reason::too_short, 2);
}

TEST(PlanPad, ZerosInsideAFunctionAreInstructions) {
  expect_refusal(Function(joined({kXorEax, kRet, repeated(0, 4)}), repeated(0x90, 9)), 0,
                 Reason::too_short, 3);
}

// --- Entries

TEST(PlanEntry, LiesAfterAnEndbr64WhichStays) {
  const Function function(joined({kEndbr64, kMov5, kRet}));
  EXPECT_EQ(entry_site(function.code()), at(4));
  const Expected expected = {Tactic::insn, "f3 0f 1e fa jj jj jj jj jj c3", kMov5, {}};
  expect_patch(function, 0, expected);
  expect_patch(function, 4, expected);
}

TEST(PlanEntry, IsTheStartWithoutAnEndbr64) {
  EXPECT_EQ(entry_site(Function(joined({kMov5, kRet})).code()), at(0));
  EXPECT_EQ(entry_site(Function({0xf3, 0x0f, 0x1e, 0xfb, 0xc3}).code()), at(0));  // endbr32
  EXPECT_EQ(entry_site(Function({0x06}).code()), at(0));                          // no instruction
}

TEST(PlanEntry, IsTheStartOfAFunctionThatIsOnlyAnEndbr64) {
  const Function function(kEndbr64, kMov5);
  EXPECT_EQ(entry_site(function.code()), at(0));
  expect_refusal(function, 0, Reason::too_short, 4);
}

TEST(PlanEntry, AfterAnEndbr64MayBePaddedToo) {
  expect_patch(Function(joined({kEndbr64, kRet}), repeated(0x90, 11)), 0,
               {Tactic::pad, "f3 0f 1e fa jj jj jj jj jj 90 90 90 90 90 90 90", kRet, {}});
}

// --- Refusals

TEST(PlanRefusal, Unreadable) {
  expect_refusal(Function(kMov5).readable(0), 0, Reason::unreadable, 0);
}

TEST(PlanRefusal, UndecodableAtTheSiteOrBeforeIt) {
  const Bytes none = {0x06};
  expect_refusal(Function(joined({none, kMov5})), 0, Reason::undecodable, 0);
  expect_refusal(Function(joined({none, kMov5})), 1, Reason::undecodable, 0);
  expect_refusal(Function(joined({kPushRbp, none, kMov5})), 0, Reason::undecodable, 1);
  // lock nop: the processor refuses it as well
  expect_refusal(Function({0xf0, 0x90, 0x90, 0x90, 0x90, 0x90}), 0, Reason::undecodable, 0);
  // push %rbp; lock mov %eax,(%rax)
  expect_refusal(Function({0x55, 0xf0, 0x89, 0x00, 0x90, 0x90}), 0, Reason::undecodable, 1);
}

TEST(PlanRefusal, UndecodableAtTheEndOfTheReadableBytes) {
  expect_refusal(Function(joined({kPushRbp, kMov5, kRet})).readable(4), 1, Reason::undecodable, 1);
  expect_refusal(Function(joined({kMov5, kMov5})).readable(5), 5, Reason::undecodable, 5);
}

TEST(PlanRefusal, UndecodableIfTheFunctionsEndCutsTheInstruction) {
  // The symbol says 3 bytes, the instruction has 5.
  expect_refusal(Function({0xb8, 0x2a, 0x00}, {0x00, 0x00, 0xc3}), 0, Reason::undecodable, 0);
}

TEST(PlanRefusal, MidInstruction) {
  const Function function(joined({kPushRbp, kMov5, kRet}));
  for (uint64_t offset : {2, 3, 4, 5})
    expect_refusal(function, offset, Reason::mid_instruction, offset);
  EXPECT_TRUE(function.plan(1));
}

TEST(PlanRefusal, InsideAnEndbr64) {
  expect_refusal(Function(joined({kEndbr64, kMov5})), 2, Reason::mid_instruction, 2);
}

TEST(PlanRefusal, Outside) {
  const Function function(joined({kMov5, kRet}), repeated(0x90, 10));
  EXPECT_EQ(plan_site(function.code(), kBegin - 1).error().reason, Reason::outside);
  expect_refusal(function, 6, Reason::outside, 6);    // the padding is not part of the function
  expect_refusal(function, 16, Reason::outside, 16);  // nor is the next one
  EXPECT_EQ(plan_site(function.code(), 0).error().reason, Reason::outside);
}

TEST(PlanRefusal, ForeignBreakpoint) {
  // A debugger's int3 over push %rbp; the bytes in memory are decisive.
  expect_refusal(Function(joined({{0xcc}, kMovRspRbp, kSub16, kRet})), 0,
                 Reason::foreign_breakpoint, 0);
  expect_refusal(Function(joined({kPushRbp, {0xcc}, kMov5, kRet})), 0, Reason::foreign_breakpoint,
                 1);
  // After the window it does not matter.
  EXPECT_TRUE(Function(joined({kMov5, {0xcc}})).plan());
}

TEST(PlanRefusal, Privileged) {
  const Bytes hlt = {0xf4};
  expect_refusal(Function(joined({hlt, kMov5})), 0, Reason::privileged, 0);
  expect_refusal(Function(joined({kXorEax, hlt, kMov5})), 0, Reason::privileged, 2);
  // in (%dx),%al
  expect_refusal(Function(joined({kXorEax, {0xec}, kMov5})), 0, Reason::privileged, 2);
}

TEST(PlanRefusal, Inexact) {
  const Bytes ud2 = {0x0f, 0x0b};
  expect_refusal(Function(joined({ud2, kMov5})), 0, Reason::inexact, 0);
  expect_refusal(Function(joined({kXorEax, ud2}), repeated(0x90, 12)), 0, Reason::inexact, 2);
  // int $0x80
  expect_refusal(Function(joined({kMovRspRbp, {0xcd, 0x80}, kRet})), 0, Reason::inexact, 3);
  // lea 4(%eip),%rax
  expect_refusal(Function({0x67, 0x48, 0x8d, 0x05, 0x04, 0, 0, 0, 0xc3}), 0, Reason::inexact, 0);
}

TEST(PlanRefusal, BranchInside) {
  const Bytes prologue = joined({kPushRbp, kMovRspRbp, kSub16});
  for (uint64_t offset : {1, 4})
    expect_refusal(Function(joined({prologue, kRet})).branch_to(offset), 0, Reason::branch_inside,
                   0);
}

TEST(PlanRefusal, BranchIntoTheTailOfDisplacedInstructions) {
  // Offsets 5 to 7 are not overwritten, but are inside an instruction: a branch that enters there
  // executes other instructions than those that were decoded.
  const Bytes prologue = joined({kPushRbp, kMovRspRbp, kSub16});
  for (uint64_t offset : {5, 7})
    expect_refusal(Function(joined({prologue, kRet})).branch_to(offset), 0, Reason::branch_inside,
                   0);
}

TEST(PlanRefusal, BranchIntoASingleInstruction) {
  // lock cmpxchg %rdx,0(%rdi): single-threaded callers jump over the prefix, as glibc's did
  const Bytes cmpxchg = {0xf0, 0x48, 0x0f, 0xb1, 0x57, 0x00};
  EXPECT_TRUE(Function(joined({cmpxchg, kRet})).plan());
  expect_refusal(Function(joined({cmpxchg, kRet})).branch_to(1), 0, Reason::branch_inside, 0);
  expect_refusal(Function(joined({kNop9, kRet})).branch_to(4), 0, Reason::branch_inside, 0);
  EXPECT_TRUE(Function(joined({kNop9, kRet})).branch_to(5).plan()) << "that stays as it is";
}

TEST(PlanRefusal, CallInside) {
  // call *%rax; xor %eax,%eax; ret: the call would return into the jump
  expect_refusal(Function({0xff, 0xd0, 0x31, 0xc0, 0xc3}), 0, Reason::call_inside, 2);
  // xor %eax,%eax; call *%rax; ...
  expect_refusal(Function(joined({kXorEax, {0xff, 0xd0}, kMov5, kRet})), 0, Reason::call_inside, 4);
}

TEST(PlanRefusal, CallInsideEvenIfOnlyPaddingFollows) {
  // A call that never returns; but a thread may be in it, and the planner cannot know that.
  expect_refusal(Function({0xff, 0xd0}, repeated(0x90, 14)), 0, Reason::call_inside, 2);
}

TEST(PlanRefusal, NotForACallThatIsLongEnoughToReturnAfterTheJump) {
  const Bytes call = {0xe8, 0x00, 0x01, 0, 0};
  expect_patch(Function(joined({call, kRet})), 0, {Tactic::insn, "jj jj jj jj jj c3", call, {}});
  // The last instruction of a function, whose callee does not return.
  expect_patch(Function(joined({kPushRbp, call})), 1,
               {Tactic::insn, "55 jj jj jj jj jj", call, {}});
}

TEST(PlanRefusal, TooShortIfTheNextFunctionFollows) {
  expect_refusal(Function(joined({kXorEax, kRet})), 0, Reason::too_short, 3);
  expect_refusal(Function(joined({kXorEax, kRet}), {0x90}), 0, Reason::too_short, 3);
  // What follows is code without a symbol.
  expect_refusal(Function(joined({kXorEax, kRet}), kSub16), 0, Reason::too_short, 3);
  // The function falls into what follows it.
  expect_refusal(Function(kPushRbp, joined({kSub16, kRet})), 0, Reason::too_short, 1);
  // The end of the function cuts its last instruction.
  expect_refusal(Function({0x55, 0x48, 0x83}, {0xec, 0x10, 0xc3}), 0, Reason::too_short, 1);
}

TEST(PlanRefusal, TooShortBeforeOtherCodeOfTheSameFunction) {
  // xor %eax,%eax; ret; push %rbp: the other branch starts right after it
  expect_refusal(Function(joined({kXorEax, kRet, kPushRbp, kSub16, kRet})), 0, Reason::too_short,
                 3);
}

TEST(PlanRefusal, IndirectJumpsThatMayLeadAnywhereInTheFunction) {
  const Bytes prologue = joined({kPushRbp, kMovRspRbp, kSub16});
  expect_refusal(Function(joined({prologue, kRet})).unresolved(), 0, Reason::indirect_jumps, 0);
  expect_refusal(Function(joined({kXorEax, kRet}), repeated(0x90, 13)).unresolved(), 0,
                 Reason::indirect_jumps, 0);
  expect_refusal(Function(joined({repeated(0x90, 5), kRet})).unresolved(), 0,
                 Reason::indirect_jumps, 0);
}

TEST(PlanRefusal, Reserved) {
  const Function whole(joined({kMov5, kMov5, kMov5, kRet}));
  EXPECT_TRUE(Function(whole).reserve(10, 15).plan(5));
  EXPECT_TRUE(Function(whole).reserve(0, 5).plan(5));
  expect_refusal(Function(whole).reserve(9, 12), 5, Reason::reserved, 9);
  expect_refusal(Function(whole).reserve(3, 6), 5, Reason::reserved, 3);
  expect_refusal(Function(whole).reserve(6, 7), 5, Reason::reserved, 6);
}

TEST(PlanRefusal, ReservedInTheDisplacedTailOrInThePadding) {
  const Bytes prologue = joined({kPushRbp, kMovRspRbp, kSub16});
  expect_refusal(Function(joined({prologue, kRet})).reserve(7, 8), 0, Reason::reserved, 7);
  EXPECT_TRUE(Function(joined({prologue, kRet})).reserve(8, 9).plan());
  // The signature before the abort address of a restartable sequence, after a short function.
  expect_refusal(Function(joined({kXorEax, kRet}), repeated(0x90, 5)).reserve(4, 8), 0,
                 Reason::reserved, 4);
}

TEST(PlanRefusal, ReservedForTheSignalRestorer) {
  // mov $15,%rax; syscall: unwinders and debuggers know the frame of a signal by these bytes
  const Bytes restorer = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  expect_refusal(Function(restorer), 0, Reason::reserved, 0);
  expect_refusal(Function(restorer), 7, Reason::reserved, 7);
}

TEST(PlanRefusal, InManagedCodeForAllThatMayFaultOrCall) {
  const Bytes load = {0x48, 0x8b, 0x47, 0x08};  // mov 8(%rdi),%rax
  const Bytes divide = {0xf7, 0xfe}, call = {0xe8, 0, 0, 0, 0};
  const Bytes prologue = joined({kPushRbp, kSub16, kRet});
  for (const Bytes& first : {load, divide, call}) {
    const Bytes code = joined({first, prologue, kNop9});
    EXPECT_TRUE(Function(code).plan());
    expect_refusal(Function(code).managed(), 0, Reason::runtime_reads_code, 0);
  }
  expect_refusal(Function(joined({kPushRbp, load, kRet})).managed(), 0, Reason::runtime_reads_code,
                 1);
}

TEST(PlanRefusal, AmongTablesEverywhereButAtTheStart) {
  const Bytes code = joined({kPushRbp, kSub16, kMov5, kXorEax, kRet});
  const Function function = Function(code).with_tables();
  EXPECT_TRUE(function.plan());
  expect_refusal(function, 5, Reason::tables_inside, 5);
  const auto plan = function.plan_all({0, 1, 5, 10});
  ASSERT_EQ(plan.patches.size(), 1u);
  EXPECT_EQ(plan.patches.front().patch.site, at(0));
}

TEST(PlanRefusal, InManagedCodeEverywhereButAtItsStart) {
  const Function function = Function(joined({kPushRbp, kSub16, kMov5, kXorEax, kRet})).managed();
  EXPECT_TRUE(function.plan());
  expect_refusal(function, 5, Reason::runtime_reads_code, 5);
  const auto plan = function.plan_all({0, 1, 5, 10});
  ASSERT_EQ(plan.patches.size(), 1u);
  EXPECT_EQ(plan.patches.front().patch.site, at(0));
  EXPECT_TRUE(Function(joined({kEndbr64, kPushRbp, kSub16, kRet})).managed().plan());
}

const Bytes kStackCheck = {0x49, 0x3b, 0x66, 0x10, 0x76, 0x28};  // cmp 16(%r14),%rsp; jbe

TEST(PlanRefusal, InGoForAllButTheStackCheck) {
  const Bytes prologue = joined({kPushRbp, kMovRspRbp, kSub16, kRet});
  for (const Bytes& code : {prologue, joined({kMov5, kRet}), joined({kNop5, kRet})}) {
    EXPECT_TRUE(Function(code).plan());
    expect_refusal(Function(code).of_go(), 0, Reason::goroutine, 0);
  }
  const Function checks = Function(joined({kStackCheck, prologue})).of_go();
  expect_patch(checks, 0,
               {Tactic::window, "jj jj jj jj jj 28 55 48 89 e5 48 83 ec 10 c3", kStackCheck, {4}});
  for (uint64_t offset : {4, 6, 7, 10}) EXPECT_FALSE(checks.plan(offset)) << offset;
}

// The flags have the result of the comparison there, and the stub does not preserve them.
TEST(PlanRefusal, InGoInTheMiddleOfTheStackCheck) {
  const Bytes code = joined({kStackCheck, kPushRbp, kMovRspRbp, kSub16, kRet});
  EXPECT_THAT(Function(code).plan_all({0, 4, 6}).patches[0].points, ElementsAre(0, 4, 6));
  const auto plan = Function(code).of_go().plan_all({0, 4, 6});
  ASSERT_EQ(plan.patches.size(), 1u);
  EXPECT_THAT(plan.patches[0].points, ElementsAre(0));
}

// --- The patch

TEST(Patch, ListsTheBoundariesUnderTheJump) {
  // push %rbp; push %rbx; push %rax; push %rcx; sub $16,%rsp: of the last, only the start counts
  const auto patch = Function(joined({{0x55, 0x53, 0x50, 0x51}, kSub16, kRet})).plan();
  ASSERT_TRUE(patch);
  EXPECT_THAT(patch->boundaries, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(patch->displaced, 8);
}

TEST(Patch, IsTheSameForTheEntryAndItsSite) {
  const Function function(joined({kEndbr64, kPushRbp, kSub16, kRet}));
  const auto from_start = function.plan(0), from_site = function.plan(4);
  ASSERT_TRUE(from_start && from_site);
  EXPECT_EQ(from_start->site, at(4));
  EXPECT_EQ(from_site->site, at(4));
  EXPECT_EQ(from_start->original, from_site->original);
  EXPECT_EQ(from_start->boundaries, from_site->boundaries);
}

}  // namespace
}  // namespace pinprick::plan
