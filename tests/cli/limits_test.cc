#include "cli/measure/limits.h"

#include <gtest/gtest.h>

namespace pinprick::cli {
namespace {

constexpr uint64_t kUs = 1'000, kMs = 1'000'000, kS = 1'000'000'000;

std::string limited(std::string_view text, Limits limits = {}) {
  const auto result = with_limits(text, limits);
  return result ? *result : "error: " + result.error().cause;
}

TEST(Limits, AreConditionsAtTheReturn) {
  EXPECT_EQ(limited("libc:read", {kMs, {}}), "libc:read%return if $latency>=1ms");
  EXPECT_EQ(limited("libc:read", {{}, 10 * kUs}), "libc:read%return if $latency<=10us");
  EXPECT_EQ(limited("read", {kUs, 2 * kS}), "read%return if $latency>=1us && $latency<=2s");
  EXPECT_EQ(limited("read", {1'500, {}}), "read%return if $latency>=1500ns");
  EXPECT_EQ(limited("read", {0, {}}), "read%return if $latency>=0ns");
  EXPECT_EQ(limited("f(int, char)", {kMs, {}}), "f(int, char)%return if $latency>=1ms");
  EXPECT_EQ(limited("read"), "read");
  EXPECT_EQ(limited("read if $arg1==1"), "read if $arg1==1");
}

TEST(Limits, HoldBesideAConditionThatIsThere) {
  EXPECT_EQ(limited("read if $arg1==1", {kMs, {}}), "read%return if $arg1==1 && $latency>=1ms");
  EXPECT_EQ(limited("read%return if $retval<0", {kMs, {}}),
            "read%return if $retval<0 && $latency>=1ms");
  EXPECT_EQ(limited("read if $arg1==1 || $arg2", {kMs, {}}),
            "read%return if ($arg1==1 || $arg2) && $latency>=1ms");
  // Registers are others at the return.
  EXPECT_EQ(limited("read if %rdi==1", {kMs, {}}), "error: bad_limit");
  EXPECT_EQ(limited("read%return if %rax==1", {kMs, {}}),
            "read%return if %rax==1 && $latency>=1ms");
}

TEST(Limits, MayEndATextOfMeasure) {
  EXPECT_EQ(limited("read --slower 1ms"), "read%return if $latency>=1ms");
  EXPECT_EQ(limited("read --slower=1ms  --faster 2ms "),
            "read%return if $latency>=1ms && $latency<=2ms");
  EXPECT_EQ(limited("read if $arg1==1 --faster 10us"), "read%return if $arg1==1 && $latency<=10us");
  EXPECT_EQ(limited("read --slower 1ms", {kS, {}}), "read%return if $latency>=1ms");
  for (const char* const wrong : {"read --slower", "read --slower 1h", "read --slower 1ms write",
                                  "read --slower1ms", "read --slower -1ms", "a..b --slower 1ms"})
    EXPECT_EQ(limited(wrong), "error: bad_limit") << wrong;
  EXPECT_TRUE(has_limits("read --faster 1ms"));
  EXPECT_FALSE(has_limits("read if $arg1--1"));
}

TEST(Times, AreInSecondsWithoutAUnit) {
  EXPECT_EQ(parse_time("1ms"), kMs);
  EXPECT_EQ(parse_time("1.5us"), 1'500u);
  EXPECT_EQ(parse_time("2"), 2 * kS);
  EXPECT_EQ(parse_time("0.3ms"), 300 * kUs);
  EXPECT_EQ(parse_time("7ns"), 7u);
  for (const char* const wrong : {"", "ms", "1m", "-1s", "1e30s", "nan", "1 ms"})
    EXPECT_EQ(parse_time(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace pinprick::cli
