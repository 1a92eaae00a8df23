#include "action/divisors.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace pinprick::action {
namespace {

constexpr auto kAtEntry = select::Arguments::of_function;

Computed computed(std::string_view text, select::Arguments arguments = kAtEntry) {
  if (text.empty()) return {};
  auto parsed = select::parse_expression(text, arguments);
  EXPECT_TRUE(parsed) << text;
  return parsed ? Computed{*std::move(parsed), std::string(text)} : Computed();
}

select::Expression required(Action action) {
  require_divisors(action);
  return action.condition.expression;
}
select::Expression expression(std::string_view text) {
  return computed(text).expression;
}

TEST(Divisors, AreComparedWithZeroBeforeAnythingIsDividedByThem) {
  EXPECT_EQ(required({.condition = computed("$arg1/$arg2>3")}),
            expression("$arg2 && $arg1/$arg2>3"));
  EXPECT_EQ(required({.kind = Kind::value, .value = computed("$arg1%($arg2-1)")}),
            expression("$arg2-1"));
  EXPECT_EQ(required({.key = computed("1/$arg1"),
                      .sum = computed("1/$arg2"),
                      .condition = computed("$arg3==1||$arg4==1")}),
            expression("$arg2 && $arg1 && ($arg3==1||$arg4==1)"));
}

TEST(Divisors, OfDivisorsComeFirst) {
  EXPECT_EQ(required({.value = computed("$arg1/($arg2/$arg3)")}),
            expression("$arg3 && $arg2/$arg3"));
}

TEST(Divisors, ThatAreNumbersNeedNoCondition) {
  EXPECT_TRUE(required({.value = computed("$arg1/8"), .key = computed("$arg1%3")}).empty());
  EXPECT_EQ(required({.condition = computed("$arg1/8")}), expression("$arg1/8"));
}

TEST(Divisors, OfATimedCallsKeyAreNotKnownAtItsEntry) {
  const auto key = computed("$arg1/$retval", select::Arguments::of_return);
  EXPECT_TRUE(required({.kind = Kind::latency, .key = key}).empty());
  EXPECT_FALSE(required({.kind = Kind::latency, .key = key, .at_return = true}).empty());
  EXPECT_FALSE(required({.kind = Kind::count, .key = key, .at_return = true}).empty());
}

}  // namespace
}  // namespace pinprick::action
