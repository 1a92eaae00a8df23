#include "library/wanted_form.h"

#include <gtest/gtest.h>

#include "library/parts/made_sites.h"

namespace pinprick::library {
namespace {

constexpr Modes kUsual;
constexpr Modes kDisarmed = {.armed = false};
constexpr Modes kNotOptimised = {.optimised = false};

TEST(WantedForm, IsTheJumpWhereOneFits) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(wanted_form(site, kUsual), &*site.jump);
  site.no_jump = plan::Reason::neighbour;
  EXPECT_EQ(wanted_form(site, kUsual), &site.breakpoint);
}

TEST(WantedForm, IsTheBreakpointWhileJumpsAreSwitchedOff) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(wanted_form(site, kNotOptimised), &site.breakpoint);
}

TEST(WantedForm, IsNoneWhereNothingIsEnabled) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  site.attachments.front()->enabled = false;
  EXPECT_EQ(wanted_form(site, kUsual), nullptr);
}

TEST(WantedForm, IsNoneWhereTheCodeIsGone) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  site.gone = true;
  EXPECT_EQ(wanted_form(site, kUsual), nullptr);
}

TEST(WantedForm, IsNoneWhileAllAreDisarmedAndIsKnownForWhenTheyAreArmed) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(wanted_form(site, kDisarmed), nullptr);
  EXPECT_EQ(form_when_armed(site, kDisarmed), &*site.jump);
}

TEST(WantedShape, IsNeverLessThanTheStubInPlaceDoes) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(wanted_shape(site, *site.jump), Shape{.counts = true});
  put_in_place(site, *site.jump, {.before = true});
  EXPECT_EQ(wanted_shape(site, *site.jump), (Shape{.counts = true, .before = true}));
  EXPECT_EQ(wanted_shape(site, site.breakpoint), Shape{.counts = true});
}

TEST(WantedForm, IsThereOnceItsStubDoesAllThatIsNeeded) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_FALSE(is_as_wanted(site, kUsual));
  put_in_place(site, *site.jump, {.before = true});
  EXPECT_FALSE(is_as_wanted(site, kUsual));
  put_in_place(site, *site.jump, {.counts = true, .before = true});
  EXPECT_TRUE(is_as_wanted(site, kUsual));
  EXPECT_FALSE(is_as_wanted(site, kNotOptimised));
  EXPECT_FALSE(is_as_wanted(site, kDisarmed));
}

}  // namespace
}  // namespace pinprick::library
