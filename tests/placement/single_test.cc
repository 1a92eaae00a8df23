// Probes planned one by one, on every instruction of a real program.
#include "placement/single.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "arch/code.h"
#include "placement/caller_use.h"
#include "placement/every_function.h"
#include "placement/probe_set.h"

namespace pinprick::placement {
namespace {

class Single : public EveryFunction {
 protected:
  const char* program() const override { return TARGETS "cramped"; }
  void SetUp() override {
    EveryFunction::SetUp();
    image::mean_each_instruction(entries_);
    all_ = instructions_of(entries_);
    ASSERT_GT(all_.size(), 50u);
  }

  std::vector<image::Match> all_;
};

TEST_F(Single, StartsEachJumpAtItsSite) {
  size_t planned = 0;
  for (const image::Match& match : all_) {
    const auto plan = plan_single(match, ProbeNeeds::hits, Breakpoints::none);
    if (!plan) continue;
    ++planned;
    EXPECT_FALSE(plan->is_breakpoint());
    EXPECT_EQ(plan->patch.written, 5);
    // Only an entry is moved, to after its endbr64.
    EXPECT_TRUE(plan->patch.site == match.site || plan->patch.site == match.site + 4);
  }
  EXPECT_GT(planned, all_.size() / 2);
}

TEST_F(Single, BreakpointsTakeOneByteOfOneInstruction) {
  size_t breakpoints = 0;
  for (const image::Match& match : all_) {
    const auto jump = plan_single(match, ProbeNeeds::hits, Breakpoints::none);
    const auto either = plan_single(match, ProbeNeeds::hits, Breakpoints::where_no_jump_fits);
    if (jump) {
      ASSERT_TRUE(either.ok());
      EXPECT_FALSE(either->is_breakpoint());
      continue;
    }
    if (!either) continue;
    ++breakpoints;
    EXPECT_EQ(either->no_jump, jump.error().reason);
    EXPECT_EQ(either->patch.written, 1);
    EXPECT_TRUE(either->patch.boundaries.empty());
    const auto instruction = arch::decode(either->patch.original, either->patch.site);
    ASSERT_TRUE(instruction.has_value());
    EXPECT_EQ(either->patch.displaced, instruction->length);
  }
  EXPECT_GT(breakpoints, 0u);
}

TEST_F(Single, PlacesNoBreakpointInsideAnInstruction) {
  for (image::Match match : all_) {
    const auto plan = plan_single(match, ProbeNeeds::hits, Breakpoints::where_no_jump_fits);
    if (!plan || plan->patch.displaced < 2 || plan->patch.site != match.site) continue;
    ++match.site;
    const auto inside = plan_single(match, ProbeNeeds::hits, Breakpoints::where_no_jump_fits);
    const bool is_instruction = std::any_of(
        all_.begin(), all_.end(), [&](const image::Match& m) { return m.site == match.site; });
    EXPECT_TRUE(is_instruction || !inside.ok()) << std::hex << match.site;
  }
}

TEST_F(Single, HasNoPostHandlerAtABranch) {
  for (const image::Match& match : all_) {
    const auto plan = plan_single(match, ProbeNeeds::after_first, Breakpoints::where_no_jump_fits);
    if (!plan) continue;
    const auto first = arch::decode(plan->patch.original, plan->patch.site);
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->flow, arch::Flow::next);
  }
}

TEST_F(Single, MeasuresCallsFromEntriesOnly) {
  size_t followed = 0;
  CallerUse callers(image_);
  for (const image::Match& match : all_) {
    const auto plan =
        plan_single(match, ProbeNeeds::calls, Breakpoints::where_no_jump_fits, &callers);
    if (!plan) continue;
    ++followed;
    EXPECT_TRUE(match.at_entry() || plan->patch.site == match.function->range.begin + 4);
    EXPECT_EQ(plan->stack, arch::StackUse::at_entry);
  }
  EXPECT_GT(followed, 0u);
}

}  // namespace
}  // namespace pinprick::placement
