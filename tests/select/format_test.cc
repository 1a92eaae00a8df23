#include "select/format.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace pinprick::select {
namespace {

using Cause = FormatError::Cause;

// Words and values in turn.
std::vector<std::string> parts_of(std::string_view text) {
  auto format = parse_format(text);
  EXPECT_TRUE(format) << text;
  std::vector<std::string> all;
  if (!format) return all;
  for (const Format::Part& part : format->parts) {
    all.push_back(part.before);
    all.emplace_back(part.value);
  }
  all.push_back(format->end);
  return all;
}
FormatError error_of(std::string_view text) {
  const auto format = parse_format(text);
  EXPECT_FALSE(format) << text;
  return format ? FormatError() : format.error();
}

using Parts = std::vector<std::string>;

TEST(Format, IsWordsWithValuesBetweenThem) {
  EXPECT_EQ(parts_of(R"("opened {path:string} as {$retval}")"),
            (Parts{"opened ", "path:string", " as ", "$retval", ""}));
  EXPECT_EQ(parts_of(R"("{fd}{count}!")"), (Parts{"", "fd", "", "count", "!"}));
  EXPECT_EQ(parts_of(R"("hit")"), (Parts{"hit"}));
  EXPECT_EQ(parts_of(R"("")"), (Parts{""}));
}

TEST(Format, HasBracesAndQuotesThatAreWrittenTwiceOrAfterABackslash) {
  EXPECT_EQ(parts_of(R"("{{{fd}}} \"x\" \\ a\tb\n")"), (Parts{"{", "fd", "} \"x\" \\ a\tb\n"}));
}

TEST(Format, HasValuesWithSetsAndTextsInThem) {
  EXPECT_EQ(parts_of(R"("{fd in {1,2}} {path:string=="}\"{"}.")"),
            (Parts{"", "fd in {1,2}", " ", R"(path:string=="}\"{")", "."}));
}

TEST(Format, SaysWhereItIsWrong) {
  EXPECT_EQ(error_of(R"("a {fd")"), (FormatError{Cause::no_brace, 3}));
  EXPECT_EQ(error_of(R"("a { }")"), (FormatError{Cause::no_value, 3}));
  EXPECT_EQ(error_of(R"("a }")"), (FormatError{Cause::stray, 3}));
  EXPECT_EQ(error_of(R"("a \q")"), (FormatError{Cause::unknown, 3}));
  EXPECT_EQ(error_of(R"("a)"), (FormatError{Cause::no_end, 0}));
  EXPECT_EQ(error_of(R"("a\)"), (FormatError{Cause::unknown, 2}));
  EXPECT_EQ(error_of(R"("a" b)"), (FormatError{Cause::no_end, 0}));
}

TEST(Format, EndsAtItsClosingQuote) {
  EXPECT_EQ(end_of_quotes(R"("a b" c)"), 5u);
  EXPECT_EQ(end_of_quotes(R"("\"{x=="\""}" c)"), 13u);
  EXPECT_EQ(end_of_quotes(R"("a {{" b)"), 6u);
  EXPECT_EQ(end_of_quotes(R"("a)"), 2u);
  EXPECT_EQ(end_of_quotes(R"("a {b)"), 5u);
}

}  // namespace
}  // namespace pinprick::select
