// The numbers are those of Linux for x86-64.
#include "select/error_names.h"

#include <gtest/gtest.h>

namespace pinprick::select {
namespace {

TEST(ErrorNames, AreThoseOfBothSigns) {
  EXPECT_EQ(name_of_error(1), "EPERM");
  EXPECT_EQ(name_of_error(2), "ENOENT");
  EXPECT_EQ(name_of_error(133), "EHWPOISON");
  EXPECT_EQ(name_of_error(~uint64_t{0}), "-EPERM");
  EXPECT_EQ(name_of_error(static_cast<uint64_t>(-110)), "-ETIMEDOUT");
}

TEST(ErrorNames, AreThoseOfAnIntWhoseUpperHalfIsMissing) {
  EXPECT_EQ(name_of_error(0xfffffffe), "-ENOENT");
  EXPECT_EQ(name_of_error(uint64_t{1} << 32 | 2), std::nullopt);
}

TEST(ErrorNames, DoNotExistForOtherNumbers) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{41}, uint64_t{58}, uint64_t{134},
                                uint64_t{4096}, uint64_t{1} << 63, uint64_t{1} << 31})
    EXPECT_EQ(name_of_error(number), std::nullopt) << number;
}

TEST(ErrorNames, LeadBackToTheirNumbers) {
  for (uint64_t number = 1; number <= 133; ++number)
    if (const auto name = name_of_error(number)) {
      EXPECT_EQ(error_named(*name), number) << *name;
    }
  EXPECT_EQ(error_named("EWOULDBLOCK"), 11u);
  EXPECT_EQ(error_named("ENOTSUP"), 95u);
  EXPECT_EQ(error_named("EDEADLOCK"), 35u);
  for (const char* other : {"", "E", "ENOENTS", "enoent", "0", "EUNKNOWN"})
    EXPECT_EQ(error_named(other), std::nullopt) << other;
}

}  // namespace
}  // namespace pinprick::select
