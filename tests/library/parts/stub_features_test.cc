#include "library/probes/stub_features.h"

#include <gtest/gtest.h>

namespace pinprick::library {
namespace {

TEST(StubFeatures, CoverTheirSubsets) {
  const StubFeatures counts = {.counts = true};
  const StubFeatures both = {.counts = true, .after = true};
  EXPECT_TRUE(both.covers(counts));
  EXPECT_TRUE(both.covers(both));
  EXPECT_TRUE(counts.covers({}));
  EXPECT_FALSE(counts.covers(both));
}

TEST(StubFeatures, WithOthersAreTheUnion) {
  const StubFeatures all =
      StubFeatures{.counts = true, .before = true}.with({.measures = true, .times = true});
  EXPECT_EQ(all, (StubFeatures{.counts = true, .before = true, .measures = true, .times = true}));
}

TEST(StubFeatures, AreEmptyIfNothingIsToBeDone) {
  EXPECT_TRUE(StubFeatures{}.empty());
  EXPECT_FALSE(StubFeatures{.times = true}.empty());
  EXPECT_FALSE(StubFeatures{.after = true}.empty());
}

}  // namespace
}  // namespace pinprick::library
