#include "image/scan/branch_targets.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace pinprick::image {
namespace {

TEST(BranchTargets, ContainExactlyWhatWasAdded) {
  const std::vector<Range> text = {{0x1000, 0x1fff}, {0x3001, 0x30c3}};
  BranchTargets targets(text);
  std::set<Address> added;
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const Range range = text[i % 2];
    const Address address = range.begin + random() % range.size();
    targets.add(address);
    added.insert(address);
  }
  for (Range range : text)
    for (Address a = range.begin - 2; a < range.end + 2; ++a)
      EXPECT_EQ(targets.contains(a), added.contains(a)) << std::hex << a;
}

TEST(BranchTargets, AreFoundAtTheStartOfARangeButNotAtItsEnd) {
  BranchTargets targets({{0x1000, 0x2000}});
  targets.add(0x1040);
  EXPECT_TRUE(targets.any_in(0x1040, 0x1041));
  EXPECT_TRUE(targets.any_in(0x1000, 0x2000));
  EXPECT_FALSE(targets.any_in(0x103b, 0x1040));
  EXPECT_FALSE(targets.any_in(0x1041, 0x1046));
  EXPECT_FALSE(targets.any_in(0x1040, 0x1040));
  EXPECT_FALSE(targets.any_in(0x1041, 0x1040));
}

TEST(BranchTargets, AtBothEndsOfTextCount) {
  BranchTargets targets({{0x1000, 0x1041}, {0x1041, 0x1080}});
  for (Address a : {0x1000, 0x1040, 0x1041, 0x107f}) targets.add(a);
  for (Address a : {0x1000, 0x1040, 0x1041, 0x107f}) EXPECT_TRUE(targets.contains(a)) << a;
  EXPECT_TRUE(targets.any_in(0, UINT64_MAX));
}

TEST(BranchTargets, OutsideTheTextAreIgnored) {
  BranchTargets targets({{0x1000, 0x1001}});
  for (Address a : {Address{0}, Address{0xfff}, Address{0x1001}, UINT64_MAX}) {
    targets.add(a);
    EXPECT_FALSE(targets.contains(a)) << a;
  }
  EXPECT_FALSE(targets.any_in(0, UINT64_MAX));
}

TEST(BranchTargets, InOverlappingTextAreFoundOnce) {
  BranchTargets targets({{0x1000, 0x1100}, {0x1080, 0x1180}});
  targets.add(0x1090);
  EXPECT_TRUE(targets.contains(0x1090));
  EXPECT_FALSE(targets.contains(0x1091));
}

TEST(BranchTargets, AnUnresolvedJumpIsMarkedAtAFunctionsStart) {
  BranchTargets targets({{0x1000, 0x2000}});
  targets.mark_unresolved_jump(0x1100);
  EXPECT_TRUE(targets.has_unresolved_jump(0x1100));
  EXPECT_FALSE(targets.has_unresolved_jump(0x1101));
  EXPECT_FALSE(targets.contains(0x1100));
}

TEST(BranchTargets, OfAProcessAddToThoseOfTheFileWithoutChangingThem) {
  BranchTargets targets({{0x1000, 0x2000}});
  targets.add_callee(0x1100);
  const BranchTargets more = targets.with(std::vector<Address>{0x1200, 0x1100, 0x3000, 0x1200});
  EXPECT_TRUE(more.contains(0x1200));
  EXPECT_TRUE(more.any_in(0x11f0, 0x1201));
  EXPECT_FALSE(more.any_in(0x11f0, 0x1200));
  EXPECT_FALSE(more.contains(0x3000));
  EXPECT_TRUE(more.is_callee(0x1100));
  EXPECT_FALSE(more.is_callee(0x1200));
  EXPECT_FALSE(targets.contains(0x1200));
}

TEST(BranchTargets, AJumpIsUnresolvedIfItsCodeIsEnteredEvenByTheProcessAlone) {
  BranchTargets targets({{0x1000, 0x2000}});
  targets.add(0x1104);
  targets.mark_unresolved_jump_if_entered(0x1100, {0x1101, 0x1108});
  targets.mark_unresolved_jump_if_entered(0x1200, {0x1201, 0x1208});
  EXPECT_TRUE(targets.has_unresolved_jump(0x1100));
  EXPECT_FALSE(targets.has_unresolved_jump(0x1200));
  EXPECT_FALSE(targets.with(std::vector<Address>{0x1200, 0x1208}).has_unresolved_jump(0x1200));
  EXPECT_TRUE(targets.with(std::vector<Address>{0x1207}).has_unresolved_jump(0x1200));
  EXPECT_FALSE(targets.has_unresolved_jump(0x1200));
}

}  // namespace
}  // namespace pinprick::image
