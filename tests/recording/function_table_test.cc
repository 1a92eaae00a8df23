#include "recording/function_table.h"

#include <gtest/gtest.h>

#include <string>

namespace pinprick::recording {
namespace {

TEST(FunctionTable, HasOneNumberForAllProbesOfAFunction) {
  const engine::ProbeName entry = {.object = "m", .function = "f", .file = "/m", .address = 16};
  const engine::ProbeName at_return = {
      .object = "m", .function = "f", .at_return = true, .file = "/m", .address = 16};
  const engine::ProbeName other = {.object = "m", .function = "f", .file = "/m", .address = 32};
  FunctionTable functions;
  const uint32_t number = functions.number_of(entry);
  EXPECT_EQ(functions.number_of(at_return), number);
  EXPECT_NE(functions.number_of(other), number);
}

TEST(FunctionTable, TakesFramesForOneFunctionOnceTheirNamesTakeTooManyBytes) {
  FunctionTable functions;
  const std::string tail(1024, 'x');
  const auto name_of = [&](int i) { return std::to_string(i) + tail; };
  const uint32_t first = functions.number_of_frame(name_of(0));
  for (int i = 1; i < 70'000; ++i) functions.number_of_frame(name_of(i));
  const uint32_t other = functions.number_of_frame("one");
  EXPECT_EQ(functions[other].function, "(other)");
  EXPECT_EQ(functions.number_of_frame("two"), other);
  EXPECT_EQ(functions.number_of_frame(name_of(0)), first);
}

}  // namespace
}  // namespace pinprick::recording
