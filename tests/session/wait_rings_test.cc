#include "session/wait_rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pinprick::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::vector<size_t>> rings(const std::vector<WaitsFor>& waits) {
  return wait_rings(waits);
}

TEST(WaitRings, ThreadsThatWaitInARowAreNoRing) {
  EXPECT_THAT(rings({}), IsEmpty());
  EXPECT_THAT(rings({{1, 2}, {2, 3}, {3, 4}}), IsEmpty());
  EXPECT_THAT(rings({{1, 0}, {2, 1}}), IsEmpty());
}

TEST(WaitRings, AThreadMayWaitForItself) {
  EXPECT_THAT(rings({{1, 2}, {2, 2}}), ElementsAre(ElementsAre(1)));
}

TEST(WaitRings, EachWaitsForTheNextOne) {
  const std::vector<WaitsFor> waits = {{5, 7}, {9, 5}, {7, 9}};
  const auto found = rings(waits);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_THAT(found[0], UnorderedElementsAre(0, 1, 2));
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(waits[found[0][i]].owner, waits[found[0][(i + 1) % 3]].thread);
}

TEST(WaitRings, WhoWaitsForARingIsNotInIt) {
  EXPECT_THAT(rings({{1, 2}, {2, 3}, {3, 2}, {4, 1}}), ElementsAre(UnorderedElementsAre(1, 2)));
}

TEST(WaitRings, TwoRingsAreTold) {
  EXPECT_THAT(rings({{1, 2}, {2, 1}, {3, 4}, {4, 3}}),
              UnorderedElementsAre(UnorderedElementsAre(0, 1), UnorderedElementsAre(2, 3)));
}

}  // namespace
}  // namespace pinprick::session
