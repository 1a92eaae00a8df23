#include "session/event_clock.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace pinprick::session {
namespace {

TEST(EventClock, GoesOnEvenlyBetweenTwoLooks) {
  EventClock clock;
  clock.add({1000, 50'000});
  clock.add({2000, 54'000});
  clock.add({3000, 55'000});
  EXPECT_EQ(clock.time_of(1000), 50'000U);
  EXPECT_EQ(clock.time_of(1500), 52'000U);
  EXPECT_EQ(clock.time_of(2000), 54'000U);
  EXPECT_EQ(clock.time_of(2500), 54'500U);
}

TEST(EventClock, AnEventsTimeDoesNotChangeWithLaterLooks) {
  EventClock clock;
  clock.add({1'000'000, 50'000'000});
  const uint64_t before_all = clock.time_of(999'000);
  clock.add({2'000'000, 54'000'000});
  const uint64_t between = clock.time_of(1'999'999);
  clock.add({3'000'000, 54'000'001});
  EXPECT_EQ(clock.time_of(999'000), before_all);
  EXPECT_EQ(clock.time_of(1'999'999), between);
  EXPECT_LE(between, clock.time_of(2'000'001));
}

TEST(EventClock, DoesNotGoBackWithTheSystemsClock) {
  EventClock clock;
  clock.add({1000, 50'000});
  clock.add({2000, 51'000});
  clock.add({3000, 40'000});
  EXPECT_EQ(clock.now_ns(), 51'000U);
  EXPECT_GE(clock.time_of(3000), 51'000U);
}

TEST(EventClock, KeepsTheTimesOfRecentEventsHoweverManyLooksThereWere) {
  EventClock clock;
  for (uint64_t i = 1; i <= 20'000; ++i) clock.add({1000 * i, 2000 * i});
  EXPECT_EQ(clock.time_of(19'000'500), 38'001'000U);
}

TEST(EventClock, LooksAtTheSystemsTime) {
  EventClock clock;
  const uint64_t before = realtime_ns();
  clock.look();
  EXPECT_GE(clock.now_ns(), before);
  EXPECT_LE(clock.now_ns(), realtime_ns());
}

}  // namespace
}  // namespace pinprick::session
