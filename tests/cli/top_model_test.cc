#include "cli/top/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "top_reports.h"

namespace pinprick::cli::top {
namespace {

using Names = std::vector<std::string>;
using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Key::Kind;

// fast: often, and short; slow: seldom, and most of the time; idle: never.
Model model_of_three() {
  Model model;
  model.update(report_of({calls_of("fast", 100, 10), calls_of("slow", 2, 5000),
                          calls_of("middle", 10, 100), calls_of("idle", 0, 0)}),
               1);
  model.settle();
  return model;
}

const Figures& figures_of(const Model& model, const std::string& name) {
  for (const size_t index : model.shown())
    if (model.row(index).name == name) return model.figures(index);
  ADD_FAILURE() << "no row " << name;
  return model.figures(0);
}

TEST(TopModel, FiguresAreThoseOfTheLastInterval) {
  Model model;
  model.update(report_of({calls_of("f", 4, 1000)}, 2), 2);
  model.update(report_of({calls_of("f", 6, 8), calls_of("g", 1, 52)}, 2), 4);
  model.settle();
  const Figures& f = figures_of(model, "f");
  EXPECT_EQ(f.calls, 6u);
  EXPECT_DOUBLE_EQ(f.rate, 3);
  EXPECT_DOUBLE_EQ(f.mean, 8);
  EXPECT_DOUBLE_EQ(f.maximum, 8);
  EXPECT_DOUBLE_EQ(f.share, 48.0 / 100);
}

TEST(TopModel, TheWholeTimeHasAllIntervals) {
  Model model;
  model.update(report_of({calls_of("f", 4, 16)}, 2), 2);
  model.update(report_of({calls_of("f", 6, 16)}, 2), 4);
  model.settle();
  model.press(key_of('i'));
  EXPECT_EQ(model.period(), Period::whole);
  EXPECT_EQ(figures_of(model, "f").calls, 10u);
  EXPECT_DOUBLE_EQ(figures_of(model, "f").rate, 2.5);
  model.press({Kind::tab});
  EXPECT_EQ(figures_of(model, "f").calls, 6u);
}

// outer's calls take 50 us each, of which inner's take 40.
TEST(TopModel, WithSelfTimesSharesAreThoseOfThem) {
  const auto self_of = [](const char* function, uint64_t calls, uint64_t ns, uint64_t self_ns) {
    session::Row row = calls_of(function, calls, ns);
    stats::Histogram self;
    for (uint64_t i = 0; i < calls; ++i) self.record(self_ns);
    row.self_time = std::move(self);
    return row;
  };
  Model model;
  for (const double now_s : {1, 2})
    model.update(
        report_of({self_of("outer", 4, 50'000, 10'000), self_of("inner", 4, 40'000, 40'000)}),
        now_s);
  model.settle();
  EXPECT_TRUE(model.has_self_times());
  EXPECT_DOUBLE_EQ(figures_of(model, "outer").share, 0.2);
  EXPECT_DOUBLE_EQ(figures_of(model, "outer").total, 40'000);
  EXPECT_DOUBLE_EQ(figures_of(model, "inner").share, 0.8);
  model.press(key_of('i'));
  EXPECT_DOUBLE_EQ(figures_of(model, "outer").total, 80'000);
}

// A statistic may be removed, and made anew with other steps.
TEST(TopModel, TheWholeTimeBeginsAnewWithAHistogramOfOtherSteps) {
  Model model;
  model.update(report_of({calls_of("f", 4, 16)}), 1);
  session::Row other = calls_of("f", 0, 0);
  other.distribution->histogram = stats::Histogram(5);
  other.distribution->histogram.record(100'000);
  model.update(report_of({other}), 2);
  model.settle();
  model.press(key_of('i'));
  EXPECT_EQ(figures_of(model, "f").calls, 1u);
}

TEST(TopModel, AFunctionThatAReportLeavesOutHasNoCallsInThatInterval) {
  Model model;
  model.update(report_of({calls_of("f", 4, 16), calls_of("g", 1, 16)}), 1);
  model.update(report_of({calls_of("g", 1, 16)}), 2);
  model.settle();
  EXPECT_EQ(figures_of(model, "f").calls, 0u);
  EXPECT_EQ(figures_of(model, "g").calls, 1u);
}

TEST(TopModel, FunctionsWithTheSameNameHaveRowsOfTheirOwn) {
  Model model;
  for (int second = 1; second <= 2; ++second)
    model.update(report_of({calls_of("init", 1, 16), calls_of("init", 5, 16)}), second);
  // Another object is loaded, and everything is at another place.
  model.update(
      report_of({calls_of("other", 1, 16), calls_of("init", 1, 16), calls_of("init", 5, 16)}), 3);
  model.settle();
  model.press(key_of('i'));
  model.press(key_of('c'));
  ASSERT_THAT(names_in(model), ElementsAre("init", "init", "other"));
  EXPECT_EQ(model.figures(model.shown()[0]).calls, 15u);
  EXPECT_EQ(model.figures(model.shown()[1]).calls, 3u);
}

TEST(TopModel, OrdersByTimeAtFirstAndByTheColumnOfAKey) {
  Model model = model_of_three();
  EXPECT_THAT(names_in(model), ElementsAre("slow", "fast", "middle"));
  model.press(key_of('c'));
  EXPECT_THAT(names_in(model), ElementsAre("fast", "middle", "slow"));
  model.press(key_of('m'));
  EXPECT_THAT(names_in(model), ElementsAre("slow", "middle", "fast"));
  model.press(key_of('m'));  // again: reversed
  EXPECT_THAT(names_in(model), ElementsAre("fast", "middle", "slow"));
  model.press(key_of('n'));
  EXPECT_THAT(names_in(model), ElementsAre("fast", "middle", "slow"));
  model.press(key_of('r'));
  EXPECT_THAT(names_in(model), ElementsAre("slow", "middle", "fast"));
}

TEST(TopModel, MovesTheOrderToTheColumnBesideAndStopsAtTheEnds) {
  Model model = model_of_three();
  EXPECT_EQ(model.sort_column(), Column::share);
  model.press(key_of('<'));
  EXPECT_EQ(model.sort_column(), Column::maximum);
  model.press({Kind::right});
  model.press({Kind::right});
  EXPECT_EQ(model.sort_column(), Column::name);
  model.press({Kind::right});
  EXPECT_EQ(model.sort_column(), Column::name);
  EXPECT_FALSE(model.is_reversed());
  for (int i = 0; i < 20; ++i) model.press({Kind::left});
  EXPECT_EQ(model.sort_column(), Column::rate);  // one process: no column of PIDs
}

TEST(TopModel, HidesFunctionsWithoutACallUntilAsked) {
  Model model = model_of_three();
  EXPECT_EQ(model.row_count(), 4u);
  EXPECT_EQ(model.called_rows(), 3u);
  model.press(key_of('a'));
  EXPECT_THAT(names_in(model), ElementsAre("slow", "fast", "middle", "idle"));
  model.press(key_of('a'));
  EXPECT_EQ(model.shown().size(), 3u);
}

TEST(TopModel, KeepsAFunctionThatIsNoLongerCalled) {
  Model model = model_of_three();
  model.update(report_of({calls_of("fast", 0, 0), calls_of("slow", 0, 0), calls_of("middle", 0, 0),
                          calls_of("idle", 0, 0)}),
               2);
  model.settle();
  EXPECT_EQ(model.shown().size(), 3u);
}

TEST(TopModel, FiltersByAPartOfTheNameWhileItIsTyped) {
  Model model = model_of_three();
  type(model, "/S");
  EXPECT_TRUE(model.edits_filter());
  type(model, "L");  // in any case
  EXPECT_THAT(names_in(model), ElementsAre("slow"));
  model.press({Kind::backspace});
  model.press({Kind::backspace});
  EXPECT_EQ(model.shown().size(), 3u);
  type(model, "q");  // text, not a key
  EXPECT_THAT(names_in(model), IsEmpty());
  model.press({Kind::escape});
  EXPECT_FALSE(model.edits_filter());
  EXPECT_EQ(model.shown().size(), 3u);
}

TEST(TopModel, KeepsAFilterUntilEscape) {
  Model model = model_of_three();
  type(model, "/middle");
  model.press({Kind::enter});
  EXPECT_FALSE(model.edits_filter());
  type(model, "c");
  EXPECT_THAT(names_in(model), ElementsAre("middle"));
  model.press({Kind::escape});
  EXPECT_EQ(model.shown().size(), 3u);
}

TEST(TopModel, BackspaceRemovesAWholeCharacter) {
  Model model = model_of_three();
  type(model, "/");
  model.press(key_of(U'ß'));
  EXPECT_EQ(model.filter(), "ß");
  model.press({Kind::backspace});
  EXPECT_EQ(model.filter(), "");
  model.press({Kind::backspace});
  EXPECT_EQ(model.filter(), "");
}

TEST(TopModel, TheSelectionStaysWithItsRow) {
  Model model = model_of_three();  // slow, fast, middle
  model.press({Kind::down});
  EXPECT_EQ(model.selected(), 1u);
  model.press(key_of('c'));  // fast, middle, slow
  EXPECT_EQ(model.selected(), 0u);
  model.press({Kind::end});
  EXPECT_EQ(model.selected(), 2u);
  model.press(key_of('t'));
  EXPECT_EQ(model.selected(), 0u);  // slow
}

TEST(TopModel, AtFirstTheSelectionIsTheFirstRowWhicheverItIs) {
  Model model = model_of_three();
  EXPECT_EQ(model.selected(), 0u);
  model.press(key_of('c'));
  EXPECT_EQ(model.selected(), 0u);
  model.press({Kind::end});
  model.press({Kind::home});
  model.press(key_of('t'));
  EXPECT_EQ(model.selected(), 0u);
}

TEST(TopModel, TheSelectionMovesByPagesAndNotBeyondTheEnds) {
  Model model;
  std::vector<session::Row> rows;
  const std::string names = "abcdefghijklmnopqrst";
  for (size_t i = 0; i < names.size(); ++i)
    rows.push_back(calls_of(std::string_view(names).substr(i, 1), 1, 16));
  model.update(report_of(std::move(rows)), 1);
  model.settle();
  model.set_page(8);
  model.press({Kind::page_down});
  EXPECT_EQ(model.selected(), 8u);
  model.press({Kind::page_down});
  model.press({Kind::page_down});
  EXPECT_EQ(model.selected(), 19u);
  model.press({Kind::down});
  EXPECT_EQ(model.selected(), 19u);
  model.press({Kind::page_up});
  EXPECT_EQ(model.selected(), 11u);
  model.press({Kind::page_up});
  model.press({Kind::page_up});
  EXPECT_EQ(model.selected(), 0u);
}

TEST(TopModel, APageScrollsOnlyAsFarAsTheSelectionNeeds) {
  Model model;
  std::vector<session::Row> rows;
  const std::string names = "abcdefghij";
  for (size_t i = 0; i < names.size(); ++i)
    rows.push_back(calls_of(std::string_view(names).substr(i, 1), 1, 16));
  model.update(report_of(std::move(rows)), 1);
  model.settle();
  model.set_page(4);
  for (int i = 0; i < 4; ++i) model.press({Kind::down});
  EXPECT_EQ(model.first_of_page(4), 1u);
  model.set_page(4);
  model.press({Kind::up});
  EXPECT_EQ(model.first_of_page(4), 1u);
  EXPECT_EQ(model.first_of_page(100), 0u);
}

TEST(TopModel, AFrozenScreenKeepsItsFiguresAndCanStillBeOrdered) {
  Model model = model_of_three();
  model.press(key_of(' '));
  EXPECT_TRUE(model.is_frozen());
  model.update(report_of({calls_of("fast", 1, 10), calls_of("slow", 1, 5000),
                          calls_of("middle", 1, 100), calls_of("idle", 7, 10)}),
               2);
  model.settle();
  EXPECT_EQ(figures_of(model, "fast").calls, 100u);
  EXPECT_DOUBLE_EQ(model.now_s(), 1);
  model.press(key_of('c'));
  EXPECT_THAT(names_in(model), ElementsAre("fast", "middle", "slow"));
  model.press(key_of('i'));
  EXPECT_EQ(figures_of(model, "fast").calls, 100u);
  model.press(key_of(' '));
  EXPECT_EQ(figures_of(model, "fast").calls, 101u);  // nothing was lost
  EXPECT_EQ(figures_of(model, "idle").calls, 7u);
}

TEST(TopModel, RowsOfAProcessThatHasEndedStay) {
  Model model;
  model.update(report_of({calls_of("f", 1, 16)}, 1, 42), 1);
  model.update(report_of({calls_of("f", 2, 16)}, 1, 43), 1);
  model.set_ended(42);
  model.update(report_of({calls_of("f", 3, 16)}, 1, 43), 2);
  model.settle();
  ASSERT_EQ(model.shown().size(), 2u);
  model.press(key_of('p'));
  EXPECT_TRUE(model.has_ended(model.row(model.shown()[0])));
  EXPECT_FALSE(model.has_ended(model.row(model.shown()[1])));
}

TEST(TopModel, KeysAskForWhatTheModelCannotDo) {
  Model model = model_of_three();
  EXPECT_EQ(model.press(key_of('q')), Request::quit);
  EXPECT_EQ(model.press(key_of('w')), Request::write);
  EXPECT_EQ(model.press({Kind::control, U'l'}), Request::redraw);
  EXPECT_EQ(model.press(key_of('z')), Request::none);
  EXPECT_EQ(model.press(key_of('?')), Request::none);
  EXPECT_TRUE(model.shows_help());
  EXPECT_EQ(model.press(key_of('w')), Request::none);  // leaves the help
  EXPECT_FALSE(model.shows_help());
}

TEST(TopModel, ANoteStaysUntilTheNextKey) {
  Model model = model_of_three();
  model.set_note("written");
  model.settle();
  EXPECT_EQ(model.note(), "written");
  model.press(key_of('z'));
  EXPECT_EQ(model.note(), "");
}

TEST(TopModel, MissedCallsAreSummedUpOverTheWholeTime) {
  Model model;
  auto row = calls_of("f", 1, 16);
  row.distribution->losses[layout::Loss::missed] = 3;
  model.update(report_of({row}), 1);
  model.update(report_of({row}), 2);
  model.settle();
  EXPECT_EQ(model.total_missed(), 6u);
}

TEST(TopModel, WithoutAnyReportKeysDoNoHarm) {
  Model model;
  model.settle();
  for (const Kind kind : {Kind::up, Kind::down, Kind::page_up, Kind::page_down, Kind::home,
                          Kind::end, Kind::enter, Kind::left, Kind::right})
    EXPECT_EQ(model.press({kind}), Request::none);
  EXPECT_EQ(model.selected(), 0u);
}

}  // namespace
}  // namespace pinprick::cli::top
