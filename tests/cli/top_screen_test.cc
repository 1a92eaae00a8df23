#include "cli/top/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "cli/render/text_width.h"
#include "cli/top/painter.h"
#include "top_reports.h"

namespace pinprick::cli::top {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Kind = Key::Kind;

std::vector<std::string> texts_of(const std::vector<Line>& lines) {
  std::vector<std::string> texts;
  for (const Line& line : lines) texts.push_back(text_of(line));
  return texts;
}

std::vector<std::string> screen_of(const Model& model, size_t width = 80, size_t height = 24,
                                   bool unicode = true) {
  return texts_of(draw(model, {width, height}, unicode));
}

Model model_with(std::vector<session::Row> rows) {
  Model model;
  model.update(report_of(std::move(rows)), 1);
  model.settle();
  return model;
}

constexpr const char* kLongName =
    "std::map<std::string, std::vector<std::unique_ptr<net::Connection>>>::operator[](std::string "
    "const&)";

TEST(TopScreen, EveryLineFitsAndThereAreAsManyAsTheScreenHas) {
  Model model = model_with({calls_of(kLongName, 3, 1000), calls_of("größe_日本語_関数", 2, 1 << 20),
                            calls_of("f", 1, uint64_t{1} << 50)});
  for (const bool help : {false, true}) {
    if (help) model.press(key_of('?'));
    for (const bool unicode : {false, true})
      for (const size_t width : {1, 20, 79, 80, 81, 99, 100, 129, 130, 180, 200, 500})
        for (const size_t height : {1, 5, 23, 24, 25, 50, 100}) {
          const auto lines = draw(model, {width, height}, unicode);
          ASSERT_EQ(lines.size(), height);
          for (const Line& line : lines) ASSERT_LE(width_of(text_of(line)), width);
        }
  }
}

TEST(TopScreen, ARowHasItsFigures) {
  const auto lines = screen_of(model_with({calls_of("f", 250, 1000)}));
  EXPECT_THAT(lines, Contains(testing::AllOf(StartsWith(">     250 1.00us"), HasSubstr("100%"),
                                             testing::EndsWith(" f"))));
}

session::TimedCall in_flight(const char* function, Address address, uint64_t age_ns) {
  session::TimedCall call;
  call.function = {"server", function, address, "/bin/server"};
  call.age_ns = age_ns;
  return call;
}

TEST(TopScreen, OnWideOnesARowHasTheAgeOfItsOldestCallAlsoIfNoneHasEnded) {
  session::Row hangs = calls_of("hangs", 0, 0);
  hangs.name.address = 0x20;
  Model model;
  model.update(report_of({calls_of("f", 250, 1000), hangs}), 1);
  model.set_calls(42, {in_flight("f", 0, 2'000'000'000), in_flight("f", 0, 1'000),
                       in_flight("hangs", 0x20, 61'000'000'000), in_flight("other", 0x30, 1)});
  model.settle();
  const auto wide = screen_of(model, 100);
  EXPECT_THAT(wide, Contains(HasSubstr(" OLDEST LAST MINUTE")));
  EXPECT_THAT(wide, Contains(testing::AllOf(HasSubstr("  100%  2.00s "), testing::EndsWith(" f"))));
  EXPECT_THAT(wide, Contains(testing::AllOf(HasSubstr("  61.0s "), testing::EndsWith(" hangs"))));
  EXPECT_THAT(screen_of(model, 99), Not(Contains(HasSubstr("OLDEST"))));
  model.set_calls(42, {});
  model.settle();
  EXPECT_THAT(screen_of(model, 100), Not(Contains(HasSubstr("hangs"))));
}

TEST(TopScreen, TheOldestCallOfAStatisticIsThatOfItsOwnName) {
  Model model(false, RowKind::statistics);
  model.update(report_of({calls_of("query", 1, 1000, "latency of f"), calls_of("f", 1, 1000, "x")}),
               1);
  session::TimedCall call = in_flight("f", 0, 3'000'000'000);
  call.statistic = "query";
  model.set_calls(42, {call});
  model.settle();
  const auto lines = screen_of(model, 100);
  EXPECT_THAT(lines, Contains(testing::AllOf(HasSubstr(" 3.00s "), testing::EndsWith(" query"))));
  EXPECT_THAT(lines, Not(Contains(testing::AllOf(HasSubstr(" 3.00s "), testing::EndsWith(" f")))));
}

TEST(TopScreen, RowsOfStatisticsAreCalledSoWhateverTheyTime) {
  session::Row span = calls_of("", 3, 1000);
  span.kind = placement::Kind::span;
  Model model(false, RowKind::statistics);
  model.update(report_of({span, calls_of("f", 2, 1000)}), 1);
  model.settle();
  const auto lines = screen_of(model);
  EXPECT_THAT(lines[0], HasSubstr("2 statistics"));
  EXPECT_THAT(lines[1], HasSubstr("times/s"));
  EXPECT_THAT(lines[2], testing::AllOf(HasSubstr("TIMES/S"), HasSubstr("STATISTIC")));
}

TEST(TopScreen, ALongNameEndsWithAnEllipsis) {
  const Model model = model_with({calls_of(kLongName, 3, 1000)});
  EXPECT_THAT(screen_of(model), Contains(testing::EndsWith("std::map<std::string,…")));
  EXPECT_THAT(screen_of(model, 80, 24, false),
              Contains(testing::EndsWith("std::map<std::strin...")));
  EXPECT_THAT(screen_of(model, 200), Contains(testing::EndsWith("operator[](std::string const&)")));
}

TEST(TopScreen, ASmallScreenSaysHowLargeItHasToBe) {
  const auto lines = screen_of(model_with({calls_of("f", 1, 8)}), 60, 20);
  EXPECT_EQ(lines[0], "pinprick top needs 80x24, this is 60x20");
  for (size_t i = 1; i < lines.size(); ++i) EXPECT_EQ(lines[i], "");
}

TEST(TopScreen, WhatATerminalWouldObeyIsNotShown) {
  const auto lines =
      screen_of(model_with({calls_of("evil\033]0;title\a\x9b"
                                     "2Jname",
                                     1, 8)}));
  for (const std::string& line : lines)
    for (const char c : line) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  EXPECT_THAT(lines, Contains(HasSubstr("evil?]0;title??2Jname")));
}

TEST(TopScreen, WithoutUnicodeAllOfItIsAscii) {
  const auto lines = screen_of(model_with({calls_of("größe", 9, 1000)}), 120, 40, false);
  for (const std::string& line : lines)
    for (const char c : line) ASSERT_LT(static_cast<unsigned char>(c), 0x80) << line;
  EXPECT_THAT(lines, Contains(HasSubstr("#####")));
}

TEST(TopScreen, TheSelectedRowIsOnThePageAndHasItsHistogramBelow) {
  std::vector<session::Row> rows;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(fmt::format("function_{:02}", i));
  for (const std::string& name : names) rows.push_back(calls_of(name, 5, 100));
  Model model = model_with(std::move(rows));
  for (int i = 0; i < 57; ++i) model.press({Kind::down});
  const auto lines = screen_of(model);
  EXPECT_THAT(lines, Contains(testing::AllOf(StartsWith(">"), HasSubstr("function_57"))));
  EXPECT_THAT(lines, Contains(StartsWith("server:function_57")));
  EXPECT_THAT(lines, Contains(HasSubstr("█  100.0%")));
  model.press({Kind::enter});
  EXPECT_THAT(screen_of(model), Not(Contains(StartsWith("server:function_57"))));
}

TEST(TopScreen, AShortTableLeavesItsLinesToTheHistogram) {
  session::Row row = calls_of("f", 1, 1 << 10);
  for (uint64_t value = 1 << 10; value < 1 << 20; value += 100)
    row.distribution->histogram.record(value);
  const auto bars_in = [](const Model& model) {
    size_t bars = 0;
    for (const std::string& line : screen_of(model)) bars += line.find(" |") != line.npos ? 1 : 0;
    return bars;
  };
  std::vector<session::Row> many(20, row);
  EXPECT_EQ(bars_in(model_with({many.begin(), many.end()})), 6u);
  EXPECT_GT(bars_in(model_with({row})), 10u);
}

TEST(TopScreen, SeveralProcessesHaveAColumnWithTheirNumbers) {
  Model model;
  model.update(report_of({calls_of("f", 1, 8)}, 1, 42), 1);
  model.settle();
  EXPECT_THAT(screen_of(model), Not(Contains(HasSubstr("PID"))));
  model.update(report_of({calls_of("g", 1, 8)}, 1, 1234567), 1);
  model.settle();
  EXPECT_THAT(screen_of(model), Contains(HasSubstr("     PID")));
  EXPECT_THAT(screen_of(model), Contains(StartsWith("  1234567")));
  EXPECT_THAT(screen_of(model), Contains(StartsWith(">      42")));
}

TEST(TopScreen, RowsOfAnEndedProcessAreMarkedAndTheLastLineSaysSo) {
  Model model = model_with({calls_of("f", 1, 8)});
  model.set_ended(42);
  model.settle();
  const auto lines = screen_of(model);
  EXPECT_THAT(lines, Contains(testing::EndsWith("(ended) f")));
  EXPECT_EQ(lines.back(), "42 (server) has ended; q ends pinprick");
}

TEST(TopScreen, MarksRowsWhoseProbesAreOutOrWereOutToKeepABudget) {
  session::Row out = calls_of("f", 1, 8), was_out = calls_of("g", 1, 8);
  out.absences = std::vector<session::Absence>{{0.1, 0.2}, {0.5, {}}};
  was_out.absences = std::vector<session::Absence>{{0.1, 0.2}};
  Model model = model_with({out, was_out, calls_of("h", 1, 8)});
  auto lines = screen_of(model);
  EXPECT_THAT(lines, Contains(testing::EndsWith(" (out) f")));
  EXPECT_THAT(lines, Contains(testing::EndsWith(" (partial) g")));
  EXPECT_THAT(lines, Contains(testing::EndsWith(" h")));
  // In the next interval the first is back.
  model.update(report_of({calls_of("f", 1, 8), calls_of("g", 1, 8), calls_of("h", 1, 8)}), 2);
  model.settle();
  lines = screen_of(model);
  EXPECT_THAT(lines, Contains(testing::EndsWith(" (partial) f")));
  EXPECT_THAT(lines, Contains(testing::EndsWith(" (partial) g")));
}

TEST(TopScreen, SaysWhyThereIsNoRow) {
  Model model = model_with({calls_of("f", 0, 0)});
  EXPECT_THAT(screen_of(model), Contains(HasSubstr("no call yet")));
  type(model, "/x");
  EXPECT_THAT(screen_of(model), Contains(HasSubstr("matches the filter")));
}

TEST(TopScreen, TheLastLineShowsTheFilterThatIsTypedOrANote) {
  Model model = model_with({calls_of("f", 1, 8)});
  type(model, "/abc");
  EXPECT_THAT(screen_of(model).back(), StartsWith("filter: abc_"));
  model.press({Kind::enter});
  model.set_note("written to /tmp/x");
  EXPECT_EQ(screen_of(model).back(), "written to /tmp/x");
}

TEST(TopScreen, AFrozenScreenSaysSo) {
  Model model = model_with({calls_of("f", 1, 8)});
  EXPECT_THAT(screen_of(model), Not(Contains(HasSubstr("FROZEN"))));
  model.press(key_of(' '));
  EXPECT_THAT(screen_of(model), Contains(HasSubstr("FROZEN")));
}

// What a terminal does with the bytes of a painter, as far as painters use it.
class FakeTerminal {
 public:
  FakeTerminal(size_t lines) : lines_(lines) {}
  void take(const std::string& bytes) {
    for (size_t i = 0; i < bytes.size();) {
      if (bytes[i] != '\033') {
        lines_[line_] += bytes[i++];
        continue;
      }
      const size_t final = bytes.find_first_of("mHKJ", i);
      if (bytes[final] == 'H') line_ = std::stoul(bytes.substr(i + 2)) - 1;
      if (bytes[final] == 'K') lines_[line_].clear();
      if (bytes[final] == 'J') lines_.assign(lines_.size(), "");
      i = final + 1;
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
  size_t line_ = 0;
};

TEST(TopPainter, SendsOnlyTheLinesThatHaveChanged) {
  Painter painter(true);
  FakeTerminal terminal(3);
  terminal.take(painter.paint({{{"one"}}, {{"two", Style::bold}}, {{"three"}}}));
  EXPECT_THAT(terminal.lines(), testing::ElementsAre("one", "two", "three"));
  EXPECT_EQ(painter.paint({{{"one"}}, {{"two", Style::bold}}, {{"three"}}}), "");
  const std::string change = painter.paint({{{"one"}}, {{"2"}}, {{"three"}}});
  EXPECT_THAT(change, Not(HasSubstr("one")));
  EXPECT_THAT(change, Not(HasSubstr("three")));
  terminal.take(change);
  EXPECT_THAT(terminal.lines(), testing::ElementsAre("one", "2", "three"));
}

TEST(TopPainter, DrawsAllAgainOnAScreenThatIsUnknownOrHasAnotherSize) {
  Painter painter(true);
  const std::vector<Line> lines = {{{"one"}}, {{"two"}}};
  const std::string first = painter.paint(lines);
  painter.forget();
  EXPECT_EQ(painter.paint(lines), first);
  FakeTerminal terminal(3);
  terminal.take("garbage");
  terminal.take(painter.paint({{{"a"}}, {{"b"}}, {}}));
  EXPECT_THAT(terminal.lines(), testing::ElementsAre("a", "b", ""));
}

TEST(TopPainter, WithoutColoursUsesNone) {
  Painter painter(false);
  const std::string bytes = painter.paint({{{"bar", Style::bar}, {"warning", Style::warning}}});
  EXPECT_THAT(bytes, Not(testing::ContainsRegex("\033\\[[0-9;]*3[0-7]m")));
}

}  // namespace
}  // namespace pinprick::cli::top
