#include "export/format.h"

#include <gtest/gtest.h>

namespace pinprick::exports {
namespace {

TEST(Format, FollowsFromTheEndOfTheName) {
  EXPECT_EQ(format_of("a/b.pftrace"), Format::perfetto);
  EXPECT_EQ(format_of("a/b.ctf"), Format::ctf);
  EXPECT_EQ(format_of("b.pb.gz"), Format::pprof);
  EXPECT_EQ(format_of("b.gz"), std::nullopt);
  EXPECT_EQ(format_of("prom"), std::nullopt);
}

TEST(Utf8, WholeCharactersStay) {
  EXPECT_EQ(as_utf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
            "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
}

// The examples are those of the Unicode standard, table 3-7 and section 3.9.
TEST(Utf8, OverlongFormsSurrogatesAndEndsWithinACharacterAreReplaced) {
  const std::string wrong = "\xef\xbf\xbd";
  EXPECT_EQ(as_utf8("\xc0\x80"), wrong + wrong);
  EXPECT_EQ(as_utf8("\xe0\x80\x80"), wrong + wrong + wrong);
  EXPECT_EQ(as_utf8("\xed\xa0\x80"), wrong + wrong + wrong);
  EXPECT_EQ(as_utf8("\xf4\x90\x80\x80"), wrong + wrong + wrong + wrong);
  EXPECT_EQ(as_utf8("x\xe2\x82"), "x" + wrong + wrong);
}

}  // namespace
}  // namespace pinprick::exports
