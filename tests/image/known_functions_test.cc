// Functions that a program copies, checks, or knows by their bytes, as assemblers and linkers make
// them.
#include "image/known_functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "image/object.h"
#include "image/process.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

ProcessImage load(const std::string& name) {
  auto image = load_file(program(name));
  EXPECT_TRUE(image) << name;
  return *std::move(image);
}

bool is_reserved(Object& object, std::string_view name) {
  const std::string_view names[] = {name};
  const Function* const function = object.functions_named(names).front();
  EXPECT_NE(function, nullptr) << name;
  const auto& all = object.reserved();
  return function != nullptr && std::any_of(all.begin(), all.end(), [&](Range range) {
           return range.contains(function->range);
         });
}

class Copied : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Functions, Copied,
                         testing::Values("stub_precode", "fixup_precode", "call_counting",
                                         "backwards", "pending", "cipher",
                                         "BORINGSSL_bcm_text_start"));
TEST_P(Copied, AreReservedAsAWhole) {
  auto image = load("copied");
  EXPECT_TRUE(is_reserved(*image.objects.at(0), GetParam()));
}

class Similar : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Functions, Similar,
                         testing::Values("_start", "through_data", "has_bytes", "compares",
                                         "after_check"));
TEST_P(Similar, AreNotReserved) {
  auto image = load("copied");
  EXPECT_FALSE(is_reserved(*image.objects.at(0), GetParam()));
}

TEST(Templates, AreNoneInASegmentThatMayHavePointersAmongItsCode) {
  auto image = load("copied_writable");
  EXPECT_FALSE(is_reserved(*image.objects.at(0), "stub_precode"));
  EXPECT_FALSE(is_reserved(*image.objects.at(0), "through_data"));
  EXPECT_TRUE(is_reserved(*image.objects.at(0), "pending"));
}

}  // namespace
}  // namespace pinprick::image
