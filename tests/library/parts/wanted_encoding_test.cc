#include "library/probes/wanted_encoding.h"

#include <gtest/gtest.h>

#include "library/parts/made_sites.h"

namespace pinprick::library {
namespace {

constexpr Modes kUsual;
constexpr Modes kDisarmed = {.armed = false};
constexpr Modes kNotOptimised = {.optimised = false};

TEST(WantedEncoding, IsTheJumpWhereOneFits) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(wanted_encoding(site, kUsual), &*site.jump);
  site.no_jump = plan::Reason::neighbour;
  EXPECT_EQ(wanted_encoding(site, kUsual), &site.breakpoint);
}

TEST(WantedEncoding, IsTheBreakpointWhileJumpsAreSwitchedOff) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(wanted_encoding(site, kNotOptimised), &site.breakpoint);
}

TEST(WantedEncoding, IsNoneWhereNothingIsEnabled) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  site.attachments.front()->enabled = false;
  EXPECT_EQ(wanted_encoding(site, kUsual), nullptr);
}

TEST(WantedEncoding, IsNoneWhereTheCodeIsGone) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  site.gone = true;
  EXPECT_EQ(wanted_encoding(site, kUsual), nullptr);
}

TEST(WantedEncoding, IsNoneWhileAllAreDisarmedAndIsKnownForWhenTheyAreArmed) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(wanted_encoding(site, kDisarmed), nullptr);
  EXPECT_EQ(encoding_when_armed(site, kDisarmed), &*site.jump);
}

TEST(WantedFeatures, AreNeverLessThanThoseOfTheStubInPlace) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_EQ(wanted_features(site, *site.jump), StubFeatures{.counts = true});
  put_in_place(site, *site.jump, {.before = true});
  EXPECT_EQ(wanted_features(site, *site.jump), (StubFeatures{.counts = true, .before = true}));
  EXPECT_EQ(wanted_features(site, site.breakpoint), StubFeatures{.counts = true});
}

TEST(WantedEncoding, IsInPlaceOnceItsStubDoesAllThatIsNeeded) {
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
