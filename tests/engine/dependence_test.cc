// What goes with what is dropped.
#include "engine/plan/dependence.h"
#include "actions_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned_patches.h"

namespace pinprick::engine {
namespace {

using placement::Hook;
using placement::Kind;
using testing::ElementsAre;

class Dependence : public PlannedPatches {
 protected:
  static std::vector<size_t> armed(const ArmingPlan& plan) {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < plan.states.size(); ++i)
      if (plan.is_armed(i)) numbers.push_back(i);
    return numbers;
  }
};

TEST_F(Dependence, LeavesNoTimedCallWhoseUnwinderCannotBeHooked) {
  set_.actions = Kind::latency;
  add_probed(patch_at(0));
  const size_t unwinder = add(hook(patch_at(16), Hook::Kind::unwinder));
  ArmingPlan all = plan();
  drop_what_needs_hooks(all, Counting::restartable);
  EXPECT_THAT(armed(all), ElementsAre(0, 1)) << "all hooks are there";
  all.drop(unwinder, plan::Reason::thread_inside);
  drop_what_needs_hooks(all, Counting::restartable);
  EXPECT_THAT(armed(all), ElementsAre());
  ASSERT_EQ(all.left_out.size(), 1u);
  EXPECT_EQ(all.left_out[0].refusal.reason, plan::Reason::thread_inside);
}

TEST_F(Dependence, LetsProbesThatTimeNothingDoWithoutUnwindersHooks) {
  add_probed(patch_at(0));
  const size_t unwinder = add(hook(patch_at(16), Hook::Kind::unwinder));
  ArmingPlan all = plan();
  all.drop(unwinder, plan::Reason::thread_inside);
  drop_what_needs_hooks(all, Counting::restartable);
  EXPECT_THAT(armed(all), ElementsAre(0));
}

TEST_F(Dependence, MarksChildrenOrCountsWithLocks) {
  add_probed(patch_at(0));
  const size_t vfork = add(hook(patch_at(16), Hook::Kind::vfork));
  ArmingPlan all = plan();
  all.leave_out(vfork);
  drop_what_needs_hooks(all, Counting::locked);
  EXPECT_THAT(armed(all), ElementsAre(0));
  drop_what_needs_hooks(all, Counting::restartable);
  EXPECT_THAT(armed(all), ElementsAre());
}

TEST_F(Dependence, DropsWhatLiesInAWindowThatIsNotWritten) {
  const size_t window = add(patch_at(0));
  auto dependent = patch_at(32);
  dependent.plan.depends_on = window;
  add_probed(std::move(dependent));
  add_probed(patch_at(48));
  ArmingPlan all = plan();
  drop_dependents(all);
  EXPECT_THAT(armed(all), ElementsAre(0, 1, 2));
  all.drop(window, plan::Reason::text_changed);
  drop_dependents(all);
  EXPECT_THAT(armed(all), ElementsAre(2));
}

// The first function's code has changed in one place; a jump elsewhere in it, or one that makes
// room there for a third function's, may then be in the middle of an instruction.
TEST_F(Dependence, DropsAllThatWasPlannedFromTheTextOfAFunctionThatHasChanged) {
  image::Function other;
  other.range = {kText + 64, kText + 96};
  const size_t first = add_probed(patch_at(0));
  add_probed(patch_at(40));
  const size_t room = add(patch_at(48));
  add_probed(patch_at(64));
  set_.matches.back().function = &other;
  auto beside = patch_at(80);
  beside.plan.depends_on = room;
  add_probed(std::move(beside));
  set_.matches.back().function = &other;
  const ArmingPlan planned = plan();
  for (const size_t changed : {first, size_t{1}, room}) {
    ArmingPlan all = planned;
    drop_functions_of(all, {&changed, 1});
    EXPECT_THAT(armed(all), ElementsAre(3, 4)) << changed;
    EXPECT_EQ(all.left_out.size(), 2u);
    drop_dependents(all);
    EXPECT_THAT(armed(all), ElementsAre(3)) << changed;
  }
  ArmingPlan all = planned;
  drop_functions_of(all, {});
  EXPECT_EQ(armed(all).size(), 5u);
}

TEST_F(Dependence, OnlyTimedCallsNeedTheHooksInUnwinders) {
  const size_t timed = add_probed(patch_at(0)), counted = add_probed(patch_at(16));
  set_.matches[counted].pattern = 1;
  set_.actions = action::actions_of({Kind::latency, Kind::count});
  const size_t unwinder = add(hook(patch_at(32), Hook::Kind::unwinder));
  const size_t loader = add(hook(patch_at(48), Hook::Kind::loader));
  const size_t vfork = add(hook(patch_at(56), Hook::Kind::vfork));
  const ArmingPlan planned = plan();
  ArmingPlan all = planned;
  all.leave_out(unwinder);
  drop_what_needs_hooks(all, Counting::restartable);
  EXPECT_THAT(armed(all), ElementsAre(counted, loader, vfork));
  ArmingPlan without_mark = planned;
  without_mark.leave_out(vfork);
  drop_what_needs_hooks(without_mark, Counting::restartable);
  EXPECT_THAT(armed(without_mark), ElementsAre());
  EXPECT_EQ(timed, 0u);
}

TEST_F(Dependence, LeavesNoCallWithoutAllOfItsEnds) {
  using placement::CallTiming;
  set_.actions = Kind::latency;
  auto start = patch_at(0);
  start.plan.timing = CallTiming::by_exits;
  const size_t entry = add_probed(std::move(start));
  for (const uint64_t offset : {16, 32}) {
    auto end = patch_at(offset);
    end.plan.start = entry;
    add(std::move(end));
  }
  add_probed(patch_at(48));
  ArmingPlan all = plan();
  drop_dependents(all);
  EXPECT_THAT(armed(all), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(patches_that_hang_together(all), (std::vector<bool>{true, true, true, false}));
  ArmingPlan without_end = all;
  without_end.drop(2, plan::Reason::text_changed);
  drop_dependents(without_end);
  EXPECT_THAT(armed(without_end), ElementsAre(3));
  EXPECT_EQ(without_end.left_out.size(), 1u) << "only the function is a probe";
  all.drop(entry, plan::Reason::thread_inside);
  drop_dependents(all);
  EXPECT_THAT(armed(all), ElementsAre(3));
}

TEST_F(Dependence, TimesCallsBySlotsWhereOneOfTheirEndsCannotBe) {
  using placement::CallTiming;
  set_.actions = Kind::latency;
  for (const uint64_t first : {0, 24}) {
    auto start = patch_at(first);
    start.plan.timing = CallTiming::by_exits;
    const size_t entry = add_probed(std::move(start));
    for (const uint64_t offset : {8, 16}) {
      auto end = patch_at(first + offset);
      end.plan.start = entry;
      add(std::move(end));
    }
  }
  ArmingPlan all = plan();
  ArmingPlan with_gaps = all;
  all.in_the_way.emplace(2, plan::Reason::neighbour);
  all.choose_slots_or_exits();
  EXPECT_TRUE(all.times_by_exits);
  EXPECT_EQ(all.set.patches[0].plan.timing, CallTiming::by_slot);
  EXPECT_EQ(all.set.patches[3].plan.timing, CallTiming::by_exits);
  EXPECT_TRUE(all.in_the_way.contains(1) && all.in_the_way.contains(2));
  EXPECT_EQ(all.in_the_way.size(), 2u);
  for (const auto& [patch, reason] : all.in_the_way) all.drop(patch, reason);
  drop_dependents(all);
  EXPECT_THAT(armed(all), ElementsAre(0, 3, 4, 5));
  EXPECT_TRUE(all.left_out.empty()) << "nothing is not timed";

  with_gaps.gap = layout::Gap::thread;
  with_gaps.choose_slots_or_exits();
  EXPECT_FALSE(with_gaps.times_by_exits);
  EXPECT_EQ(with_gaps.in_the_way.size(), 4u);
}

TEST_F(Dependence, TimesNoCallThatCanHaveNoSlotWhereOneOfItsEndsCannotBe) {
  set_.actions = Kind::latency;
  auto start = patch_at(0);
  start.plan.timing = placement::CallTiming::only_by_exits;
  const size_t entry = add_probed(std::move(start));
  const size_t window = add(patch_at(8));
  auto end_after_window = patch_at(16);
  end_after_window.plan.start = entry;
  end_after_window.plan.depends_on = window;
  add(std::move(end_after_window));
  auto other_end = patch_at(24);
  other_end.plan.start = entry;
  add(std::move(other_end));
  auto own_end = patch_at(32);
  own_end.plan.timing = placement::CallTiming::only_by_exits;
  own_end.plan.start = 4;
  add_probed(std::move(own_end));
  ArmingPlan all = plan();
  ArmingPlan with_thread = all;
  all.in_the_way.emplace(window, plan::Reason::neighbour);
  all.choose_slots_or_exits();
  EXPECT_EQ(all.in_the_way.size(), 4u) << "all but the function that ends in its first window";
  EXPECT_TRUE(all.in_the_way.contains(entry));
  EXPECT_TRUE(all.times_by_exits);
  EXPECT_THAT(patches_that_hang_together(with_thread), ElementsAre(true, true, true, true, true));
  with_thread.drop(window, plan::Reason::thread_inside);
  drop_dependents(with_thread);
  EXPECT_THAT(armed(with_thread), ElementsAre(4));
}

TEST_F(Dependence, NamesWhatIsWrittenTogetherOrNotAtAll) {
  add_probed(patch_at(0));
  const size_t window = add(patch_at(16));
  auto dependent = patch_at(32);
  dependent.plan.depends_on = window;
  add_probed(std::move(dependent));
  auto with_trampoline = patch_at(48);
  with_trampoline.plan.trampoline = plan::Trampoline{};
  add_probed(std::move(with_trampoline));
  EXPECT_THAT(patches_that_hang_together(plan()), ElementsAre(false, true, true, true));
}

// Otherwise it would be known that a hook is missing when the probes that need it are in.
TEST_F(Dependence, HooksAreLookedAtBeforeAnythingIsWritten) {
  add_probed(patch_at(0));
  add(hook(patch_at(16), Hook::Kind::unwinder));
  add(hook(patch_at(32), Hook::Kind::vfork));
  add(hook(patch_at(48), Hook::Kind::loader));
  EXPECT_THAT(patches_that_hang_together(plan()), ElementsAre(false, true, true, false));
}

TEST_F(Dependence, SaysOnceWhyAProbeIsLeftOut) {
  const size_t patch = add_probed(patch_at(0));
  ArmingPlan all = plan();
  EXPECT_TRUE(all.drop(patch, plan::Reason::neighbour));
  EXPECT_FALSE(all.drop(patch, plan::Reason::text_changed));
  ASSERT_EQ(all.left_out.size(), 1u);
  EXPECT_EQ(all.left_out[0].refusal.reason, plan::Reason::neighbour);
}

}  // namespace
}  // namespace pinprick::engine
