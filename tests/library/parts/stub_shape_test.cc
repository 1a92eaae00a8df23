#include "library/stub_shape.h"

#include <gtest/gtest.h>

namespace pinprick::library {
namespace {

TEST(StubShape, CoversWhatDoesNotMore) {
  const Shape counts = {.counts = true};
  const Shape both = {.counts = true, .behind = true};
  EXPECT_TRUE(both.covers(counts));
  EXPECT_TRUE(both.covers(both));
  EXPECT_TRUE(counts.covers({}));
  EXPECT_FALSE(counts.covers(both));
}

TEST(StubShape, WithAnotherDoesWhatEitherDoes) {
  const Shape all = Shape{.counts = true, .before = true}.with({.measures = true, .times = true});
  EXPECT_EQ(all, (Shape{.counts = true, .before = true, .measures = true, .times = true}));
}

TEST(StubShape, IsEmptyWhereNothingIsToBeDone) {
  EXPECT_TRUE(Shape{}.empty());
  EXPECT_FALSE(Shape{.times = true}.empty());
  EXPECT_FALSE(Shape{.behind = true}.empty());
}

}  // namespace
}  // namespace pinprick::library
