#include "library/probes/neighbours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "library/parts/made_sites.h"

namespace pinprick::library {
namespace {

using placement::Breakpoints;
using plan::Reason;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

TEST(Neighbours, LeaveRoomForAJumpNextToThem) {
  MadeSites made;
  made.add_probed(planned_jump(kText));
  SitePlan planned = planned_jump(kText + arch::kJumpLength);
  EXPECT_TRUE(fit_among_neighbours(planned, Breakpoints::none, made.sites));
  EXPECT_FALSE(planned.no_jump);
  EXPECT_THAT(planned.in_the_way, IsEmpty());
}

TEST(Neighbours, UnderAPlannedJumpMakeItABreakpoint) {
  MadeSites made;
  made.add_probed(planned_jump(kText + 2));
  SitePlan planned = planned_jump(kText);
  ASSERT_TRUE(fit_among_neighbours(planned, Breakpoints::where_no_jump_fits, made.sites));
  EXPECT_EQ(planned.no_jump, Reason::neighbour);
  EXPECT_THAT(planned.in_the_way, IsEmpty());
}

TEST(Neighbours, UnderAPlannedJumpThatMayNotBeABreakpointGetItRefused) {
  MadeSites made;
  made.add_probed(planned_jump(kText + 2));
  SitePlan planned = planned_jump(kText);
  const auto fits = fit_among_neighbours(planned, Breakpoints::none, made.sites);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error(), Reason::neighbour);
}

TEST(Neighbours, WhoseJumpCoversAProbeGiveWay) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  SitePlan planned = planned_jump(kText + 2);
  ASSERT_TRUE(fit_among_neighbours(planned, Breakpoints::none, made.sites));
  EXPECT_FALSE(planned.no_jump);
  EXPECT_THAT(planned.in_the_way, ElementsAre(&site));
}

TEST(Neighbours, WhoseJumpCoversAProbeGetItRefusedIfTheyMayNotBeBreakpoints) {
  MadeSites made;
  made.add_probed(planned_jump(kText), MayBeBreakpoint::no);
  SitePlan planned = planned_jump(kText + 2);
  const auto fits = fit_among_neighbours(planned, Breakpoints::where_no_jump_fits, made.sites);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error(), Reason::neighbour);
}

TEST(Neighbours, WithoutProbesThatAreStillInTheTextAreRemoved) {
  MadeSites made;
  Site& left = made.add(planned_jump(kText + 2));
  put_in_place(left, *left.jump, {.counts = true});
  SitePlan planned = planned_jump(kText);
  ASSERT_TRUE(fit_among_neighbours(planned, Breakpoints::none, made.sites));
  EXPECT_FALSE(planned.no_jump);
  EXPECT_THAT(planned.in_the_way, ElementsAre(&left));
}

TEST(Neighbours, DoNotMatterAtAnInstructionThatIsProbedAlready) {
  MadeSites made;
  made.add_probed(planned_jump(kText));
  Site& known = made.add_probed(planned_jump(kText + 2));
  known.no_jump = Reason::out_of_reach;
  SitePlan planned = planned_jump(known.address);
  ASSERT_TRUE(fit_among_neighbours(planned, Breakpoints::where_no_jump_fits, made.sites));
  EXPECT_EQ(planned.no_jump, Reason::out_of_reach);
  EXPECT_THAT(planned.in_the_way, IsEmpty());
  const auto fits = fit_among_neighbours(planned, Breakpoints::none, made.sites);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error(), Reason::out_of_reach);
}

TEST(Neighbours, ThatWentAreFoundForABreakpointThatLackedRoom) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  site.no_jump = Reason::neighbour;
  Site& went = made.add(planned_jump(kText + 2));
  put_in_place(went, *went.jump, {.counts = true});
  EXPECT_THAT(neighbours_that_went(site, made.sites), Optional(ElementsAre(&went)));
}

TEST(Neighbours, HaveNotGoneWhileOneIsProbed) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  site.no_jump = Reason::neighbour;
  made.add_probed(planned_jump(kText + 2));
  EXPECT_EQ(neighbours_that_went(site, made.sites), std::nullopt);
}

TEST(Neighbours, ThatWentDoNotMatterToABreakpointForAnotherReason) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(neighbours_that_went(site, made.sites), std::nullopt);
  site.no_jump = Reason::out_of_reach;
  EXPECT_EQ(neighbours_that_went(site, made.sites), std::nullopt);
}

TEST(Demotions, AreUndoneForASiteThatWasDemotedTwice) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  Demotions demotions;
  demotions.demote(site);
  demotions.demote(site);
  EXPECT_EQ(site.no_jump, Reason::neighbour);
  std::vector<Site*> sites;
  demotions.add_to(sites);
  EXPECT_THAT(sites, ElementsAre(&site, &site));
  demotions.undo();
  EXPECT_FALSE(site.no_jump);
}

}  // namespace
}  // namespace pinprick::library
