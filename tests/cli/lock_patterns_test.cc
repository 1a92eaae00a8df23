#include "cli/measure/lock_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cli/pattern_options.h"
#include "session/selection.h"

namespace pinprick::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

Options options() {
  return options_of("locks");
}

std::vector<std::string> patterns(const Options& options) {
  return made_patterns(lock_patterns, options);
}

TEST(LockPatterns, ALockIsToldWhenItsCallReturnsAndAReleaseWhenItIsCalled) {
  const auto all = patterns(options());
  EXPECT_THAT(all, Contains("pthread_mutex_lock%return mutex=($arg1):sym kind=(*(u32*)($arg1+16)) "
                            "result=$retval:s32 stack=$stack:5"));
  EXPECT_THAT(all, Contains("pthread_mutex_unlock released=$arg1"));
  EXPECT_THAT(all, Contains("pthread_rwlock_tryrdlock%return tried_reading=($arg1):sym "
                            "result=$retval:s32 stack=$stack:5"));
}

TEST(LockPatterns, AWaitForAConditionIsToldAtItsBeginningAndAtItsEnd) {
  const auto all = patterns(options());
  EXPECT_THAT(all, Contains("pthread_cond_wait waits=$arg1 with=$arg2"));
  EXPECT_THAT(all, Contains("pthread_cond_wait%return waited=($arg1):sym with=$arg2 "
                            "result=$retval:s32 stack=$stack:5"));
}

TEST(LockPatterns, WithSlowerThereAreOnlyCallsThatWait) {
  Options own = options();
  own.limits.slower_ns = 1000;
  for (const std::string& text : patterns(own)) {
    EXPECT_NE(text.find("%return"), text.npos) << text;
    EXPECT_EQ(text.find("_try"), text.npos) << text;
  }
}

TEST(LockPatterns, NamedFunctionsTakeThePlaceOfAllOthers) {
  Options own = options();
  own.lockers = {"a:enter $arg2 if $retval==0"};
  own.unlockers = {"a:leave"};
  EXPECT_THAT(patterns(own),
              ElementsAre("a:enter%return own=($arg2):sym stack=$stack:5 if ($retval==0)",
                          "a:leave released=$arg1"));
}

TEST(LockPatterns, AFunctionIsNamedWithOneValueAtMostAndWithoutReturn) {
  for (const char* const text : {"", "f%return", "f $arg1 $arg2", "f..g"}) {
    Options own = options();
    own.lockers = {text};
    own.unlockers = {"leave"};
    EXPECT_FALSE(static_cast<bool>(lock_patterns(own))) << text;
    own.lockers = {"enter"};
    own.unlockers = {text};
    EXPECT_FALSE(static_cast<bool>(lock_patterns(own))) << text;
  }
}

TEST(LockPatterns, ALockWhoseOwnerHasEndedIsTaken) {
  EXPECT_TRUE(has_taken(0));
  EXPECT_TRUE(has_taken(EOWNERDEAD));
  EXPECT_FALSE(has_taken(EBUSY));
  EXPECT_FALSE(has_taken(ETIMEDOUT));
}

}  // namespace
}  // namespace pinprick::cli
