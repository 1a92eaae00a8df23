// What stubs do at the points of spans.
#include "engine/plan/span_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned_patches.h"

namespace pinprick::engine {
namespace {

using testing::ElementsAre;

class SpanPoints : public PlannedPatches {
 protected:
  void SetUp() override {
    PlannedPatches::SetUp();
    set_.actions = placement::Kind::span;
    for (const uint64_t offset : {0u, 16u, 32u}) add_probed(patch_at(offset));
    set_.spans = {{"first", {0}, {1}}, {"second", {1}, {2}}, {"turn", {1}, {1}}};
  }
};

TEST_F(SpanPoints, EndSpansBeforeTheyBeginOthersOrTheSameOne) {
  std::vector<arch::StubAction> actions;
  const ArmingPlan all = plan();
  add_span_actions(all, {}, 1, {}, actions);
  std::vector<std::pair<bool, uint16_t>> done;  // ends it, which
  for (const arch::StubAction& action : actions) {
    const auto& span = std::get<arch::PassSpan>(action.what);
    done.emplace_back(span.pass == layout::Pass::ends, span.start);
  }
  const auto start = [](size_t span) { return layout::span_start_offset(span); };
  EXPECT_THAT(done, ElementsAre(std::pair(true, start(0)), std::pair(true, start(2)),
                                std::pair(false, start(1)), std::pair(false, start(2))));
  EXPECT_EQ(count_span_actions(all, 1), done.size());
}

TEST_F(SpanPoints, AreNamedByTheirProbes) {
  const auto entries = span_entries(set_);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_THAT((std::vector{entries[0].start, entries[0].end, entries[2].start, entries[2].end}),
              ElementsAre(0, 1, 1, 1));
}

TEST_F(SpanPoints, BothHaveToBeArmedForTheSpanToBe) {
  ArmingPlan all = plan();
  EXPECT_EQ(armed_spans(all).size(), 3u);
  all.drop(2, plan::Reason::thread_inside);
  const auto armed = armed_spans(all);
  ASSERT_EQ(armed.size(), 2u);
  EXPECT_EQ(armed[0].index, 0u);
  EXPECT_EQ(armed[1].index, 2u);
}

TEST_F(SpanPoints, WithSeveralSitesAreArmedOnlyIfAllSitesAre) {
  set_.spans = {{"several", {0, 1}, {2}}};
  ArmingPlan all = plan();
  EXPECT_EQ(armed_spans(all).size(), 1u);
  all.drop(1, plan::Reason::thread_inside);
  EXPECT_TRUE(armed_spans(all).empty());
}

TEST_F(SpanPoints, WithSeveralSitesDoTheSameAtEach) {
  set_.spans = {{"several", {0, 1}, {2}}};
  const ArmingPlan all = plan();
  for (const size_t probe : {0u, 1u, 2u}) {
    std::vector<arch::StubAction> actions;
    add_span_actions(all, {}, probe, {}, actions);
    ASSERT_EQ(actions.size(), 1u) << probe;
    EXPECT_EQ(count_span_actions(all, probe), 1u) << probe;
    const auto& span = std::get<arch::PassSpan>(actions[0].what);
    EXPECT_EQ(span.pass, probe == 2 ? layout::Pass::ends : layout::Pass::starts) << probe;
    EXPECT_EQ(span.start, layout::span_start_offset(0)) << probe;
  }
}

}  // namespace
}  // namespace pinprick::engine
