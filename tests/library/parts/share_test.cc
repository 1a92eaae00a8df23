#include "library/probes/share.h"

#include <gtest/gtest.h>

namespace pinprick::library {
namespace {

TEST(Share, HasWhatWasCountedWhileItWasStarted) {
  Share<uint64_t> share;
  share.reset(10);
  EXPECT_EQ(share.of(15), 0u);  // not started yet
  share.start(20);
  EXPECT_EQ(share.of(25), 5u);
  share.stop(30);
  EXPECT_EQ(share.of(100), 10u);
  share.start(40);
  EXPECT_EQ(share.of(41), 11u);
  share.stop(42);
  EXPECT_EQ(share.of(1000), 12u);
}

TEST(Share, StaysAsItIsIfStartedOrStoppedTwice) {
  Share<uint64_t> share;
  share.reset(0);
  share.start(10);
  share.start(20);
  EXPECT_EQ(share.of(30), 20u);
  share.stop(30);
  share.stop(40);
  EXPECT_EQ(share.of(50), 20u);
}

TEST(Share, BeginsAnewWhenItIsReset) {
  Share<uint64_t> share;
  share.reset(0);
  share.start(0);
  share.reset(7);
  EXPECT_EQ(share.of(9), 0u);
  share.start(9);
  EXPECT_EQ(share.of(10), 1u);
}

// The parts of a count are not read at the same moment.
TEST(Share, IsNeverBelowZero) {
  Share<uint64_t> share;
  share.reset(10);
  share.start(10);
  EXPECT_EQ(share.of(9), 0u);
}

TEST(Share, OfTimesHasEachOfTheirCounts) {
  Timings now;
  now.times.record(100);
  now.missed = 1;
  Share<Timings> share;
  share.reset(now);
  share.start(now);
  now.times.record(100);
  now.times.record(5000);
  now.missed = 3;
  now.unwound = 5;
  share.stop(now);
  now.times.record(7);
  now.abandoned = 9;
  share.start(now);
  now.times.record(7);
  const Timings own = share.of(now);
  EXPECT_EQ(own.times.count(), 3u);
  EXPECT_EQ(own.missed, 2u);
  EXPECT_EQ(own.unwound, 5u);
  EXPECT_EQ(own.abandoned, 0u);
}

}  // namespace
}  // namespace pinprick::library
