#include "base/rare.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace pinprick {
namespace {

const std::string kLong(100, 'x');

TEST(Rare, HasNoValueUntilItIsGivenOne) {
  Rare<std::string> rare;
  EXPECT_FALSE(rare);
  rare = std::optional<std::string>();
  EXPECT_FALSE(rare.has_value());
  rare = kLong;
  ASSERT_TRUE(rare);
  EXPECT_EQ(*rare, kLong);
  rare = {};
  EXPECT_FALSE(rare);
}

TEST(Rare, CopiesHaveValuesOfTheirOwn) {
  Rare<std::string> rare(std::optional<std::string>("one"));
  Rare<std::string> copy = rare;
  *copy = kLong;
  EXPECT_EQ(*rare, "one");
  rare = copy;
  copy->clear();
  EXPECT_EQ(*rare, kLong);
  const Rare<std::string>& itself = rare;
  rare = itself;
  EXPECT_EQ(*rare, kLong);
  const Rare<std::string> none = Rare<std::string>();
  rare = none;
  EXPECT_FALSE(rare);
}

TEST(Rare, IsEmptyAfterItsValueWasMovedAway) {
  std::vector<Rare<std::string>> all(1);
  all[0] = kLong;
  const Rare<std::string> moved = std::move(all[0]);
  EXPECT_EQ(*moved, kLong);
  EXPECT_FALSE(all[0]);
}

}  // namespace
}  // namespace pinprick
