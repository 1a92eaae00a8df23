#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/render/text_width.h"
#include "cli/top/history.h"
#include "cli/top/locale.h"
#include "cli/top/notes.h"

namespace pinprick::cli::top {
namespace {

using testing::Each;

TEST(Text, OfSeveralLinesKeepsLinesTabsAndStylesButNoOtherCommandOfATerminal) {
  const std::string text = "a\tb\n\033[1mbold\033[0m\033[2J\033]0;title\a\033[31\n\r\xc2\x9b";
  EXPECT_EQ(printable_lines(text, true), "a\tb\n\033[1mbold\033[0m?[2J?]0;title??[31\n??");
  EXPECT_EQ(printable_lines(text, false), "a\tb\n?[1mbold?[0m?[2J?]0;title??[31\n??");
  EXPECT_EQ(printable_lines("\033", true), "?");
}

TEST(TopText, IsUtf8IfTheNameOfTheLocaleSaysSo) {
  for (const char* name : {"C.UTF-8", "de_DE.utf8", "de_DE.UTF-8@euro", "en_US.Utf-8"})
    EXPECT_TRUE(names_utf8(name)) << name;
  for (const char* name : {"C", "POSIX", "de_DE", "de_DE@euro", "de_DE.ISO-8859-1", "ja_JP.eucJP",
                           "de_DE.UTF-16", "utf8", ""})
    EXPECT_FALSE(names_utf8(name)) << name;
}

TEST(TopText, WidthIsInColumnsAndNotInBytes) {
  EXPECT_EQ(width_of(""), 0u);
  EXPECT_EQ(width_of("größe"), 5u);
  EXPECT_EQ(width_of("日本"), 4u);
  EXPECT_EQ(width_of("e\u0301"), 1u);
  EXPECT_EQ(width_of("▁█"), 2u);
}

TEST(TopText, IsShortenedAtAWholeCharacter) {
  EXPECT_EQ(shortened("größe", 5, true), "größe");
  EXPECT_EQ(shortened("größe", 4, true), "grö…");
  EXPECT_EQ(shortened("日本語", 4, true), "日…");
  EXPECT_EQ(shortened("abcdefg", 5, false), "ab...");
  EXPECT_EQ(shortened("abcdefg", 2, false), "..");
  EXPECT_EQ(shortened("abcdefg", 0, true), "");
}

TEST(TopText, IsFittedToExactlyTheColumns) {
  for (const std::string_view text : {"", "a", "größe", "日本語", "abcdefghij"})
    for (size_t columns = 0; columns < 12; ++columns) {
      EXPECT_EQ(width_of(fitted(text, columns, true)), columns) << text;
      EXPECT_EQ(width_of(fitted(printable(text, false), columns, false)), columns) << text;
    }
}

TEST(TopText, WrongAndDangerousCharactersBecomeQuestionMarks) {
  EXPECT_EQ(printable("a\nb\x1b[2Jc\x7f", true), "a?b?[2Jc?");
  EXPECT_EQ(printable("\xc3", true), "?");            // cut
  EXPECT_EQ(printable("\xc0\xaf", true), "??");       // too long a form
  EXPECT_EQ(printable("\xed\xa0\x80", true), "???");  // a surrogate
  EXPECT_EQ(printable("\xf5\x80\x80\x80", true), "????");
  EXPECT_EQ(printable("\u202ereversed\u009b", true), "?reversed?");
  EXPECT_EQ(printable("größe", true), "größe");
  EXPECT_EQ(printable("größe", false), "gr??e");
}

TEST(TopText, AnyCharacterSurvivesItsEncoding) {
  for (char32_t c : {U'a', U'ß', U'€', U'😀', char32_t{0x10ffff}, char32_t{0x7ff}, char32_t{0x800}})
    EXPECT_EQ(first_character(utf8_of(c)).character, c);
}

TEST(TopHistory, HasTheCallsOfEachSecond) {
  History history;
  for (int second = 0; second < 10; ++second) history.add(second, second + 1, second);
  const auto rates = history.rates(60, 10);
  ASSERT_EQ(rates.size(), 60u);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(rates[i], 0) << i;
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(rates[50 + i], static_cast<double>(i), 1e-4) << i;
}

TEST(TopHistory, ForgetsWhatIsOlderThanAMinute) {
  History history;
  history.add(0, 1, 1000);
  history.add(1, 100, 0);
  history.add(100, 101, 5);
  const auto rates = history.rates(60, 101);
  for (size_t i = 0; i < 59; ++i) EXPECT_EQ(rates[i], 0) << i;
  EXPECT_FLOAT_EQ(static_cast<float>(rates[59]), 5);
}

TEST(TopHistory, SpreadsALongIntervalEvenly) {
  History history;
  history.add(0, 20, 200);
  const auto rates = history.rates(60, 20);
  for (size_t i = 40; i < 60; ++i) EXPECT_NEAR(rates[i], 10, 1e-4) << i;
  history.add(20, 220, 2000);  // longer than what is kept, as after being suspended
  EXPECT_THAT(history.rates(60, 220), Each(testing::DoubleNear(10, 1e-4)));
}

TEST(TopHistory, AddsUpShortIntervals) {
  History history;
  for (int i = 0; i < 300; ++i) history.add(i * 0.2, (i + 1) * 0.2, 2);
  EXPECT_THAT(history.rates(12, 60), Each(testing::DoubleNear(10, 1e-3)));
}

TEST(TopHistory, IsEmptyAfterAMinuteWithoutNews) {
  History history;
  history.add(0, 1, 7);
  EXPECT_THAT(history.rates(30, 500), Each(0));
}

TEST(TopHistory, ASparklineIsInRelationToTheLargestRate) {
  EXPECT_EQ(sparkline({0, 1, 4, 8}, true), " ▁▄█");
  EXPECT_EQ(sparkline({0, 1, 4, 8}, false), " .=@");
  EXPECT_EQ(sparkline({0, 0.0001, 1000}, true), " ▁█");  // few is not none
  EXPECT_EQ(sparkline({0, 0}, true), "  ");
  EXPECT_EQ(sparkline({}, true), "");
}

TEST(TopNotes, KeepsWhatIsPrintedWhileAScreenIsShown) {
  testing::internal::CaptureStderr();
  Notes notes;
  std::fputs("before\n", notes.stream());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "before\n");
  testing::internal::CaptureStderr();
  notes.keep();
  EXPECT_EQ(notes.take_last_line(), "");
  std::fputs("one\ntwo\n", notes.stream());
  EXPECT_EQ(notes.take_last_line(), "two");
  EXPECT_EQ(notes.take_last_line(), "");
  std::fputs("three\n", notes.stream());
  EXPECT_EQ(notes.take_last_line(), "three");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  notes.release();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\ntwo\nthree\n");
}

}  // namespace
}  // namespace pinprick::cli::top
