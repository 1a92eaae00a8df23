#include "library/probes/sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "library/parts/made_sites.h"

namespace pinprick::library {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr StubFeatures kCounts = {.counts = true};

TEST(Sites, RestoreTheBytesUnderTheJumpInPlace) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText + 2));
  put_in_place(site, *site.jump, kCounts);
  std::array<uint8_t, 9> read = {1, 2, 0xe9, 0xcc, 0xcc, 0xcc, 0xcc, 8, 9};
  made.sites.restore(kText, read);
  EXPECT_THAT(read, ElementsAre(1, 2, 0x50, 0x51, 0x52, 0x53, 0x54, 8, 9));
}

TEST(Sites, RestoreTheEndOfAJumpThatStartsBeforeTheBytesRead) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  put_in_place(site, *site.jump, kCounts);
  std::array<uint8_t, 4> read = {0xcc, 0xcc, 7, 8};
  made.sites.restore(kText + 3, read);
  EXPECT_THAT(read, ElementsAre(0x53, 0x54, 7, 8));
}

TEST(Sites, RestoreNothingWhereTheTextIsTheProgramsOwn) {
  MadeSites made;
  made.add_probed(planned_jump(kText));
  std::array<uint8_t, 2> read = {1, 2};
  made.sites.restore(kText, read);
  EXPECT_THAT(read, ElementsAre(1, 2));
}

TEST(Sites, OthersInARangeTakeOrAreToTakeSomeOfIt) {
  MadeSites made;
  Site& to_be = made.add_probed(planned_jump(kText));
  Site& in_place = made.add(planned_jump(kText + 8));
  put_in_place(in_place, *in_place.jump, kCounts);
  made.add(planned_jump(kText + 16));  // nothing is attached, and nothing is in place
  EXPECT_THAT(made.sites.others_in({kText + 4, kText + 20}, kText + 5),
              ElementsAre(&to_be, &in_place));
  EXPECT_THAT(made.sites.others_in({kText + 5, kText + 8}, kText + 5), IsEmpty());
}

TEST(Sites, OthersInARangeAreNeitherTheSiteItselfNorGone) {
  MadeSites made;
  Site& itself = made.add_probed(planned_jump(kText));
  made.add_probed(planned_jump(kText + 2)).gone = true;
  EXPECT_THAT(made.sites.others_in({kText, kText + 5}, itself.address), IsEmpty());
}

TEST(Sites, AJumpThatIsToBeABreakpointStillTakesItsBytesWhileItIsInPlace) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  site.no_jump = plan::Reason::neighbour;
  const Range under = {kText + 1, kText + 2};
  EXPECT_THAT(made.sites.others_in(under, under.begin), IsEmpty());
  put_in_place(site, *site.jump, kCounts);
  EXPECT_THAT(made.sites.others_in(under, under.begin), ElementsAre(&site));
}

TEST(Sites, AreKeptIfPlannedInTheSameWay) {
  MadeSites made;
  Site& site = made.add(planned_jump(kText));
  EXPECT_EQ(&made.add(planned_jump(kText)), &site);
}

TEST(Sites, AreReplacedWhereOtherCodeIsLoaded) {
  MadeSites made;
  Site& site = made.add(planned_jump(kText, 0x50));
  Site& other = made.add(planned_jump(kText, 0x40));
  EXPECT_NE(&other, &site);
  EXPECT_EQ(made.sites.find(kText), &other);
  EXPECT_EQ(site.breakpoint.patch.original[0], 0x50);  // its stubs may be in use
}

TEST(Sites, StayWhileSomethingIsAttached) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText, 0x50));
  EXPECT_EQ(&made.add(planned_jump(kText, 0x40)), &site);
  EXPECT_FALSE(site.no_jump);
  EXPECT_EQ(&made.add(planned_breakpoint(kText)), &site);
  EXPECT_FALSE(site.no_jump);
}

}  // namespace
}  // namespace pinprick::library
