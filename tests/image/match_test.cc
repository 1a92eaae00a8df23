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

// As aliases, and as functions that a linker has folded into one.
TEST_F(MatchPatterns, ShowEachNameThatWasAskedFor) {
  load("basic_pie");
  EXPECT_EQ(names(match({"alpha", "alpha_alias"})), std::vector<std::string>{"alpha, alpha_alias"});
  EXPECT_EQ(names(match({"alpha_alias", "run", "alpha"})),
            (std::vector<std::string>{"alpha_alias, alpha", "run"}));
  EXPECT_EQ(names(match({"alpha", "alpha"})), std::vector<std::string>{"alpha"});
  EXPECT_EQ(names(match({"alpha*", "alpha_alias"})), std::vector<std::string>{"alpha_alias"})
      << "a wildcard asks for no name";
  EXPECT_EQ(names(match({"alpha+0x0", "alpha_alias+0x0"})),
            std::vector<std::string>{"alpha, alpha_alias"});
  EXPECT_TRUE(match({"alpha", "alpha_alias"}, {"alpha"}).matches.empty());
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

std::string hexadecimal(uint64_t number) {
  std::ostringstream text;
  text << "0x" << std::hex << number;
  return text.str();
}

TEST_F(MatchPatterns, FindNamedFunctionsByTheirAddressToo) {
  load("basic_pie");
  const Address run = address_of(path_, "run").value();
  const std::string at = hexadecimal(run);
  for (const std::string& wanted :
       {"basic_pie+" + at, at, "basic_pie:" + at, "basic_pie:basic_pie+" + at, "basic*+" + at,
        "basic_pie+" + at.substr(0, at.size() - 1) + "?"}) {
    const auto found = match({wanted});
    ASSERT_EQ(found.matches.size(), 1u) << wanted;
    EXPECT_EQ(found.matches[0].site, run) << wanted;
    EXPECT_EQ(found.matches[0].name(), "run") << wanted;
    EXPECT_EQ(name_by_address(found.matches[0]), "basic_pie+" + at + " (run)");
  }
  EXPECT_EQ(names(match({"basic_pie+" + hexadecimal(run + 4)})),
            std::vector<std::string>{"run+0x4"});
  EXPECT_EQ(names(match({"basic_pie+" + at + "+0x4"})), std::vector<std::string>{"run+0x4"});
  EXPECT_EQ(match({"other+" + at, "basic_pie+0x7fffffff"}).unmatched, (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(match({"*"}, {"basic_pie+" + at}).matches.size() + 1 == match({"*"}).matches.size());
}

TEST_F(MatchPatterns, ByAddressMeanThisVeryCode) {
  load("basic_static");
  const auto resolver = match({"basic_static+" + hexadecimal(address_of(path_, "strlen").value())});
  ASSERT_EQ(resolver.matches.size(), 1u);
  EXPECT_TRUE(resolver.matches[0].function->ifunc) << "not what it would choose";
  EXPECT_FALSE(resolver.matches[0].unresolved);
}

TEST_F(MatchPatterns, ByWildcardsInAddressesLeaveOutParts) {
  const Scratch scratch;
  const std::string path = scratch / "parts";
  // As compilers name them.
  const std::string assemble =
      "printf '%s\\n' '.globl main' main: 'f.cold: ret' '.type f.cold,@function' '.size f.cold,1' "
      "'f: ret' '.type f,@function' '.size f,1' | gcc -x assembler -o " +
      path + " -";
  ASSERT_EQ(run_shell(assemble).status, 0) << assemble;
  auto file = load_file(path);
  ASSERT_TRUE(file);
  image_ = *std::move(file);
  const Address part = address_of(path, "f.cold").value();
  const auto is_matched = [&](const std::string& text) {
    auto parsed = patterns({text});
    parsed[0].leave_out_parts();
    for (const Match& one : match_patterns(image_, parsed, {}).matches)
      if (one.site == part) return true;
    return false;
  };
  EXPECT_FALSE(is_matched("parts+0x*"));
  EXPECT_FALSE(is_matched("*"));
  EXPECT_TRUE(is_matched("parts+" + hexadecimal(part)));
  EXPECT_TRUE(is_matched("f.cold"));
}

// Where a program has a function of its own name, its instructions come first.
TEST_F(MatchPatterns, OfAProgramAndItsFunctionOfThatNameMeanWhatIsThere) {
  const Scratch scratch;
  const std::string path = scratch / "run";
  ASSERT_EQ(run_shell("cp " + program("basic_pie") + " " + path).status, 0);
  auto file = load_file(path);
  ASSERT_TRUE(file);
  image_ = *std::move(file);
  EXPECT_EQ(names(match({"run+0x4"})), std::vector<std::string>{"run+0x4"});
  const Address alpha = address_of(path, "alpha").value();
  EXPECT_EQ(names(match({"run+" + hexadecimal(alpha)})), std::vector<std::string>{"alpha"});
}

// Static functions of several source files.
TEST_F(MatchPatterns, MarkFunctionsThatShareTheirName) {
  const Scratch scratch;
  const std::string path = scratch / "namesakes";
  const std::string build = "cd " + scratch.path() +
                            " && gcc -O1 -c -o a.o " IMAGE_SOURCES
                            "namesakes.c && "
                            "gcc -O1 -DSECOND -c -o b.o " IMAGE_SOURCES
                            "namesakes.c && "
                            "gcc -o namesakes a.o b.o";
  ASSERT_EQ(run_shell(build).status, 0);
  auto file = load_file(path);
  ASSERT_TRUE(file);
  image_ = *std::move(file);
  const auto found = match({"work", "main"});
  ASSERT_EQ(names(found), (std::vector<std::string>{"main", "work", "work"}));
  std::set<std::string> places;
  for (const Match& one : found.matches) {
    EXPECT_EQ(one.shares_name, one.name() == "work");
    places.insert(name_by_address(one));
    const std::string place = name_by_address(one).substr(0, name_by_address(one).find(' '));
    const auto alone = match({place});
    ASSERT_EQ(alone.matches.size(), 1u) << place;
    EXPECT_EQ(alone.matches[0].site, one.site);
    EXPECT_FALSE(alone.matches[0].shares_name);
  }
  EXPECT_EQ(places.size(), 3u);
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
