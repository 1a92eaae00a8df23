#include "compare/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/made_records.h"

namespace pinprick::compare {
namespace {

using testing::ElementsAre;

Fault fault_of(std::string_view line) {
  const auto record = parse_record(line);
  EXPECT_FALSE(record.ok()) << line;
  return record.ok() ? Fault::wrong_field : record.error();
}

TEST(Record, HasTheFiguresOfALine) {
  const auto record = parse_record(
      R"({"type":"latency","pid":2569,"seconds":0.25,"final":true,"object":"libz.so.1.2.13",)"
      R"("function":"deflateReset","address":27120,"file":"/lib/libz.so.1.2.13","at":"return",)"
      R"("if":"$arg1>0","count":3,"missed":2,"sum_ns":120.0,"bits":1,"slots":[[32,2,35],[48,1,50]],)"
      R"("version":1})");
  ASSERT_TRUE(record);
  ASSERT_TRUE(record->figures);
  const Figures& figures = *record->figures;
  EXPECT_EQ(figures.name.object, "libz") << "versions change with each release";
  EXPECT_EQ(figures.name.function, "deflateReset");
  EXPECT_TRUE(figures.name.at_return);
  EXPECT_EQ(figures.name.condition, "$arg1>0");
  EXPECT_EQ(figures.pid, 2569);
  EXPECT_DOUBLE_EQ(figures.seconds, 0.25);
  EXPECT_TRUE(figures.is_final);
  EXPECT_EQ(figures.calls, 3u);
  EXPECT_EQ(figures.losses[layout::Loss::missed], 2u);
}

// [16, 2, 17] is 2 calls of 35 ns together, or of 34.
TEST(Record, CompletesSumsThatAveragesHaveCutOff) {
  const auto record = parse_record(
      R"({"type":"latency","pid":1,"object":"o","function":"f","count":2,"sum_ns":35.0,"bits":3,)"
      R"("slots":[[16,2,17]],"version":1})");
  ASSERT_TRUE(record);
  EXPECT_LE(record->figures->histogram.sum(), 35);
  EXPECT_EQ(record->figures->histogram.average(stats::slot_of(17, 3)), 17u);
  const auto many = parse_record(
      R"({"type":"latency","pid":1,"object":"o","function":"f","count":1000,"sum_ns":17600.0,)"
      R"("bits":3,"slots":[[16,1000,17]],"version":1})");
  ASSERT_TRUE(many);
  EXPECT_NEAR(many->figures->histogram.sum(), 17600, 1);
}

TEST(Record, NamesStacksByTheirFunctionsAlone) {
  const auto record = parse_record(
      R"({"type":"count","pid":1,"object":"libc.so.6","function":"malloc","by":"stack","key":)"
      R"(["getdelim+0x6f","libselinux.so.1+0x805d","main+0x1"],"hits":1,"version":1})");
  ASSERT_TRUE(record);
  EXPECT_THAT(record->figures->name.frames,
              ElementsAre("getdelim", "libselinux.so.1+0x805d", "main"));
  EXPECT_EQ(record->figures->name.key, "");
}

TEST(Record, TellsKeysOfSeveralPartsFromStacks) {
  const auto record = parse_record(
      R"({"type":"count","pid":1,"object":"libc.so.6","function":"malloc","by":"caller,stack,size",)"
      R"("key":["main+0x1f",["f+0x2","main+0x1f"],24],"hits":1,"version":1})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->figures->name.key, "main, 24");
  EXPECT_THAT(record->figures->name.frames, ElementsAre("f", "main"));
}

TEST(Record, OfAStatisticHasItsName) {
  const auto record = parse_record(
      R"({"type":"statistic","pid":1,"name":"query","of":"f","count":1,"sum_ns":8.0,"bits":3,)"
      R"("slots":[[8,1,8]],"version":1})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->figures->name.function, "query");
  EXPECT_EQ(record->figures->name.kind, Kind::latency);
}

TEST(Record, IsRefusedIfItIsNotPinpricks) {
  EXPECT_EQ(fault_of("armed 1 function in 18ms"), Fault::not_json);
  EXPECT_EQ(fault_of(R"({"type":"count","pid":1,"obj)"), Fault::not_json);
  EXPECT_EQ(fault_of("[1, 2]"), Fault::not_a_record);
  EXPECT_EQ(fault_of(R"({"traceEvents":[]})"), Fault::not_a_record);
  EXPECT_EQ(fault_of(R"({"type":"count","version":2})"), Fault::other_version);
}

TEST(Record, IsRefusedIfAFieldIsMissingOrImpossible) {
  for (
      const char* line : {
          R"({"type":"count","pid":1,"object":"o","function":"f","version":1})",
          R"({"type":"count","pid":1,"object":"o","function":"f","hits":-1,"version":1})",
          R"({"type":"count","pid":1,"object":"o","function":"f","hits":1.5,"version":1})",
          R"({"type":"count","pid":1,"object":7,"function":"f","hits":1,"version":1})",
          R"({"type":"count","object":"o","function":"f","hits":1,"version":1})",
          R"({"type":"count","pid":1,"object":"o","function":"f","hits":1,"seconds":-1,"version":1})",
          R"({"type":"count","pid":4294967296,"object":"o","function":"f","hits":1,"version":1})",
          // No slot begins at 17, no value of this slot is 40, and there are not two calls.
          R"({"type":"latency","pid":1,"object":"o","function":"f","count":1,"sum_ns":17,"bits":0,"slots":[[17,1,17]],"version":1})",
          R"({"type":"latency","pid":1,"object":"o","function":"f","count":2,"sum_ns":17,"bits":3,"slots":[[16,1,17]],"version":1})",
          R"({"type":"latency","pid":1,"object":"o","function":"f","count":1,"sum_ns":17,"bits":6,"slots":[[16,1,17]],"version":1})",
          R"({"type":"latency","pid":1,"object":"o","function":"f","count":1,"sum_ns":17,"bits":3,"slots":[[16,1]],"version":1})",
          R"({"type":"latency","pid":1,"object":"o","function":"f","count":0,"sum_ns":0,"bits":3,"slots":[[16,0,17]],"version":1})",
          R"({"type":"latency","pid":1,"object":"o","function":"f","count":18446744073709551615,"sum_ns":0,"bits":3,"slots":[[16,18446744073709551615,17]],"version":1})",
      })
    EXPECT_EQ(fault_of(line), Fault::wrong_field) << line;
}

}  // namespace
}  // namespace pinprick::compare
