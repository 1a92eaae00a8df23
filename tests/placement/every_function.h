// A test's program, and all functions of it.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "image/match.h"
#include "image/process.h"

namespace pinprick::placement {

class EveryFunction : public testing::Test {
 protected:
  virtual const char* program() const = 0;
  void SetUp() override {
    auto loaded = image::load_file(program());
    ASSERT_TRUE(loaded);
    image_ = *std::move(loaded);
    auto pattern = image::Pattern::parse("*", image::PatternSyntax::glob);
    ASSERT_TRUE(pattern);
    std::vector<image::Pattern> wanted;
    wanted.push_back(*std::move(pattern));
    entries_ = image::match_patterns(image_, wanted, {}).matches;
  }

  image::ProcessImage image_;
  std::vector<image::Match> entries_;
};

}  // namespace pinprick::placement
