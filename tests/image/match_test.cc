#include "image/match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "image/programs.h"

namespace pinprick::image {
namespace {

std::vector<Pattern> patterns(const std::vector<std::string>& texts,
                              PatternSyntax syntax = PatternSyntax::glob) {
  std::vector<Pattern> parsed;
  for (const std::string& text : texts) {
    auto pattern = Pattern::parse(text, syntax);
    EXPECT_TRUE(pattern) << text;
    if (pattern) parsed.push_back(*std::move(pattern));
  }
  return parsed;
}

class MatchPatterns : public testing::Test {
 protected:
  void load(const std::string& name) {
    auto file = load_file(program(name));
    ASSERT_TRUE(file);
    image_ = *std::move(file);
    path_ = program(name);
  }
  Matches match(const std::vector<std::string>& wanted,
                const std::vector<std::string>& excluded = {}) {
    return match_patterns(image_, patterns(wanted), patterns(excluded));
  }
  static std::vector<std::string> names(const Matches& matches) {
    std::vector<std::string> all;
    for (const Match& match : matches.matches) all.push_back(match.name());
    std::sort(all.begin(), all.end());
    return all;
  }

  ProcessImage image_;
  std::string path_;
};

TEST_F(MatchPatterns, FindTheFunctionByItsName) {
  load("basic_pie");
  const auto found = match({"run"});
  ASSERT_EQ(found.matches.size(), 1u);
  EXPECT_EQ(found.matches[0].name(), "run");
  EXPECT_EQ(found.matches[0].site, address_of(path_, "run"));
  EXPECT_TRUE(found.matches[0].at_entry());
  EXPECT_TRUE(found.unmatched.empty());
}

TEST_F(MatchPatterns, MatchAFunctionByAnyOfItsNamesOnce) {
  load("basic_pie");
  EXPECT_EQ(names(match({"alpha_alias"})), std::vector<std::string>{"alpha_alias"});
  EXPECT_EQ(match({"alpha*"}).matches.size(), 1u);
  EXPECT_EQ(match({"alpha", "alpha_alias"}).matches.size(), 1u);
}

TEST_F(MatchPatterns, FindEverySiteOfAnSdtPointByItsName) {
  load("points_pie");
  const auto found = match({"usdt:shop:order"});
  ASSERT_EQ(found.matches.size(), 2u);
  EXPECT_LT(found.matches[0].site, found.matches[1].site);
  for (const Match& one : found.matches) {
    EXPECT_EQ(one.name(), "shop:order") << "without an offset, wherever it is in its function";
    EXPECT_EQ(one.function_name, "shop:order");
    ASSERT_NE(one.point, nullptr);
    EXPECT_EQ(one.point->address + one.object->bias(), one.site);
    EXPECT_TRUE(one.function->range.contains(one.point->address));
    EXPECT_FALSE(one.at_entry());
  }
  EXPECT_EQ(names(match({"usdt:till", "usdt:points_pie:shop:e*"})),
            (std::vector<std::string>{"shop:end", "till:order"}));
}

TEST_F(MatchPatterns, OfPointsAndFunctionsAreMatchedSideBySideByAddress) {
  load("points_pie");
  const auto found = match({"usdt:shop:*", "main", "take"}, {"usdt:*:order", "main"});
  EXPECT_EQ(names(found), (std::vector<std::string>{"shop:begin", "shop:end", "shop:forms",
                                                    "shop:price", "take"}));
  EXPECT_TRUE(std::is_sorted(found.matches.begin(), found.matches.end(),
                             [](const Match& a, const Match& b) { return a.site < b.site; }));
  EXPECT_TRUE(found.unmatched.empty()) << "what is excluded was matched";
}

// gcc places the nop of shop:begin before all else in its function.
TEST_F(MatchPatterns, OfAPointAtAFunctionsEntryAndOfTheFunctionMeanOneSite) {
  load("points_pie");
  const auto point = match({"usdt:shop:begin"}), function = match({"work_off"});
  ASSERT_EQ(point.matches.size(), 1u);
  ASSERT_EQ(function.matches.size(), 1u);
  if (point.matches[0].site != function.matches[0].site)
    GTEST_SKIP() << "the compiler has placed the point elsewhere";
  EXPECT_EQ(names(match({"usdt:shop:begin", "work_off"})), std::vector<std::string>{"work_off"});
}

TEST_F(MatchPatterns, OfPointsThatAreNotThereMatchNothing) {
  load("points_pie");
  EXPECT_EQ(match({"usdt:nix:*", "usdt:shop:begin", "usdt:libc:shop:*"}).unmatched,
            (std::vector<size_t>{0, 2}));
}

TEST_F(MatchPatterns, ReportWhichOfThemMatchedNothing) {
  load("basic_pie");
  const auto found = match({"nothing_*", "run", "libother:run"});
  EXPECT_EQ(found.unmatched, (std::vector<size_t>{0, 2}));
  ASSERT_EQ(found.matches.size(), 1u);
  EXPECT_EQ(found.matches[0].pattern, 1u);
}

TEST_F(MatchPatterns, WithAnOffsetNameAnInstruction) {
  load("basic_pie");
  const auto found = match({"run+0x4"});
  ASSERT_EQ(found.matches.size(), 1u);
  EXPECT_EQ(found.matches[0].site, address_of(path_, "run").value() + 4);
  EXPECT_EQ(found.matches[0].name(), "run+0x4");
  EXPECT_FALSE(found.matches[0].at_entry());
}

TEST_F(MatchPatterns, LeaveOutExcludedFunctionsWithoutReportingThemUnmatched) {
  load("basic_pie");
  const auto found = match({"run"}, {"ru?"});
  EXPECT_TRUE(found.matches.empty());
  EXPECT_TRUE(found.unmatched.empty());
  // An exclusion by any of its names excludes the function.
  EXPECT_TRUE(match({"alpha"}, {"alpha_alias"}).matches.empty());
  EXPECT_EQ(match({"run"}, {"libother:run"}).matches.size(), 1u);
}

TEST_F(MatchPatterns, WithAnObjectSearchOnlyThere) {
  load("libbasic.so.1");
  EXPECT_EQ(match({"libbasic:run"}).matches.size(), 1u);
  EXPECT_EQ(match({"libbasic.so.1:run"}).matches.size(), 1u);
  EXPECT_TRUE(match({"basic:run"}).matches.empty());
}

TEST_F(MatchPatterns, ShowCxxNamesWithoutSignatureUnlessTheyShareIt) {
  load("throws_pie");
  EXPECT_EQ(names(match({"main"})), std::vector<std::string>{"main"});
  EXPECT_EQ(names(match({"catcher(int)"})), std::vector<std::string>{"catcher"});
}

TEST_F(MatchPatterns, WithAStarFindEveryFunctionOfTheObject) {
  load("basic_pie");
  std::set<Address> sites;
  for (const Match& found : match({"*"}).matches) sites.insert(found.site);
  for (const char* name : {"alpha", "weak_one", "local_one", "run", "main", "_start"})
    EXPECT_TRUE(sites.contains(address_of(path_, name).value())) << name;
}

TEST_F(MatchPatterns, FindStrippedFunctionsByTheirAddress) {
  const Scratch scratch;
  const std::string stripped = scratch / "bare";
  ASSERT_EQ(run_shell("strip -s -o " + stripped + " " + program("basic_pie")).status, 0);
  auto file = load_file(stripped);
  ASSERT_TRUE(file);
  image_ = *std::move(file);
  const Address run = address_of(program("basic_pie"), "run").value();
  std::ostringstream address;
  address << "0x" << std::hex << run;
  for (const std::string& wanted : {address.str(), "bare+" + address.str()}) {
    const auto regex =
        match_patterns(image_,
                       patterns({wanted.starts_with("0x") ? wanted : "bare." + address.str()},
                                PatternSyntax::regex),
                       {});
    ASSERT_EQ(regex.matches.size(), 1u) << wanted;
    EXPECT_EQ(regex.matches[0].site, run);
  }
}

TEST_F(MatchPatterns, TellMissingFunctionsFromUnreadableObjects) {
  load("basic_pie");
  image_.unreadable.push_back({{"libodd.so.2"}, {}});
  const auto found = match({"libodd:f", "libeven:f", "f"});
  EXPECT_EQ(found.only_unreadable, std::vector<size_t>{0});
  EXPECT_EQ(found.unmatched, (std::vector<size_t>{1, 2}));
}

}  // namespace
}  // namespace pinprick::image
