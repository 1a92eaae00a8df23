#include "export/html/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "export/html/json_text.h"
#include "export/html/recorded_calls.h"

namespace pinprick::exports {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string text_of(const Page& page) {
  std::string text;
  page.write([&](std::string_view part) { text += part; });
  return text;
}

size_t times_in(const std::string& text, const std::string& word) {
  size_t times = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++times;
  return times;
}

TEST(JsonText, HasNoCharacterThatHtmlKnows) {
  EXPECT_EQ(json_text("</script><!--&amp;"), "\"\\u003c/script\\u003e\\u003c!--\\u0026amp;\"");
}

TEST(JsonText, EscapesWhatJsonKnows) {
  EXPECT_EQ(json_text("\"\\\n\t"), R"("\"\\\u000a\u0009")");
  EXPECT_EQ(json_text("ü\xff"), "\"ü\ufffd\"");
}

TEST(JsonText, ShowsControlsAndMarksOfDirectionAsCharacters) {
  EXPECT_EQ(json_text(std::string_view("\0\x1b\x7f", 3)), "\"\u2400\u241b\u2421\"");
  EXPECT_EQ(json_text("a\u202eb\u2066\u200f\u061c\u2028\u0085\U000e0041"),
            "\"a\ufffdb\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\"");
  EXPECT_EQ(json_text("שלום\u2010"), "\"שלום\u2010\"");
}

TEST(Page, HasTheSameElementsWhateverNamesSay) {
  const std::string hostile = "</script><script>alert(1)</script>@script@@data@";
  const std::string plain = text_of(Page());
  Page page;
  page.add_fact(hostile, hostile);
  page.add_warning(hostile);
  const uint32_t function = page.add_function(hostile, hostile);
  Table table(hostile, {{hostile, Table::Kind::function}});
  table.begin_row();
  table.add(hostile);
  page.add(table);
  FlameGraph paths;
  paths.add(paths.after(FlameGraph::kNoPath, function), 1, 1);
  page.add(paths, hostile, hostile, hostile);
  Timeline timeline;
  timeline.add({.track = timeline.add_track(hostile, hostile), .function = function}, hostile);
  page.add(timeline);
  const std::string text = text_of(page);
  EXPECT_GT(text.size(), plain.size());
  for (const char* word : {"<script", "</script", "alert(1)</"})
    EXPECT_EQ(times_in(text, word), times_in(plain, word)) << word;
}

TEST(Page, LoadsNothingFromElsewhere) {
  const std::string text = text_of(Page());
  for (const char* word : {"src=", "href=", "@import", "url(", "fetch(", "innerHTML"})
    EXPECT_THAT(text, Not(HasSubstr(word)));
  EXPECT_THAT(text, HasSubstr("default-src 'none'"));
}

TEST(Page, HasRoomForSoManyFunctionsOrBytesOfNames) {
  Page many;
  while (many.has_room_for_functions()) many.add_function("f", "m");
  EXPECT_EQ(many.add_function("f", "m"), 65'536u);
  Page large;
  const std::string name(1 << 20, '<');  // each takes six bytes
  while (large.has_room_for_functions()) large.add_function(name, "m");
  EXPECT_EQ(large.add_function(name, "m"), 6u);
}

TEST(Table, KeepsTheFirstRowsAndCountsTheOthers) {
  Table few("t", {{"n", Table::Kind::count}}, {.rows = 2, .bytes = 100});
  Table small("t", {{"n", Table::Kind::count}}, {.rows = 9, .bytes = 1});
  for (Table* const table : {&few, &small})
    for (const uint64_t number : {7, 8, 9}) {
      table->begin_row();
      table->add(number);
    }
  EXPECT_THAT(few.json(), AllOf(HasSubstr("\"left_out\":1"), HasSubstr("\"rows\":[[7],\n[8]]")));
  EXPECT_THAT(small.json(), AllOf(HasSubstr("\"left_out\":2"), HasSubstr("\"rows\":[[7]]")));
}

TEST(Timeline, KeepsTheLongestAndOfEqualOnesTheEarliest) {
  Timeline timeline({.slices = 2, .bytes = 100});
  const uint32_t track = timeline.add_track("p", "t");
  for (const uint64_t duration : {1, 30, 5, 5, 2})
    timeline.add({.start_ns = 100 * duration, .duration_ns = duration, .track = track}, "");
  const std::string json = timeline.json();
  EXPECT_THAT(json, HasSubstr(R"("all":5,"kept":2)"));
  EXPECT_THAT(json, HasSubstr(R"("start":[400,2500],"duration":[5,30])"));
}

TEST(Timeline, LeavesOutTextsThatAreTooMuchAndCountsThem) {
  Timeline timeline({.slices = 10, .bytes = 8});
  const uint32_t track = timeline.add_track("p", "t");
  for (const char* told : {"12345678", "9", "12345678"}) timeline.add({.track = track}, told);
  EXPECT_THAT(timeline.json(), HasSubstr(R"("untold":1)"));
}

TEST(Timeline, HasOneTrackForAllBeyondTheLimit) {
  Timeline timeline({.slices = 10, .bytes = 8, .tracks = 2});
  for (const char* name : {"first", "second", "third", "fourth"}) {
    const uint32_t track = timeline.add_track("p", name);
    timeline.rename_track(track, std::string("new ") + name);
    timeline.add({.track = track}, "");
  }
  const std::string json = timeline.json();
  EXPECT_THAT(json, AllOf(HasSubstr("new first"), HasSubstr("new second")));
  EXPECT_THAT(json, HasSubstr(R"_("name":"(other)","start":[0,0])_"));
  EXPECT_THAT(json, AllOf(Not(HasSubstr("third")), Not(HasSubstr("fourth"))));
}

TEST(FlameGraph, TellsNoNewPathsBeyondTheLimit) {
  FlameGraph paths(2);
  const uint32_t first = paths.after(FlameGraph::kNoPath, 7), second = paths.after(first, 8);
  EXPECT_EQ(paths.after(second, 9), second);
  EXPECT_EQ(paths.after(first, 8), second);
  EXPECT_EQ(paths.left_out(), 1u);
}

// One thread's calls, with a nanosecond between events.
class Program {
 public:
  Program& entry(uint32_t function, uint64_t stack_pointer = 0) {
    return add({.of = TraceEvent::Of::entry, .stack_pointer = stack_pointer}, function, 0);
  }
  Program& ret(uint32_t function, uint64_t latency_ns) {
    return add({.of = TraceEvent::Of::ret, .latency_ns = latency_ns}, function, latency_ns);
  }
  RecordedCalls& calls() { return calls_; }

 private:
  Program& add(TraceEvent event, uint32_t function, uint64_t self_ns) {
    event.thread = {1, 2, "p", "t"};
    event.time_ns = ++time_ns_;
    calls_.add(event, function, self_ns);
    return *this;
  }
  RecordedCalls calls_;
  uint64_t time_ns_ = 1000;
};

TEST(RecordedCalls, HaveTheTimeWithoutTheCallsInThem) {
  Program program;
  program.entry(5).entry(6).ret(6, 30).entry(6).ret(6, 10).ret(5, 100);
  EXPECT_EQ(program.calls().paths().json(),
            R"("before":[0,1],"function":[5,6],"own":[60,40],"count":[1,2])");
}

TEST(RecordedCalls, HaveNoTimeIfTheirReturnIsNotKnown) {
  Program program;
  program.entry(5).entry(6).entry(7).ret(7, 10).ret(5, 100).entry(8);
  program.calls().finish();
  EXPECT_EQ(program.calls().unreturned(), 2u);
  EXPECT_EQ(program.calls().paths().json(),
            R"("before":[0,1,2,0],"function":[5,6,7,8],"own":[90,0,10,0],"count":[1,0,1,0])");
  EXPECT_THAT(program.calls().timeline().json(), HasSubstr(R"("unreturned":[1,3])"));
}

TEST(RecordedCalls, EndWhenTheStackIsAboveThem) {
  Program program;
  program.entry(5, 4096).entry(6, 4000).entry(7, 4048);
  program.calls().finish();
  // 7 lies in 5, as the stack of 6 is gone.
  EXPECT_THAT(program.calls().paths().json(), HasSubstr(R"("before":[0,1,1])"));
}

TEST(RecordedCalls, BeyondTheMostThatAreOpenAreAddedWhenTheyReturn) {
  constexpr size_t kOpen = 1 << 16, kCalls = kOpen + 10;
  Program program;
  for (size_t i = 0; i < kCalls; ++i) program.entry(5);
  program.ret(6, 1);
  program.calls().finish();
  EXPECT_EQ(program.calls().unreturned(), kOpen);
  EXPECT_THAT(program.calls().timeline().json(), HasSubstr("\"all\":" + std::to_string(kOpen + 1)));
}

}  // namespace
}  // namespace pinprick::exports
