// What selections match in tests/targets/dlhost.c.
#include "session/matching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace pinprick::session {
namespace {

using placement::Kind;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using Remedy = NothingMatched::Remedy;

class Matching : public testing::Test {
 protected:
  Matching() {
    auto image = image::load_file(TARGETS "dlhost");
    EXPECT_TRUE(image);
    if (image) image_ = *std::move(image);
  }
  static Selection select(Kind kind, std::vector<std::string> wanted,
                          std::vector<std::string> excluded = {}) {
    SelectionSpec spec;
    spec.measures = {{{}, kind, std::move(wanted)}};
    spec.excluded = std::move(excluded);
    auto selection = parse_selection(spec);
    EXPECT_TRUE(selection);
    return selection ? *std::move(selection) : Selection();
  }
  std::vector<std::string> names(const Selection& selection, Unmatched unmatched,
                                 Loads loads = Loads::ignored) {
    const auto matches = match(image_, selection, unmatched, loads);
    EXPECT_TRUE(matches);
    std::vector<std::string> names;
    if (matches)
      for (const image::Match& one : *matches) names.push_back(one.name());
    return names;
  }
  NothingMatched why_nothing(const Selection& selection, Unmatched unmatched,
                             Loads loads = Loads::ignored) {
    const auto matches = match(image_, selection, unmatched, loads);
    EXPECT_FALSE(matches);
    if (matches) return {};
    return std::get<NothingMatched>(matches.error());
  }

  image::ProcessImage image_;
};

TEST_F(Matching, NamesAllPatternsThatMatchNothing) {
  const auto why =
      why_nothing(select(Kind::count, {"main", "nowhere", "call", "no*"}), Unmatched::refuse);
  EXPECT_THAT(why.patterns, ElementsAre("nowhere", "no*"));
  EXPECT_EQ(why.remedy, Remedy::accept);
}

TEST_F(Matching, GoesOnWithTheRestIfThatIsAccepted) {
  EXPECT_THAT(names(select(Kind::count, {"main", "nowhere"}), Unmatched::accept),
              ElementsAre("main"));
}

TEST_F(Matching, HasNoRemedyForNoMatchUnlessLoadsAreTracked) {
  const Selection selection = select(Kind::count, {"nowhere"});
  EXPECT_EQ(why_nothing(selection, Unmatched::refuse).remedy, Remedy::none);
  EXPECT_EQ(why_nothing(selection, Unmatched::accept).remedy, Remedy::none);
  EXPECT_EQ(why_nothing(selection, Unmatched::refuse, Loads::tracked).remedy, Remedy::await_loads);
  EXPECT_THAT(names(selection, Unmatched::accept, Loads::tracked), IsEmpty());
}

TEST_F(Matching, NamesNoPatternIfEveryMatchIsExcluded) {
  EXPECT_THAT(why_nothing(select(Kind::count, {"main"}, {"ma*"}), Unmatched::refuse).patterns,
              IsEmpty());
}

TEST_F(Matching, ReturnsThePatternOfEachPointOfASpan) {
  const auto spans =
      match_spans(image_, select(Kind::span, {"main..call", "call..main"}), Unmatched::refuse);
  ASSERT_TRUE(spans);
  ASSERT_THAT(*spans, SizeIs(2));
  const auto& second = (*spans)[1];
  EXPECT_EQ(second.text, "call..main");
  EXPECT_EQ(second.starts.at(0).name(), "call");
  EXPECT_EQ(second.starts.at(0).pattern, 2u);
  EXPECT_EQ(second.ends.at(0).name(), "main");
  EXPECT_EQ(second.ends.at(0).pattern, 3u);
}

TEST_F(Matching, RefusesAPointThatMatchesSeveralPlaces) {
  const auto spans = match_spans(image_, select(Kind::span, {"main..c*"}), Unmatched::accept);
  ASSERT_FALSE(spans);
  const auto& ambiguous = std::get<AmbiguousPoint>(spans.error());
  EXPECT_EQ(ambiguous.span, "main..c*");
  EXPECT_EQ(ambiguous.point, "c*");
  EXPECT_GE(ambiguous.matches, ambiguous.some.size());
  EXPECT_THAT(ambiguous.some,
              testing::Contains(testing::MatchesRegex("dlhost\\+0x[0-9a-f]+ \\(call\\)")));
}

TEST_F(Matching, LeavesOutSpansWithAnUnmatchedPointIfThatIsAccepted) {
  const Selection selection = select(Kind::span, {"main..nowhere", "main..call"});
  const auto refused = match_spans(image_, selection, Unmatched::refuse);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(std::holds_alternative<NothingMatched>(refused.error()));
  const auto spans = match_spans(image_, selection, Unmatched::accept);
  ASSERT_TRUE(spans);
  ASSERT_THAT(*spans, SizeIs(1));
  EXPECT_EQ(spans->front().text, "main..call");
}

TEST_F(Matching, ExpectsNoLaterMatchesOfPatternsThatNameTheProgram) {
  EXPECT_FALSE(may_match_later(image_, select(Kind::count, {"dlhost:call"})));
  EXPECT_TRUE(may_match_later(image_, select(Kind::count, {"dlhost:call", "plugin:f"})));
  EXPECT_TRUE(may_match_later(image_, select(Kind::count, {"call"})));
  EXPECT_TRUE(may_match_later(image_, select(Kind::count, {"*:call"}))) << "more than the program";
  EXPECT_TRUE(may_match_later(image_, select(Kind::count, {"dl*t:call"})));
  EXPECT_TRUE(may_match_later(image_, select(Kind::count, {"usdt:d?host:p:n"})));
}

}  // namespace
}  // namespace pinprick::session
