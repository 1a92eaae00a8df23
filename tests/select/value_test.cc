#include "select/value.h"

#include <gtest/gtest.h>

#include <string>

namespace pinprick::select {
namespace {

using Cause = ValueError::Cause;

Value value_of(std::string_view text) {
  auto value = parse_value(text);
  EXPECT_TRUE(value) << text;
  return value ? *value : Value{};
}

void expect_error(std::string_view text, Cause cause, std::string_view what) {
  auto value = parse_value(text);
  ASSERT_FALSE(value) << text;
  EXPECT_EQ(value.error(), (ValueError{cause, std::string(what)})) << text;
}

// The numbers of the processor's encoding: rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7.
TEST(Value, AnArgumentIsTheRegisterOfTheAbi) {
  const int registers[] = {7, 6, 2, 1, 8, 9};
  for (int i = 0; i < 6; ++i) {
    const Value value = value_of("$arg" + std::to_string(i + 1));
    EXPECT_EQ(value.register_number, registers[i]);
    EXPECT_EQ(value.bytes, 8);
    EXPECT_EQ(value.argument, i + 1);
  }
}

TEST(Value, ARegisterHasPerfsNameAndTheProcessors) {
  const char* const names[] = {"ax", "cx", "dx", "bx", "sp", "bp", "si", "di"};
  for (uint8_t i = 0; i < 8; ++i) {
    EXPECT_EQ(value_of(std::string("%") + names[i]), (Value{i, 8, false}));
    EXPECT_EQ(value_of(std::string("%r") + names[i]), (Value{i, 8, false}));
  }
  for (uint8_t i = 8; i < 16; ++i)
    EXPECT_EQ(value_of("%r" + std::to_string(i)), (Value{i, 8, false}));
}

TEST(Value, ATypeSaysHowManyBytesCount) {
  EXPECT_EQ(value_of("%rdi:u8").bytes, 1);
  EXPECT_EQ(value_of("%rdi:u16").bytes, 2);
  EXPECT_EQ(value_of("$arg1:u32").bytes, 4);
  EXPECT_EQ(value_of("$arg1:x64").bytes, 8);
}

TEST(Value, ATypeSaysWhetherThereIsASign) {
  EXPECT_EQ(value_of("%rdi:s32").sign, Value::Sign::signed_);
  EXPECT_EQ(value_of("%rdi:s32").bytes, 4);
  EXPECT_EQ(value_of("$arg1:u32").sign, Value::Sign::none);
  EXPECT_EQ(value_of("$arg1:x8").sign, Value::Sign::none);
  EXPECT_EQ(value_of("$arg1").sign, Value::Sign::of_site);
}

TEST(Value, AnInvalidOneSaysWhy) {
  expect_error("$arg0", Cause::unknown_argument, "$arg0");
  expect_error("$arg7", Cause::unknown_argument, "$arg7");
  expect_error("$arg", Cause::unknown_argument, "$arg");
  expect_error("$arg12", Cause::unknown_argument, "$arg12");
  expect_error("$retval:u32", Cause::unknown_argument, "$retval");
  expect_error("%", Cause::unknown_register, "%");
  expect_error("%eax", Cause::unknown_register, "%eax");
  expect_error("%rr8", Cause::unknown_register, "%rr8");
  expect_error("%r16", Cause::unknown_register, "%r16");
  expect_error("$arg1:", Cause::unknown_type, "");
  expect_error("$arg1:u24", Cause::unknown_type, "u24");
  expect_error("$arg1:32", Cause::unknown_type, "32");
  expect_error("$arg1:i32", Cause::unknown_type, "i32");
}

}  // namespace
}  // namespace pinprick::select
