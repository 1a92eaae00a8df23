// Several probes in one function: bytes before, and after the jumps are written. `jj` is a jump of
// five bytes, `ss` a short jump, `bb` a trampoline.
#include "plan/function_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bytes.h"
#include "plan/annotated_function.h"

namespace pinprick::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Bytes kPush = {0x50};                          // push %rax
const Bytes kCallRax = {0xff, 0xd0};                 // call *%rax
const Bytes kNop7 = {0x0f, 0x1f, 0x80, 0, 0, 0, 0};  // nopl 0L(%rax)
const Bytes kTen = joined({kSub16, kPushRbp, kMovRspRbp, kXorEax});

struct Expected {
  uint64_t site;
  Tactic tactic;
  unsigned displaced;
  std::vector<uint8_t> points;
};

std::string after(const Function& function, const FunctionPlan& plan) {
  std::vector<Mark> marks;
  for (const PlannedPatch& planned : plan.patches) {
    const bool is_short = planned.trampoline.has_value();
    marks.push_back({planned.patch.site, planned.patch.written, is_short ? "ss" : "jj"});
    EXPECT_EQ(planned.patch.written, is_short ? 2 : 5);
    if (is_short) marks.push_back({planned.trampoline->address, 5, "bb"});
  }
  return function.after(marks);
}

void expect_patches(const FunctionPlan& plan, const std::vector<Expected>& expected) {
  ASSERT_EQ(plan.patches.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    const PlannedPatch& planned = plan.patches[i];
    EXPECT_EQ(planned.patch.site - kBegin, expected[i].site);
    EXPECT_EQ(name(planned.patch.tactic), name(expected[i].tactic));
    EXPECT_EQ(planned.patch.displaced, expected[i].displaced);
    EXPECT_EQ(planned.points, expected[i].points);
  }
}

// Expects a plan in which all sites are probed.
void expect_plan(const Function& function, const std::vector<uint64_t>& sites,
                 const std::string& bytes_after, const std::vector<Expected>& expected) {
  const FunctionPlan plan = function.plan_all(sites);
  EXPECT_EQ(after(function, plan), bytes_after);
  for (const auto& [site, refusal] : plan.refused)
    ADD_FAILURE() << site - kBegin << ": " << name(refusal.reason);
  expect_patches(plan, expected);
}

// Expects that all sites are refused, and nothing is written for them.
void expect_refused(const Function& function, const std::vector<uint64_t>& sites, Reason reason,
                    uint64_t where, Placing placing = Placing::anywhere) {
  const FunctionPlan plan = function.plan_all(sites, placing);
  EXPECT_THAT(plan.patches, IsEmpty());
  ASSERT_EQ(plan.refused.size(), sites.size());
  for (size_t i = 0; i < sites.size(); ++i) {
    EXPECT_EQ(plan.refused[i].first, at(sites[i]));
    EXPECT_EQ(name(plan.refused[i].second.reason), name(reason));
    EXPECT_EQ(plan.refused[i].second.where, at(where));
  }
}

// --- A single probe is planned as by plan_site

TEST(FunctionPlan, OfOneSiteThatHoldsAJumpIsThatOfThePlanner) {
  expect_plan(Function(joined({kMov5, kRet})), {0}, "jj jj jj jj jj c3",
              {{0, Tactic::insn, 5, {0}}});
  expect_plan(Function(kRet, repeated(0x90, 5)), {0}, "jj jj jj jj jj 90",
              {{0, Tactic::pad, 1, {0}}});
}

TEST(FunctionPlan, OfTheEntryLiesAfterAnEndbr64ByBothOfItsAddresses) {
  const Function function(joined({kEndbr64, kMov5, kRet}));
  for (const std::vector<uint64_t>& sites : {std::vector<uint64_t>{0}, {4}, {0, 4}})
    expect_plan(function, sites, "f3 0f 1e fa jj jj jj jj jj c3", {{4, Tactic::insn, 5, {0}}});
}

TEST(FunctionPlan, OfNothingIsEmpty) {
  expect_plan(Function(kMov5), {}, "b8 2a 00 00 00", {});
}

// --- Sharing a window

TEST(Share, ProbesTheInstructionsOfAWindowInItsStub) {
  expect_plan(Function(joined({kPushRbp, kMovRspRbp, kSub16, kRet})), {0, 1, 4},
              "jj jj jj jj jj 83 ec 10 c3", {{0, Tactic::window, 8, {0, 1, 4}}});
}

TEST(Share, CountsOnlyTheProbedInstructions) {
  expect_plan(Function(joined({kPushRbp, kMovRspRbp, kSub16, kRet})), {0, 4},
              "jj jj jj jj jj 83 ec 10 c3", {{0, Tactic::window, 8, {0, 4}}});
}

TEST(Share, MakesTheInstructionAfterAWindowAPartOfIt) {
  // mov $42,%eax; xor %eax,%eax; push %rbp; ret: each would have its own jump if there were room
  expect_plan(Function(joined({kMov5, kXorEax, kPushRbp, kRet})), {0, 5, 7},
              "jj jj jj jj jj 31 c0 55 c3", {{0, Tactic::window, 8, {0, 5, 7}}});
}

TEST(Share, NotAcrossAnInstructionThatIsNotProbed) {
  expect_plan(Function(joined({kMov5, kPushRbp, kMov5, kRet})), {0, 6},
              "jj jj jj jj jj 55 jj jj jj jj jj c3",
              {{0, Tactic::insn, 5, {0}}, {6, Tactic::insn, 5, {0}}});
}

TEST(Share, NotAfterABranchTarget) {
  expect_plan(Function(joined({kMov5, kMov5, kRet})).branch_to(5), {0, 5},
              "jj jj jj jj jj jj jj jj jj jj c3",
              {{0, Tactic::insn, 5, {0}}, {5, Tactic::insn, 5, {0}}});
}

TEST(Share, ACallEndsTheWindow) {
  // push %rbp; sub $16,%rsp; call *%rax; mov $42,%eax; ret
  expect_plan(Function(joined({kPushRbp, kSub16, kCallRax, kMov5, kRet})), {0, 1, 5, 7},
              "jj jj jj jj jj ff d0 jj jj jj jj jj c3",
              {{0, Tactic::window, 7, {0, 1, 5}}, {7, Tactic::insn, 5, {0}}});
}

TEST(Share, AConditionalJumpDoesNotEndTheWindow) {
  // mov $42,%eax; je .+2+0x40; push %rbp
  expect_plan(Function(joined({kMov5, {0x74, 0x40}, kPushRbp, kRet})), {0, 5, 7, 8},
              "jj jj jj jj jj 74 40 55 c3", {{0, Tactic::window, 9, {0, 5, 7, 8}}});
}

TEST(Share, AddsNoProbeToAWindowAfterSixtyFourBytes) {
  Bytes code;
  std::vector<uint64_t> sites;
  for (uint64_t i = 0; i < 15; ++i) {
    sites.push_back(5 * i);
    code = joined({code, kMov5});
  }
  const FunctionPlan plan = Function(joined({code, kRet})).plan_all(sites);
  ASSERT_EQ(plan.patches.size(), 2u);
  EXPECT_EQ(plan.patches[0].points.back(), 60);
  EXPECT_EQ(plan.patches[0].patch.displaced, 65);
  EXPECT_EQ(plan.patches[1].patch.site, at(65));
  EXPECT_THAT(plan.patches[1].points, ElementsAre(0, 5));
}

TEST(Share, NotForReturnProbesWhichMustComeFirst) {
  const Function function(joined({kPushRbp, kMovRspRbp, kSub16, kMov5, kRet}));
  const FunctionPlan plan = function.plan_all({0, 1, 8}, Placing::at_site);
  expect_patches(plan, {{0, Tactic::window, 8, {0}}, {8, Tactic::insn, 5, {0}}});
  ASSERT_EQ(plan.refused.size(), 1u);
  EXPECT_EQ(plan.refused[0].first, at(1));
  EXPECT_EQ(name(plan.refused[0].second.reason), name(Reason::neighbour));
}

TEST(Share, NotWithAnAddressInsideAnInstruction) {
  const FunctionPlan plan =
      Function(joined({kPushRbp, kMovRspRbp, kSub16, kRet})).plan_all({0, 2, 4});
  expect_patches(plan, {{0, Tactic::window, 8, {0, 4}}});
  ASSERT_EQ(plan.refused.size(), 1u);
  EXPECT_EQ(plan.refused[0].first, at(2));
  EXPECT_EQ(name(plan.refused[0].second.reason), name(Reason::mid_instruction));
}

TEST(Share, NotInAFunctionWithUnresolvedJumps) {
  expect_plan(Function(joined({kMov5, kMov5, kRet})).unresolved(), {0, 5},
              "jj jj jj jj jj jj jj jj jj jj c3",
              {{0, Tactic::insn, 5, {0}}, {5, Tactic::insn, 5, {0}}});
}

TEST(Share, ListsEveryBoundaryUnderTheJump) {
  // A thread after the five bytes of the jump does not meet it.
  const auto plan =
      Function(joined({kPushRbp, kMovRspRbp, kSub16, kXorEax, kRet})).plan_all({0, 8});
  ASSERT_EQ(plan.patches.size(), 1u);
  EXPECT_THAT(plan.patches[0].patch.boundaries, ElementsAre(1, 4));
}

// --- Widening backward

TEST(Widen, StartsTheWindowBeforeAnInstructionTooCloseToTheEnd) {
  expect_plan(Function(joined({kXorEax, kSub16, kRet})), {6}, "31 c0 jj jj jj jj jj",
              {{2, Tactic::window, 5, {4}}});
  // As few additional instructions as possible, and as many as necessary.
  expect_plan(Function(joined({kXorEax, kPush, kPush, kPush, kPush, kRet})), {6},
              "31 c0 jj jj jj jj jj", {{2, Tactic::window, 5, {4}}});
}

TEST(Widen, MayStartAtABranchTarget) {
  expect_plan(Function(joined({kXorEax, kSub16, kRet})).branch_to(2), {6}, "31 c0 jj jj jj jj jj",
              {{2, Tactic::window, 5, {4}}});
}

TEST(Widen, NeverOverABranchTarget) {
  const Bytes code = joined({kPush, kPush, kXorEax, kRet});
  expect_plan(Function(code), {4}, "jj jj jj jj jj", {{0, Tactic::window, 5, {4}}});
  for (uint64_t target : {1, 2, 4})
    expect_refused(Function(code).branch_to(target), {4}, Reason::too_short, 5);
}

TEST(Widen, NeverOverACall) {
  expect_refused(Function(joined({kPush, kCallRax, kXorEax, kRet})), {5}, Reason::too_short, 6);
}

TEST(Widen, NeverOverAnInstructionThatDoesNotFallThrough) {
  expect_refused(Function(joined({kPush, kRet, kPush, kXorEax, kRet})), {5}, Reason::too_short, 6);
}

TEST(Widen, NeverOverAnEndbr64) {
  expect_refused(Function(joined({kEndbr64, kRet})), {4}, Reason::too_short, 5);
  // In the middle of a function, where an indirect jump may arrive.
  expect_refused(Function(joined({kMov5, kEndbr64, kRet})), {9}, Reason::too_short, 10);
}

TEST(Widen, NeverIntoAnotherPatch) {
  const FunctionPlan plan = Function(joined({kMov5, kPush, kRet})).plan_all({0, 6});
  expect_patches(plan, {{0, Tactic::insn, 5, {0}}});
  ASSERT_EQ(plan.refused.size(), 1u);
  EXPECT_EQ(plan.refused[0].first, at(6));
  EXPECT_EQ(name(plan.refused[0].second.reason), name(Reason::too_short));
}

TEST(Widen, NeverOverWhatCannotBeMoved) {
  const Bytes ud2 = {0x0f, 0x0b};
  expect_refused(Function(joined({ud2, kXorEax, kRet})), {4}, Reason::too_short, 5);
}

TEST(Widen, NotForReturnProbesWhichMustComeFirst) {
  expect_refused(Function(joined({kXorEax, kSub16, kRet})), {6}, Reason::too_short, 7,
                 Placing::at_site);
}

TEST(Widen, NotInAFunctionWithUnresolvedJumps) {
  expect_refused(Function(joined({kXorEax, kSub16, kRet})).unresolved(), {6}, Reason::too_short, 7);
}

TEST(Widen, LaterSitesOfTheSameWindowShareIt) {
  // The first instruction of push; push; push; xor; ret is not probed.
  expect_plan(Function(joined({kPush, kPush, kPush, kXorEax, kRet})), {3, 5}, "50 jj jj jj jj jj",
              {{1, Tactic::window, 5, {2, 4}}});
}

// --- Hop: a short jump to padding

// xor %eax,%eax | ret, to which something jumps
const Bytes kXorRet = joined({kXorEax, kRet});

TEST(Hop, LeadsToPaddingThatHoldsTheJump) {
  const Function function = Function(kXorRet, kNop7).branch_to(2);
  expect_plan(function, {0}, "ss ss c3 bb bb bb bb bb 00 00", {{0, Tactic::hop, 2, {0}}});
  const auto patch = function.plan_all({0}).patches[0];
  ASSERT_EQ(patch.trampoline->length, 5);
  EXPECT_TRUE(std::equal(kNop7.begin(), kNop7.begin() + 5, patch.trampoline->original.begin()));
  EXPECT_FALSE(patch.depends_on);
  EXPECT_EQ(patch.patch.original, kXorEax);
  EXPECT_THAT(patch.patch.boundaries, IsEmpty());
}

TEST(Hop, MayBeAReturnProbe) {
  const Function function = Function(kXorRet, kNop7).branch_to(2);
  expect_patches(function.plan_all({0}, Placing::at_site), {{0, Tactic::hop, 2, {0}}});
}

TEST(Hop, LeadsToZerosBetweenFunctionsAndToPaddingInsideOne) {
  expect_plan(Function(kXorRet, repeated(0, 5)).branch_to(2), {0}, "ss ss c3 bb bb bb bb bb",
              {{0, Tactic::hop, 2, {0}}});
  expect_plan(Function(joined({kXorRet, kNop7, kXorRet})).branch_to(2).branch_to(10), {0},
              "ss ss c3 bb bb bb bb bb 00 00 31 c0 c3", {{0, Tactic::hop, 2, {0}}});
}

TEST(Hop, ListsTheBoundaryInsideTheTwoBytes) {
  // push %rax; push %rbp; ret: a thread may be between the two
  const Function function =
      Function(joined({kPush, kPushRbp, kRet}), repeated(0xcc, 5)).branch_to(2);
  expect_plan(function, {0, 1}, "ss ss c3 bb bb bb bb bb", {{0, Tactic::hop, 2, {0, 1}}});
  EXPECT_THAT(function.plan_all({0, 1}).patches[0].patch.boundaries, ElementsAre(1));
}

TEST(Hop, DisplacesTheNextInstructionIfThatHasNoRoomOfItsOwn) {
  const Function function = Function(joined({kXorRet, kXorRet}), kNop7).branch_to(3);
  expect_plan(function, {0, 2}, "ss ss c3 31 c0 c3 bb bb bb bb bb 00 00",
              {{0, Tactic::hop, 3, {0, 2}}});
  EXPECT_THAT(function.plan_all({0, 2}).patches[0].patch.boundaries, IsEmpty());
  // Not if a branch leads to that instruction.
  Function entered = Function(joined({kXorRet, kXorRet}), kNop7).branch_to(2).branch_to(3);
  const FunctionPlan plan = entered.plan_all({0, 2});
  expect_patches(plan, {{0, Tactic::hop, 2, {0}}});
  ASSERT_EQ(plan.refused.size(), 1u);
  EXPECT_EQ(plan.refused[0].first, at(2));
}

TEST(Hop, MayStartBeforeTheSite) {
  const Function function =
      Function(joined({kPush, kPushRbp, kRet}), repeated(0xcc, 5)).branch_to(2);
  expect_plan(function, {1}, "ss ss c3 bb bb bb bb bb", {{0, Tactic::hop, 2, {1}}});
}

TEST(Hop, NotToPaddingThatSomethingLeadsInto) {
  for (uint64_t target : {3, 5, 7})
    expect_refused(Function(kXorRet, kNop7).branch_to(2).branch_to(target), {0},
                   Reason::branch_inside, 0);
}

TEST(Hop, NotToPaddingThatExecutionFallsInto) {
  // xor | push %rbp; nop; ret
  expect_refused(Function(joined({kXorEax, kPushRbp, kNop5, kRet})).branch_to(2), {0},
                 Reason::branch_inside, 0);
  // A call may return there.
  expect_refused(Function(joined({kXorEax, kCallRax}), repeated(0x90, 8)).branch_to(2), {0},
                 Reason::call_inside, 4);
}

TEST(Hop, NotToReservedPadding) {
  expect_refused(Function(kXorRet, kNop7).branch_to(2).reserve(4, 8), {0}, Reason::reserved, 4);
  expect_plan(Function(kXorRet, kNop9).branch_to(2).reserve(3, 7), {0},
              "ss ss c3 66 0f 1f 84 bb bb bb bb bb", {{0, Tactic::hop, 2, {0}}});
}

TEST(Hop, NotToTooLittlePadding) {
  expect_refused(Function(kXorRet, repeated(0x90, 4)).branch_to(2), {0}, Reason::branch_inside, 0);
}

TEST(Hop, EachHasATrampolineOfItsOwn) {
  const Bytes two = joined({kXorEax, kXorEax, kRet});
  const auto function = [&](size_t padding) {
    return Function(two, repeated(0x90, padding)).branch_to(2).branch_to(4);
  };
  expect_plan(function(11), {0, 2}, "ss ss ss ss c3 bb bb bb bb bb bb bb bb bb bb 90",
              {{0, Tactic::hop, 2, {0}}, {2, Tactic::hop, 2, {0}}});
  const FunctionPlan plan = function(9).plan_all({0, 2});
  expect_patches(plan, {{0, Tactic::hop, 2, {0}}});
  ASSERT_EQ(plan.refused.size(), 1u);
  EXPECT_EQ(plan.refused[0].first, at(2));
}

TEST(Hop, DoesNotTakeThePaddingOfAnotherProbe) {
  expect_plan(Function(kXorRet, repeated(0x90, 9)).branch_to(2), {0, 2},
              "ss ss jj jj jj jj jj bb bb bb bb bb",
              {{0, Tactic::hop, 2, {0}}, {2, Tactic::pad, 1, {0}}});
}

// Instructions of one byte that are all branch targets: no jump fits.
Bytes crowd(size_t size) {
  return repeated(0x50, size);
}
void crowd_targets(Function& function, uint64_t begin, uint64_t end) {
  for (uint64_t offset = begin; offset < end; ++offset) function.branch_to(offset);
}

TEST(Hop, Reaches127BytesAfterIt) {
  const auto function = [](size_t distance) {  // from the end of the short jump to the trampoline
    Function one(joined({kXorEax, crowd(distance - 1), kRet}), repeated(0xcc, 5));
    crowd_targets(one, 2, distance + 2);
    return one;
  };
  const FunctionPlan plan = function(127).plan_all({0});
  ASSERT_EQ(plan.patches.size(), 1u);
  EXPECT_EQ(plan.patches[0].trampoline->address, at(129));
  expect_refused(function(128), {0}, Reason::branch_inside, 0);
}

TEST(Hop, Reaches128BytesBeforeItsEnd) {
  const auto function = [](size_t distance) {  // from the trampoline to the end of the short jump
    Function one(joined({kRet, repeated(0xcc, 5), crowd(distance - 7), kXorRet}));
    crowd_targets(one, 6, distance - 1);
    return one.branch_to(distance + 1);
  };
  const FunctionPlan plan = function(128).plan_all({127});
  ASSERT_EQ(plan.patches.size(), 1u);
  EXPECT_EQ(plan.patches[0].trampoline->address, at(1));
  expect_refused(function(129), {128}, Reason::too_short, 131);
}

// --- Evict: a short jump to where instructions were

TEST(Evict, MakesRoomAfterTheJumpOfAnotherWindow) {
  const Function function = Function(joined({kXorRet, kTen, kRet})).branch_to(2).branch_to(3);
  expect_plan(function, {0}, "ss ss c3 jj jj jj jj jj bb bb bb bb bb c3",
              {{0, Tactic::evict, 2, {0}}, {3, Tactic::window, 10, {}}});
  const FunctionPlan plan = function.plan_all({0});
  EXPECT_EQ(plan.patches[0].depends_on, 1u);
  EXPECT_EQ(plan.patches[1].patch.original, kTen);
  // No thread may be anywhere in the window: there is another jump after its own.
  EXPECT_THAT(plan.patches[1].patch.boundaries, ElementsAre(4, 5, 8));
}

TEST(Evict, UsesAWindowThatHasProbesOfItsOwn) {
  const Function function = Function(joined({kXorRet, kTen, kRet})).branch_to(2).branch_to(3);
  expect_plan(function, {0, 3, 7, 8, 11}, "ss ss c3 jj jj jj jj jj bb bb bb bb bb c3",
              {{0, Tactic::evict, 2, {0}}, {3, Tactic::window, 10, {0, 4, 5, 8}}});
  const FunctionPlan plan = function.plan_all({0, 3, 7, 8, 11});
  EXPECT_EQ(plan.patches[0].depends_on, 1u);
  EXPECT_THAT(plan.patches[1].patch.boundaries, ElementsAre(4, 5, 8));
}

TEST(Evict, OneWindowHasRoomForAsManyAsItsLengthAllows) {
  const Bytes two = joined({kXorEax, kXorEax, kRet});
  const Function function =
      Function(joined({two, kTen, kMov5, kRet})).branch_to(2).branch_to(4).branch_to(5);
  const FunctionPlan plan = function.plan_all({0, 2, 5, 9, 10, 13, 15});
  EXPECT_EQ(after(function, plan),
            "ss ss ss ss c3 jj jj jj jj jj bb bb bb bb bb bb bb bb bb bb c3");
  ASSERT_EQ(plan.patches.size(), 3u);
  EXPECT_EQ(plan.patches[0].depends_on, 2u);
  EXPECT_EQ(plan.patches[1].depends_on, 2u);
  EXPECT_THAT(plan.patches[2].patch.boundaries, ElementsAre(4, 5, 8, 10));
}

TEST(Evict, PrefersPadding) {
  expect_plan(Function(joined({kXorRet, kTen, kRet}), kNop7).branch_to(2).branch_to(3), {0},
              "ss ss c3 48 83 ec 10 55 48 89 e5 31 c0 c3 bb bb bb bb bb 00 00",
              {{0, Tactic::hop, 2, {0}}});
}

TEST(Evict, NotAWindowThatSomethingLeadsInto) {
  for (uint64_t target : {4, 7, 12})
    expect_refused(
        Function(joined({kXorRet, kTen, kRet})).branch_to(2).branch_to(3).branch_to(target), {0},
        Reason::too_short, 3);
}

// movl $0x13121110,0x24232221(%rax,%rcx), of 11 bytes. The tail after its jump is unchanged and may
// be branched into, unless a trampoline is put there.
const Bytes kMov11 = {0xc7, 0x84, 0x08, 0x21, 0x22, 0x23, 0x24, 0x10, 0x11, 0x12, 0x13};

TEST(Evict, NotTheTailOfASingleInstructionThatSomethingLeadsInto) {
  const Function function = Function(joined({kXorRet, kMov11, kRet})).branch_to(2).branch_to(3);
  for (std::vector<uint64_t> sites : {std::vector<uint64_t>{0}, {0, 3}}) {
    EXPECT_EQ(function.plan_all(sites).refused.size(), 0u);
    for (uint64_t target : {9, 12})
      EXPECT_EQ(Function(function).branch_to(target).plan_all(sites).refused.size(), 1u);
  }
}

TEST(Evict, NotAWindowThatWouldStartWithAnEndbr64) {
  expect_refused(
      Function(joined({kXorRet, kEndbr64, kPush, kMov5, kRet})).branch_to(2).branch_to(3), {0},
      Reason::too_short, 3);
}

TEST(Evict, NotAWindowAroundACall) {
  expect_refused(
      Function(joined({kXorRet, kCallRax, kTen, kRet})).branch_to(2).branch_to(3).branch_to(5 + 4),
      {0}, Reason::too_short, 3);
  // If it ends with the call, no call returns into it.
  expect_plan(Function(joined({kXorRet, kSub16, kSub16, kCallRax, kRet})).branch_to(2).branch_to(3),
              {0}, "ss ss c3 jj jj jj jj jj bb bb bb bb bb c3",
              {{0, Tactic::evict, 2, {0}}, {3, Tactic::window, 10, {}}});
}

TEST(Evict, NotWhatMayBeDataAfterAReturn) {
  const Function function = Function(joined({kXorRet, kTen, kRet})).branch_to(2);
  expect_refused(function, {0}, Reason::too_short, 3);
  expect_refused(Function(function).take_address(3), {0}, Reason::too_short, 3);
  EXPECT_TRUE(Function(function).branch_to(3).plan_all({0}).refused.empty());
}

TEST(Evict, NotReservedBytes) {
  expect_refused(Function(joined({kXorRet, kTen, kRet})).branch_to(2).branch_to(3).reserve(12, 13),
                 {0}, Reason::too_short, 3);
}

TEST(Evict, NotInAFunctionWithUnresolvedJumps) {
  expect_refused(Function(joined({kXorRet, kTen, kRet})).branch_to(2).branch_to(3).unresolved(),
                 {0}, Reason::too_short, 3);
}

TEST(Evict, ReachesNoFurtherThanAShortJump) {
  const auto function = [](uint64_t window) {
    Function one(joined({kXorEax, crowd(window - 3), kRet, kTen, kRet}));
    crowd_targets(one, 2, window + 1);
    return one.branch_to(window + 10);
  };
  const FunctionPlan plan = function(124).plan_all({0});  // the trampoline at 129
  ASSERT_EQ(plan.patches.size(), 2u);
  EXPECT_EQ(plan.patches[0].trampoline->address, at(129));
  expect_refused(function(125), {0}, Reason::branch_inside, 0);
}

// --- The edge of a page

constexpr uint64_t kEdge = kPageSize;

// After the crowd, `code` starts that many bytes before the edge of a page.
Function before_edge(uint64_t bytes, const Bytes& code, const Bytes& following = {}) {
  Function function(joined({crowd(kEdge - bytes), code}), following);
  crowd_targets(function, 0, kEdge - bytes);
  return function;
}

bool in_one_page(Address begin, Address end) {
  return begin / kPageSize == (end - 1) / kPageSize;
}

TEST(PageEdge, AJumpAcrossItIsReplacedByAHop) {
  for (uint64_t bytes : {2, 3, 4}) {
    Function function = before_edge(bytes, joined({kMov5, kRet}), repeated(0xcc, 7));
    function.branch_to(kEdge - bytes);
    const FunctionPlan plan = function.plan_all({kEdge - bytes});
    expect_patches(plan, {{kEdge - bytes, Tactic::hop, 5, {0}}});
    EXPECT_TRUE(in_one_page(plan.patches[0].patch.site, plan.patches[0].patch.site + 2));
  }
  // Exactly up to it, or from it on.
  for (uint64_t bytes : {5, 0})
    expect_patches(before_edge(bytes, joined({kMov5, kRet})).plan_all({kEdge - bytes}),
                   {{kEdge - bytes, Tactic::insn, 5, {0}}});
}

TEST(PageEdge, AShortJumpAcrossItStartsEarlierOrIsRefused) {
  const Function free = before_edge(2, joined({kPush, kMov5, kRet}), repeated(0xcc, 7));
  expect_patches(free.plan_all({kEdge - 1}), {{kEdge - 2, Tactic::hop, 6, {1}}});
  Function crowded = before_edge(1, joined({kMov5, kRet}), repeated(0xcc, 7));
  expect_refused(crowded.branch_to(kEdge - 1), {kEdge - 1}, Reason::page_edge, kEdge - 1);
}

TEST(PageEdge, ATrampolineLiesInOnePage) {
  // xor | ret, then padding that starts 4 bytes before the edge
  Function function = before_edge(7, kXorRet, repeated(0xcc, 12));
  const FunctionPlan plan = function.branch_to(kEdge - 5).plan_all({kEdge - 7});
  ASSERT_EQ(plan.patches.size(), 1u);
  EXPECT_EQ(plan.patches[0].trampoline->address, at(kEdge));
}

TEST(PageEdge, ATrampolineLiesInThePageOfTheWindowsJump) {
  // The window's jump is before the edge, the room for a trampoline after it: if the controller
  // died between the two pages, the trampoline would be there without the jump.
  const Bytes window = joined({kMov5, kSub16, kTen});
  for (bool probed : {false, true}) {
    Function function = before_edge(3 + 9, joined({kXorRet, window, kRet}));
    function.branch_to(kEdge - 10).branch_to(kEdge - 9).branch_to(kEdge + 10);
    for (uint64_t offset : {0, 4, 5, 8}) function.branch_to(kEdge + offset);
    std::vector<uint64_t> sites = {kEdge - 12};
    if (probed) sites.push_back(kEdge - 9);
    const FunctionPlan plan = function.plan_all(sites);
    ASSERT_EQ(plan.refused.size(), 1u);
    EXPECT_EQ(plan.refused[0].first, at(kEdge - 12));
    EXPECT_EQ(plan.patches.size(), probed ? 1u : 0u);
  }
}

TEST(PageEdge, AnExistingWindowAcrossItIsNotUsed) {
  const Bytes window = joined({kSub16, kMovRspRbp, kTen});  // 7 bytes before the edge, 10 after it
  Function function = before_edge(3 + 7, joined({kXorRet, window, kRet}));
  function.branch_to(kEdge - 8).branch_to(kEdge - 7);
  const FunctionPlan plan =
      function.plan_all({kEdge - 10, kEdge - 7, kEdge - 3, kEdge, kEdge + 4, kEdge + 5, kEdge + 8});
  expect_patches(plan, {{kEdge - 7, Tactic::window, 17, {0, 4, 7, 11, 12, 15}}});
  ASSERT_EQ(plan.refused.size(), 1u);
  EXPECT_EQ(plan.refused[0].first, at(kEdge - 10));
}

// --- Refusals

TEST(Refused, SitesKeepTheReasonOfTheLongJump) {
  expect_refused(Function(kXorRet), {0}, Reason::too_short, 3);
  expect_refused(Function(joined({kSub16, kXorRet})).branch_to(4), {0}, Reason::branch_inside, 0);
  expect_refused(Function(joined({kCallRax, kXorRet})).branch_to(2), {0}, Reason::call_inside, 2);
  const Bytes hlt = {0xf4};
  expect_refused(Function(joined({kXorEax, hlt, kRet})), {0}, Reason::privileged, 2);
  expect_refused(Function(joined({kXorEax, {0xcc}, kRet})), {0}, Reason::foreign_breakpoint, 2);
  expect_refused(Function(joined({kXorEax, {0x0f, 0x0b}, kRet})), {0}, Reason::inexact, 2);
  expect_refused(Function(joined({kXorEax, {0x06}, kRet})), {0}, Reason::undecodable, 2);
  expect_refused(Function(kXorRet).reserve(0, 2), {0}, Reason::too_short, 3);
  expect_refused(Function(joined({kMov5, kRet})).reserve(0, 2), {0}, Reason::reserved, 0);
}

TEST(Refused, WhatIsNotAnInstructionOfTheFunction) {
  const Function function(joined({kMov5, kRet}), repeated(0x90, 10));
  expect_refused(function, {2}, Reason::mid_instruction, 2);
  expect_refused(function, {6}, Reason::outside, 6);
  expect_refused(Function(kMov5).readable(0), {0}, Reason::unreadable, 0);
}

TEST(Refused, AShortJumpAvoidsWhatTheNextInstructionForbids) {
  // A trap follows the only instruction: two bytes do not reach it.
  expect_plan(Function(joined({kXorEax, {0xf4}, kRet}), repeated(0xcc, 5)), {0},
              "ss ss f4 c3 bb bb bb bb bb", {{0, Tactic::hop, 2, {0}}});
}

TEST(Refused, TheSignalRestorerInEveryWay) {
  const Bytes restorer = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  expect_refused(Function(restorer, repeated(0x90, 20)), {0}, Reason::reserved, 0);
  expect_refused(Function(restorer, repeated(0x90, 20)), {7}, Reason::reserved, 7);
}

TEST(Refused, AllProbesOfAHopThatFindsNoTrampoline) {
  const Function function = Function(joined({kPush, kPushRbp, kRet})).branch_to(2);
  const FunctionPlan plan = function.plan_all({0, 1});
  EXPECT_THAT(plan.patches, IsEmpty());
  ASSERT_EQ(plan.refused.size(), 2u);
  EXPECT_EQ(plan.refused[0].first, at(0));
  EXPECT_EQ(plan.refused[1].first, at(1));
}

// --- Functions with unresolved jumps

TEST(Unresolved, ASingleInstructionMayHopToPaddingAfterTheFunction) {
  expect_plan(Function(kXorRet, kNop7).unresolved(), {0}, "ss ss c3 bb bb bb bb bb 00 00",
              {{0, Tactic::hop, 2, {0}}});
}

TEST(Unresolved, NoTrampolineLiesInPaddingThatTheJumpsMayLeadTo) {
  // A label before a nop looks like padding.
  expect_refused(Function(joined({kXorRet, kNop7, kXorRet})).unresolved(), {0},
                 Reason::indirect_jumps, 0);
}

// --- The instructions of a function

std::vector<uint64_t> offsets(const Function& function) {
  std::vector<uint64_t> all;
  for (Address address : instructions(function.code())) all.push_back(address - kBegin);
  return all;
}

TEST(Instructions, StartWithTheEntry) {
  EXPECT_THAT(offsets(Function(joined({kPushRbp, kMov5, kRet}), kNop7)), ElementsAre(0, 1, 6));
  EXPECT_THAT(offsets(Function(joined({kEndbr64, kMov5, kRet}))), ElementsAre(4, 9));
}

TEST(Instructions, LeaveOutPaddingBeforeTargets) {
  const Bytes code = joined({kXorRet, kNop7, {0x66, 0x90}, kPushRbp, kRet});
  EXPECT_THAT(offsets(Function(code).unresolved()), ElementsAre(0, 2, 12, 13));
  EXPECT_THAT(offsets(Function(code).branch_to(12)), ElementsAre(0, 2, 12, 13));
}

TEST(Instructions, LeaveOutWhatNothingLeadsTo) {
  // Constants, the last byte of which looks like a prefix of what follows.
  const Bytes code = joined({kXorRet, {0x31, 0xc0, 0x48}, kPushRbp, kRet});
  EXPECT_THAT(offsets(Function(code)), ElementsAre(0, 2));
  EXPECT_THAT(offsets(Function(code).branch_to(6)), ElementsAre(0, 2, 6, 7));
}

TEST(Instructions, LeaveOutConstantsThatTheFunctionReads) {
  // mov constant(%rip),%eax; ret; the constant, which looks like returns; push %rbp; ret
  const Bytes code =
      joined({{0x8b, 0x05, 0x01, 0x00, 0x00, 0x00}, kRet, kRet, kRet, kRet, kRet, kPushRbp, kRet});
  EXPECT_THAT(offsets(Function(code).branch_to(7)), ElementsAre(0, 6));
  EXPECT_THAT(offsets(Function(code).branch_to(7).branch_to(11)), ElementsAre(0, 6, 11, 12));
  EXPECT_THAT(offsets(Function(code).branch_to(7).branch_to(11).unresolved()),
              ElementsAre(0, 6, 11, 12));
}

TEST(Instructions, KeepNopsThatAreExecuted) {
  EXPECT_THAT(offsets(Function(joined({kXorEax, kNop7, kRet}))), ElementsAre(0, 2, 9));
  // Something jumps to the second of the two.
  const Bytes code = joined({kXorRet, kNop7, {0x66, 0x90}, kPushRbp, kRet});
  EXPECT_THAT(offsets(Function(code).branch_to(10)), ElementsAre(0, 2, 10, 12, 13));
}

TEST(Instructions, EndWhereDecodingFails) {
  EXPECT_THAT(offsets(Function(joined({kXorEax, {0x06}, kRet}))), ElementsAre(0));
  EXPECT_THAT(offsets(Function({0x31, 0xc0, 0xb8, 0x2a}, {0, 0, 0})), ElementsAre(0));
}

// --- FarHop: room in another function

// `whole` is two functions, the second of which starts at `second`.
std::optional<FarHop> far_hop_of(
    const Function& whole, uint64_t second, uint64_t site = 0,
    const std::function<bool(Range)>& is_free = [](Range) { return true; },
    std::optional<uint64_t> last = {}) {
  const FunctionCode all = whole.code();
  FunctionCode function = all, neighbour = all;
  function.range.end = neighbour.range.begin = at(second);
  function.bytes = all.bytes.first(second);
  neighbour.bytes = all.bytes.subspan(second);
  return plan_far_hop(function, at(site), at(last.value_or(site)), {&neighbour, 1}, is_free);
}

const Bytes kThree = joined({kXorEax, kRet});
const Bytes kRoomy = joined({kMov5, kMov5, kRet});

TEST(FarHop, IsAShortJumpToATrampolineInAWindowOfANeighbour) {
  const auto far_hop = far_hop_of(Function(joined({kThree, kRoomy})), 3);
  ASSERT_TRUE(far_hop);
  EXPECT_EQ(far_hop->hop.patch.site, at(0));
  EXPECT_EQ(far_hop->hop.patch.written, 2);
  EXPECT_EQ(far_hop->hop.patch.displaced, 2);
  EXPECT_EQ(far_hop->hop.patch.tactic, Tactic::evict);
  EXPECT_THAT(far_hop->hop.points, ElementsAre(0));
  EXPECT_EQ(far_hop->hop.trampoline->address, at(8));
  EXPECT_TRUE(std::equal(kMov5.begin(), kMov5.end(), far_hop->hop.trampoline->original.begin()));
  EXPECT_EQ(far_hop->window.site, at(3));
  EXPECT_EQ(far_hop->window.written, 5);
  EXPECT_EQ(far_hop->window.displaced, 10);
  EXPECT_THAT(far_hop->window.boundaries, ElementsAre(5)) << "where no thread may be";
}

TEST(FarHop, DisplacesTheInstructionsUpToTheGivenOne) {
  const Function whole(joined({kThree, kRoomy}));
  const auto is_free = [](Range) { return true; };
  const auto both = far_hop_of(whole, 3, 0, is_free, 2);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->hop.patch.written, 2);
  EXPECT_EQ(both->hop.patch.displaced, 3);
  EXPECT_THAT(both->hop.patch.boundaries, IsEmpty()) << "a thread at the return executes it";
  const auto not_both = [&](const Function& function, const auto& free) {
    const auto one = far_hop_of(function, 3, 0, free, 2);
    return one && one->hop.patch.displaced == 2;
  };
  EXPECT_TRUE(not_both(Function(joined({kThree, kRoomy})).branch_to(2), is_free));
  EXPECT_TRUE(not_both(whole, [](Range range) { return !range.contains(at(2)); }));
}

TEST(FarHop, NeedsTwoBytes) {
  EXPECT_FALSE(far_hop_of(Function(joined({kRet, kRoomy})), 1));
  EXPECT_FALSE(far_hop_of(Function(joined({kPush, kRet, kRoomy})).branch_to(1), 2));
}

TEST(FarHop, NeedsAWindowThatNothingBranchesInto) {
  EXPECT_FALSE(far_hop_of(Function(joined({kThree, kRoomy})).branch_to(8), 3));
  EXPECT_FALSE(far_hop_of(Function(joined({kThree, kMov5, kRet})), 3)) << "too small";
  const Function single(joined({kThree, kMov11, kRet}));
  EXPECT_TRUE(far_hop_of(single, 3));
  EXPECT_FALSE(far_hop_of(Function(single).branch_to(9), 3));
}

TEST(FarHop, UsesNoBytesThatAreTaken) {
  for (uint64_t taken : {0, 1, 3, 7, 8, 12}) {
    const Range range = {at(taken), at(taken + 1)};
    EXPECT_FALSE(far_hop_of(Function(joined({kThree, kRoomy})), 3, 0, [&](Range wanted) {
      return !wanted.overlaps(range);
    })) << taken;
  }
}

TEST(FarHop, ReachesAsFarAsAShortJump) {
  const auto with_gap = [](size_t gap) {
    return Function(joined({kThree, repeated(0xc3, gap), kRoomy})).branch_to(3 + gap);
  };
  // From the end of the jump to the trampoline, 5 bytes after the start of the window.
  EXPECT_TRUE(far_hop_of(with_gap(127 + 2 - 3 - 5), 3));
  EXPECT_FALSE(far_hop_of(with_gap(127 + 2 - 3 - 5 + 1), 3));
}

}  // namespace
}  // namespace pinprick::plan
