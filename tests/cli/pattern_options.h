// What the tests of the patterns of a verb share, as of `leaks` and `locks`.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/options.h"

namespace pinprick::cli {

// Five frames of a stack are told.
inline Options options_of(const char* verb) {
  Options options;
  options.verb = verb;
  options.stack_frames = 5;
  return options;
}

// Returns the patterns that `of` makes of the options, which must not fail.
template <class F>
std::vector<std::string> made_patterns(F&& of, const Options& options) {
  auto all = of(options);
  EXPECT_TRUE(static_cast<bool>(all));
  return all ? *std::move(all) : std::vector<std::string>();
}

}  // namespace pinprick::cli
