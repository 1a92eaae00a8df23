#include "export/csv.h"

#include <gtest/gtest.h>

namespace pinprick::exports {
namespace {

TEST(Csv, TextsWithCommasQuotesAndNewlinesAreQuoted) {
  EXPECT_EQ(csv_line({std::string("a"), std::string("b,c"), std::string("say \"x\"\ny")}),
            "a,\"b,c\",\"say \"\"x\"\"\ny\"\n");
}

TEST(Csv, NumbersAreWholeAndEmptyCellsStay) {
  EXPECT_EQ(csv_line({UINT64_MAX, int64_t{-5}, CsvCell(), 0.5}), "18446744073709551615,-5,,0.5\n");
}

TEST(Csv, ATextIsNoFormula) {
  EXPECT_EQ(csv_line({std::string("=1+1"), std::string("-x"), std::string("@a"), std::string("+")}),
            "'=1+1,'-x,'@a,'+\n");
}

TEST(Csv, ANegativeNumberThatIsATextStaysOne) {
  EXPECT_EQ(csv_line({std::string("-12"), std::string("-1-2"), std::string("-")}),
            "-12,'-1-2,'-\n");
}

TEST(Csv, WrongBytesAreReplaced) {
  EXPECT_EQ(csv_line({std::string("a\xff")}), "a\xef\xbf\xbd\n");
}

}  // namespace
}  // namespace pinprick::exports
