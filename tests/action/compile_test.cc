#include "action/compile.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pinprick::action {
namespace {

using arch::Operation;
using arch::Source;
using select::Arguments;

// As at the entry of a function.
Found in_register(const select::Value& wanted) {
  return {{.register_number = wanted.register_number,
           .bytes = wanted.bytes,
           .is_signed = wanted.sign == select::Value::Sign::signed_}};
}

select::Expression parsed(std::string_view text) {
  auto expression = select::parse_expression(text, Arguments::of_function);
  EXPECT_TRUE(expression) << text;
  return expression ? *std::move(expression) : select::Expression();
}

arch::Expression compiled(std::string_view text, const SourceOf& source_of = in_register) {
  return compile(parsed(text), source_of);
}

const arch::Step& last(const arch::Expression& expression) {
  return expression.steps.back();
}

bool is_signed(std::string_view text) {
  return last(compiled(text)).is_signed;
}

TEST(Compile, ComparesWithASignUnlessOneSideHas64BitsWithoutOne) {
  EXPECT_TRUE(is_signed("$arg1<1"));
  EXPECT_TRUE(is_signed("$arg1:u32<1"));
  EXPECT_TRUE(is_signed("$arg1:u32<$arg2:s64"));
  EXPECT_FALSE(is_signed("$arg1:u64<1"));
  EXPECT_FALSE(is_signed("1<$arg1:u64"));
  EXPECT_FALSE(is_signed("$arg1:u64+1<$arg2"));
  EXPECT_FALSE(is_signed("(u64)$arg1>$arg2"));
  EXPECT_TRUE(is_signed("(u32)$arg1>$arg2"));
  EXPECT_TRUE(is_signed("(long)$arg1:u64>$arg2"));
  EXPECT_FALSE(is_signed("$arg1<0x8000000000000000"));
  EXPECT_TRUE(is_signed("$arg1<0x7fffffffffffffff"));
  EXPECT_TRUE(is_signed("($arg1:u64<1)<$arg2")) << "a truth is 0 or 1";
}

TEST(Compile, ShiftsWithTheSignOfTheLeftSide) {
  EXPECT_TRUE(is_signed("$arg1>>$arg2:u64"));
  EXPECT_FALSE(is_signed("$arg1:u64>>$arg2"));
}

// What the place of an argument of a point says counts like a type.
TEST(Compile, TakesTheSignOfAnArgumentFromItsPlaceIfThatKnows) {
  const auto at = [](uint8_t bytes, bool has_sign) {
    return [=](const select::Value&) {
      return Found{{.register_number = 3, .bytes = bytes, .is_signed = has_sign}, true};
    };
  };
  EXPECT_FALSE(last(compiled("$arg1<1", at(8, false))).is_signed);
  EXPECT_TRUE(last(compiled("$arg1<1", at(8, true))).is_signed);
  EXPECT_TRUE(last(compiled("$arg1<1", at(4, false))).is_signed);
}

TEST(Compile, TurnsGreaterAroundAndComputesNumbers) {
  const auto greater = compiled("$arg1>-1");
  EXPECT_EQ(greater.steps.size(), 3u);
  EXPECT_EQ(last(greater).operation, Operation::less);
  EXPECT_EQ(greater.steps[last(greater).left].source, (Source{.instead = Source::Constant{~0ull}}));
  EXPECT_EQ(greater.steps[last(greater).right].source, Source{.register_number = 7});
  EXPECT_EQ(last(compiled("$arg1>=1")).operation, Operation::less_or_equal);
  const auto number = compiled("(1<<10)+4*~0-(6&3|8^1)");
  EXPECT_TRUE(number.is_source());
  EXPECT_EQ(last(number).source, (Source{.instead = Source::Constant{1024 - 4 - 11}}));
}

TEST(Compile, TakesOnlyThePartOfARegisterThatACastKeeps) {
  EXPECT_EQ(compiled("(int)$arg1"), compiled("$arg1:s32"));
  EXPECT_EQ(compiled("(u8)$arg1:s32"), compiled("$arg1:u8"));
  EXPECT_EQ(compiled("(u64)$arg1"), compiled("$arg1"));
  const auto wider = compiled("(u32)$arg1:u8");
  EXPECT_EQ(last(wider).operation, Operation::narrow) << "of 8 bits there are no 32 to take";
}

TEST(Compile, LoadsWhatPointersLeadToWithItsSizeAndSign) {
  const auto load = compiled("*(int*)($arg1+8)");
  EXPECT_EQ(last(load).operation, Operation::load);
  EXPECT_EQ(last(load).bytes, 4);
  EXPECT_TRUE(last(load).is_signed);
  EXPECT_EQ(load.steps[last(load).left].operation, Operation::add);
  EXPECT_TRUE(arch::may_be_unread(load));
  EXPECT_FALSE(is_signed("*(u64*)$arg1<1"));
  EXPECT_TRUE(is_signed("*(u32*)$arg1<1"));
  EXPECT_EQ(last(compiled("(u8)*(u32*)$arg1")).operation, Operation::narrow);
}

TEST(Compile, ComparesTextsWithThoseOfTheExpression) {
  const auto two = compiled("$arg1:string==\"a\" || $arg2:string=~\"b*\"");
  EXPECT_EQ(two.texts, (std::vector<std::string>{"a", "b*"}));
  const arch::Step& equals = two.steps[last(two).left];
  const arch::Step& like = two.steps[last(two).right];
  EXPECT_EQ(equals.operation, Operation::equals_text);
  EXPECT_EQ(two.texts[equals.right], "a");
  EXPECT_EQ(like.operation, Operation::like_text);
  EXPECT_EQ(two.texts[like.right], "b*");
  const auto text = compiled("$arg1:string[9]");
  EXPECT_EQ(last(text).operation, Operation::text);
  EXPECT_EQ(last(text).bytes, 9);
  EXPECT_FALSE(arch::may_be_unread(text)) << "it has a number of its own then";
}

TEST(Compile, KnowsWhetherWhatIsRecordedMayBeNegative) {
  const auto may_be = [](std::string_view text) { return has_sign(parsed(text), in_register); };
  EXPECT_FALSE(may_be("$arg1")) << "a register alone is as the user knows it";
  EXPECT_TRUE(may_be("$arg1:s32"));
  EXPECT_FALSE(may_be("$arg1:u64+1"));
  EXPECT_TRUE(may_be("$arg1+1"));
  EXPECT_TRUE(may_be("-$arg1"));
}

}  // namespace
}  // namespace pinprick::action
