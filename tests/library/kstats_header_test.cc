// The header of recorded statistics, used through the shared library.
#include <gtest/gtest.h>
#include <pinprick/kstats.h>

#include <cerrno>
#include <utility>

#include "kstats_user.h"

namespace {

TEST(KstatsHeader, WorksFromC) {
  EXPECT_EQ(use_kstats_from_c(), 0);
}

TEST(KstatsHeader, OwnersRemoveTheirStatisticAtTheirEnd) {
  {
    pinprick::Kstats first("owned");
    ASSERT_TRUE(first);
    EXPECT_EQ(first.error(), 0);
    pinprick::Kstats moved(std::move(first));
    EXPECT_EQ(pinprick_kstats_find("owned"), moved.get());
    const pinprick::Kstats taken("owned");
    EXPECT_FALSE(taken);
    EXPECT_EQ(taken.error(), EEXIST);
  }
  EXPECT_EQ(pinprick_kstats_find("owned"), nullptr);
}

TEST(KstatsHeader, NothingHappensWithoutAStatistic) {
  pinprick::Kstats none("not a name");
  EXPECT_FALSE(none);
  EXPECT_EQ(none.error(), EINVAL);
  none.record(1);
  none.start();
  none.end();
  { const pinprick::Timer timer(none); }
  EXPECT_FALSE(none.reset());
  EXPECT_EQ(errno, EINVAL);
  EXPECT_TRUE(none.is_private());
}

}  // namespace
