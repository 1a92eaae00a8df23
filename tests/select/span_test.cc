#include "select/span.h"

#include <gtest/gtest.h>

#include <string>

namespace pinprick::select {
namespace {

TEST(Span, HasOnePointOnEachSideOfTwoDots) {
  for (const char* spec : {"a..b", "a .. b", " a..b "}) {
    EXPECT_TRUE(is_span(spec));
    const auto points = parse_span(spec);
    ASSERT_TRUE(points) << spec;
    EXPECT_EQ(*points, (SpanPoints{"a", "b"})) << spec;
  }
  EXPECT_EQ(*parse_span("libc:read+0x4..redis-server:ns::call"),
            (SpanPoints{"libc:read+0x4", "redis-server:ns::call"}));
}

TEST(Span, IsNotASignatureWithThreeDotsNorAName) {
  for (const char* spec : {"print(char const*, ...)", "a.part.0", "a", "", "....", "."})
    EXPECT_FALSE(is_span(spec)) << spec;
  EXPECT_EQ(*parse_span("print(char const*, ...)..f.cold"),
            (SpanPoints{"print(char const*, ...)", "f.cold"}));
}

TEST(Span, WithoutOneOfItsPointsIsAnError) {
  EXPECT_EQ(parse_span("..b").error(), SpanError::no_start);
  EXPECT_EQ(parse_span(" ..b").error(), SpanError::no_start);
  EXPECT_EQ(parse_span("a..").error(), SpanError::no_end);
  EXPECT_EQ(parse_span("a").error(), SpanError::no_end);
}

TEST(Span, OfThreePointsIsAnError) {
  EXPECT_EQ(parse_span("a..b..c").error(), SpanError::several);
  EXPECT_EQ(parse_span("core..fmt..Display..x").error(), SpanError::several);
}

TEST(Span, IsNotMadeByTheDotsOfACondition) {
  EXPECT_FALSE(is_span("read if $arg1 in {1..5}"));
  EXPECT_FALSE(is_span("read if($arg1 in {1..5})"));
  EXPECT_TRUE(is_span("read..write if $arg1 in {1..5}"));
}

}  // namespace
}  // namespace pinprick::select
