#include "cli/measure/leak_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/pattern_options.h"
#include "session/selection.h"

namespace pinprick::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;

Options options() {
  return options_of("leaks");
}

std::vector<std::string> patterns(const Options& options) {
  return made_patterns(leak_patterns, options);
}

TEST(LeakPatterns, AnAllocationIsToldWhenItReturnsAndAFreeWhenItIsCalled) {
  const auto all = patterns(options());
  EXPECT_THAT(all, Contains("malloc%return new=$retval size=$arg1 stack=$stack:5 if $retval!=0"));
  EXPECT_THAT(all, Contains("calloc%return new=$retval size=$arg1*$arg2 stack=$stack:5 if "
                            "$retval!=0"));
  EXPECT_THAT(all, Contains("free old=$arg1 if $arg1!=0"));
}

TEST(LeakPatterns, AReallocationIsToldWhenItBeginsAndWhateverItReturns) {
  const auto all = patterns(options());
  EXPECT_THAT(all, Contains("realloc moved=$arg1 if $arg1!=0"));
  EXPECT_THAT(all, Contains("realloc%return new=$retval old=$arg1 size=$arg2 stack=$stack:5"));
}

TEST(LeakPatterns, NamedFunctionsTakeThePlaceOfTheFamily) {
  Options named = options();
  named.allocators = {"libpool:pool_get $arg2 if $arg1==7"};
  named.releasers = {"libpool:pool_put $arg2", "put_all"};
  named.min_size = 64;
  EXPECT_THAT(
      patterns(named),
      ElementsAre("libpool:pool_get%return new=$retval size=$arg2 stack=$stack:5 if "
                  "($arg1==7) && $retval!=0 && ($arg2)>=64",
                  "libpool:pool_put old=$arg2 if ($arg2)!=0", "put_all old=$arg1 if ($arg1)!=0"));
}

TEST(LeakPatterns, WhatIsNoFunctionWithOneExpressionIsRefused) {
  for (const char* text : {"", "f%return", "f $arg1 $arg2", "f..g"}) {
    Options named = options();
    named.allocators = {text};
    EXPECT_FALSE(static_cast<bool>(leak_patterns(named))) << text;
    named.allocators = {"f"};
    named.releasers = {text};
    EXPECT_FALSE(static_cast<bool>(leak_patterns(named))) << text;
  }
}

// Each is one that `trace` understands, with all options that add to its condition.
TEST(LeakPatterns, AllOfThemCanBeParsed) {
  for (const uint32_t sample : {1U, 2U, 7U, 65536U}) {
    Options all = options();
    all.sample = sample;
    all.min_size = 100;
    session::SelectionSpec spec;
    spec.measures = {{{}, placement::Kind::event, patterns(all)}};
    EXPECT_TRUE(static_cast<bool>(session::parse_selection(spec))) << sample;
  }
}

// Blocks of any size have addresses at equal distances, which must not be in one class.
TEST(LeakPatterns, ClassesHaveEqualPartsOfAllBlocks) {
  constexpr uint64_t kBlocks = 100'000;
  for (const uint64_t distance : {16, 32, 48, 64, 112, 4096, 65536})
    for (const uint32_t classes : {2U, 3U, 16U, 100U}) {
      uint64_t followed = 0;
      for (uint64_t i = 0; i < kBlocks; ++i)
        followed += is_followed(0x7f1234000010 + i * distance, classes);
      const double share = static_cast<double>(followed) * classes / kBlocks;
      EXPECT_NEAR(share, 1, 0.1) << distance << " " << classes;
    }
  EXPECT_TRUE(is_followed(UINT64_MAX, 1));
}

TEST(LeakPatterns, AReallocationToNothingHasNotFailed) {
  EXPECT_TRUE(has_failed(0, 1));
  EXPECT_FALSE(has_failed(0, 0));
  EXPECT_FALSE(has_failed(16, 1));
}

}  // namespace
}  // namespace pinprick::cli
