#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace pinprick {
namespace {

enum class Cause { absent, forbidden };

Result<int, Cause> parse_positive(int number) {
  if (number == 0) return fail(Cause::absent);
  if (number < 0) return fail(Cause::forbidden);
  return number;
}

TEST(Result, HoldsAValueOrTheReasonWhyThereIsNone) {
  const auto good = parse_positive(7);
  ASSERT_TRUE(good);
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);

  const auto bad = parse_positive(-7);
  EXPECT_FALSE(bad);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error(), Cause::forbidden);
  EXPECT_EQ(parse_positive(0).error(), Cause::absent);
}

TEST(Result, TellsValueAndErrorApartIfBothHaveTheSameType) {
  const Result<int, int> value = 3;
  const Result<int, int> error = fail(3);
  EXPECT_TRUE(value.ok());
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.error(), 3);
}

TEST(Result, CanGiveAwayAMoveOnlyValue) {
  Result<std::unique_ptr<int>, Cause> result = std::make_unique<int>(5);
  ASSERT_TRUE(result);
  EXPECT_EQ(**result, 5);
  const std::unique_ptr<int> mine = *std::move(result);
  EXPECT_EQ(*mine, 5);
}

TEST(Result, GivesAccessToMembersToReadAndChange) {
  Result<std::string, Cause> result = std::string("arm");
  result->append("ed");
  EXPECT_EQ(*result, "armed");
  EXPECT_EQ(result->size(), 5u);
}

TEST(Result, FailKeepsNoReferenceToItsArgument) {
  Result<int, std::string> result = 0;
  {
    std::string reason = "a reason that is too long to be kept inside the string itself";
    result = fail(reason);
    reason.assign(reason.size(), 'x');
  }
  EXPECT_EQ(result.error(), "a reason that is too long to be kept inside the string itself");
}

TEST(Result, OfVoidSucceedsByDefault) {
  const Result<void, Cause> done;
  EXPECT_TRUE(done);
  const Result<void, Cause> failed = fail(Cause::forbidden);
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.error(), Cause::forbidden);
}

using ResultDeathTest = testing::Test;

TEST(ResultDeathTest, TakingTheValueOfAFailureStopsTheController) {
  EXPECT_DEATH(
      {
        const auto bad = parse_positive(0);
        static_cast<void>(*bad);
      },
      "ok\\(\\)");
}

}  // namespace
}  // namespace pinprick
