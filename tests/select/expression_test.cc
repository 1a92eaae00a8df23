#include "select/expression.h"

#include <gtest/gtest.h>

#include <string>

namespace pinprick::select {
namespace {

using Cause = ExpressionError::Cause;

// How the expression was understood: with a parenthesis around each operation.
std::string shown(const Expression& expression, const Node& node) {
  static constexpr const char* kSigns[] = {
      "",   "",     "cast", "-", "~",  "!", "load", ".",  "*",  "()", "text",
      "is", "like", "*",    "/", "%",  "+", "-",    "<<", ">>", "&",  "|",
      "^",  "==",   "!=",   "<", "<=", ">", ">=",   "&&", "||"};
  const std::string sign = kSigns[static_cast<size_t>(node.what)];
  const auto left = [&] { return shown(expression, expression.nodes[node.left]); };
  switch (node.what) {
    case Operator::number:
      return std::to_string(node.number);
    case Operator::value: {
      std::string text = !node.value.name.empty() ? node.value.name
                         : node.value.argument != 0
                             ? "$" + std::to_string(node.value.argument)
                             : "%" + std::to_string(node.value.register_number);
      if (node.at_return) text += "@ret";
      if (node.value.sign != Value::Sign::of_site)
        text += (node.value.sign == Value::Sign::signed_ ? ":s" : ":u") +
                std::to_string(8 * node.value.bytes);
      return text;
    }
    case Operator::cast:
      return std::string("(") + (node.is_signed ? "s" : "u") + std::to_string(8 * node.bytes) +
             ")" + left();
    case Operator::load:
      return std::string("*") + (node.is_signed ? "s" : "u") + std::to_string(8 * node.bytes) +
             "(" + left() + ")";
    case Operator::text:
      return "text" + std::to_string(node.bytes) + "(" + left() + ")";
    case Operator::member:
      return left() + "." + node.text;
    case Operator::pointee:
      return "*(" + left() + ")";
    case Operator::pointer_to:
      return "(" + node.text + "*)" + left();
    case Operator::element:
      return left() + "[" + shown(expression, expression.nodes[node.right]) + "]";
    case Operator::text_of_length:
      return "bytes(" + left() + ", " + shown(expression, expression.nodes[node.right]) + ")";
    case Operator::equals_text:
    case Operator::like_text:
      return "(" + left() + " " + sign + " <" + node.text + ">)";
    case Operator::negate:
    case Operator::complement:
    case Operator::is_zero:
      return sign + left();
    default:
      return "(" + left() + sign + shown(expression, expression.nodes[node.right]) + ")";
  }
}

std::string parsed(std::string_view text, Arguments arguments = Arguments::of_function) {
  const auto expression = parse_expression(text, arguments);
  if (!expression) return "error at " + std::to_string(expression.error().at);
  return shown(*expression, expression->nodes.back());
}

TEST(Expression, MembersElementsAndPointeesFollowANameThatSaysTheType) {
  EXPECT_EQ(parsed("r->peer->port"), "r.peer.port");
  EXPECT_EQ(parsed("r.peer.port==443"), "(r.peer.port==443)");
  EXPECT_EQ(parsed("r->items[n%4]+1"), "(r.items[(n%4)]+1)");
  EXPECT_EQ(parsed("*r->next"), "*(r.next)");
  EXPECT_EQ(parsed("(*r).x"), "*(r).x");
  EXPECT_EQ(parsed("-r->x[0][1]"), "-r.x[0][1]");
  EXPECT_EQ(parsed("r->count:u8"), "(u8)r.count");
  EXPECT_EQ(parsed("r->city:string"), "text64(r.city)");
  EXPECT_EQ(parsed("r->cities[2]:string[8]"), "text8(r.cities[2])");
  EXPECT_EQ(parsed("((struct conn*)$arg2)->fd"), "(conn*)$2.fd");
  EXPECT_EQ(parsed("((net::Conn<int> *)($arg1+8))->fd"), "(net::Conn<int>*)($1+8).fd");
  EXPECT_EQ(parsed("*(thing_t*)$arg1"), "*((thing_t*)$1)");
  EXPECT_EQ(parsed("(a*b)"), "(a*b)");
  EXPECT_EQ(parsed("r@ret->state", Arguments::of_return), "r@ret.state");
}

TEST(Expression, HasBytesWhoseNumberIsAnExpression) {
  EXPECT_EQ(parsed("buf:bytes[count]"), "bytes(buf, count)");
  EXPECT_EQ(parsed("($arg1+8):bytes[2*(n-1)]"), "bytes(($1+8), (2*(n-1)))");
  EXPECT_EQ(parsed("(*(char**)$arg2):bytes[8]"), "bytes(*u64($2), 8)");
  EXPECT_EQ(parsed("buf@ret:bytes[$retval]", Arguments::of_return), "bytes(buf@ret, %0:s64)");
  const auto bytes = parse_expression("buf:bytes[count]", Arguments::of_function);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(is_text(*bytes));
  EXPECT_TRUE(follows_pointer(*bytes));
  EXPECT_TRUE(has_name(*bytes));
}

TEST(Expression, KnowsTheNumbersOfErrors) {
  EXPECT_EQ(parsed("$arg1==ENOENT"), "($1==2)");
  EXPECT_EQ(parsed("$arg1 in {EAGAIN,EWOULDBLOCK}"), "(($1==11)||($1==11))");
  EXPECT_EQ(parsed("-ENOTSUP"), "-95");
  EXPECT_EQ(parsed("ENOENTS"), "ENOENTS");
  EXPECT_EQ(parsed("Elements:u8"), "Elements:u8");
  const auto error = parse_expression("$errno", Arguments::of_return);
  ASSERT_TRUE(error);
  EXPECT_TRUE(has_error(*error));
  EXPECT_FALSE(error->nodes.front().value.is_register());
}

TEST(Expression, HasBitOperationsWithinComparisonsWithinAndWithinOr) {
  EXPECT_EQ(parsed("$arg1==1"), "($1==1)");
  EXPECT_EQ(parsed("$arg1&3==1"), "(($1&3)==1)");
  EXPECT_EQ(parsed("$arg1|$arg2^4&8"), "((($1|$2)^4)&8)");
  EXPECT_EQ(parsed("$arg1<<2+1"), "($1<<(2+1))");
  EXPECT_EQ(parsed("$arg1+2*$arg2-3"), "(($1+(2*$2))-3)");
  EXPECT_EQ(parsed("$arg1-2-3"), "(($1-2)-3)");
  EXPECT_EQ(parsed("$arg1/2%3"), "(($1/2)%3)");
  EXPECT_EQ(parsed("1||0&&$arg1<2"), "(1||(0&&($1<2)))");
  EXPECT_EQ(parsed("(1||0)&&$arg1<2"), "((1||0)&&($1<2))");
  EXPECT_EQ(parsed("-$arg1*2"), "(-$1*2)");
  EXPECT_EQ(parsed("!($arg1==1)"), "!($1==1)");
  EXPECT_EQ(parsed("!-~$arg1"), "!-~$1");
  EXPECT_EQ(parsed("  $arg1  >=\t7 "), "($1>=7)");
}

TEST(Expression, HasArgumentsRegistersTypesAndCasts) {
  EXPECT_EQ(parsed("$arg2:u32 != %rdi:s8"), "($2:u32!=%7:s8)");
  EXPECT_EQ(parsed("%di&%si"), "(%7&%6)");
  EXPECT_EQ(parsed("%di%3"), "(%7%3)");
  EXPECT_EQ(parsed("(u32)%di"), "(u32)%7");
  EXPECT_EQ(parsed("(int)$arg1<0"), "((s32)$1<0)");
  EXPECT_EQ(parsed("(unsigned  long)%ax"), "(u64)%0");
  EXPECT_EQ(parsed("(u8)($arg1+1)"), "(u8)($1+1)");
  EXPECT_EQ(parsed("(size_t)-1"), "(u64)-1");
  EXPECT_EQ(parsed("$arg12", Arguments::of_point), "$12");
  EXPECT_EQ(parsed("$caller"), "$255:u64");
  EXPECT_EQ(parsed("$caller:u16==1"), "($255:u16==1)");
  EXPECT_EQ(parsed("$tid"), "$253:u64");
}

TEST(Expression, FollowsPointersOfATypeThatSaysWhatIsThere) {
  EXPECT_EQ(parsed("*(u32*)$arg1"), "*u32($1)");
  EXPECT_EQ(parsed("*(int *) ($arg1+8)<0"), "(*s32(($1+8))<0)");
  EXPECT_EQ(parsed("*(unsigned  char*)p"), "*u8(p)");
  EXPECT_EQ(parsed("*(const char*)p"), "*s8(p)");
  EXPECT_EQ(parsed("*(char**)p"), "*u64(p)");
  EXPECT_EQ(parsed("*(void * *)p"), "*u64(p)");
  EXPECT_EQ(parsed("*(struct conn**)p"), "*u64(p)");
  EXPECT_EQ(parsed("*(u8*)*(u8**)p+1"), "(*u8(*u64(p))+1)");
  EXPECT_EQ(parsed("2**(u16*)%di*3"), "((2**u16(%7))*3)");
  EXPECT_EQ(parsed("*(u32*)len@ret", Arguments::of_return), "*u32(len@ret)");
  EXPECT_EQ(parsed("*(u32*)$arg3@ret", Arguments::of_return), "*u32($3@ret)");
}

TEST(Expression, HasTextsByThemselvesOrComparedWithOthers) {
  EXPECT_EQ(parsed("$arg1:string"), "text64($1)");
  EXPECT_EQ(parsed("path:string[5]"), "text5(path)");
  EXPECT_EQ(parsed("(*(u64*)($arg1+8)):string[64]"), "text64(*u64(($1+8)))");
  EXPECT_EQ(parsed("%di:string==\"a b\""), "(%7 is <a b>)");
  EXPECT_EQ(parsed("p:string != \"\""), "!(p is <>)");
  EXPECT_EQ(parsed("p:string=~\"*.c\" && $arg2"), "((p like <*.c>)&&$2)");
  EXPECT_EQ(parsed("p:string==\"\\\"\\\\\\n\\t\""), "(p is <\"\\\n\t>)");
  EXPECT_EQ(parsed("p:string=~\"\\*\\\"\\?*\""), "(p like <\\*\"\\?*>)");
  EXPECT_EQ(parsed("buf@ret:string", Arguments::of_return), "text64(buf@ret)");
  EXPECT_EQ(parsed("$retval:string", Arguments::of_return), "text64(%0:s64)");
}

TEST(Expression, HasNamesWithTypes) {
  EXPECT_EQ(parsed("fd==1"), "(fd==1)");
  EXPECT_EQ(parsed("count>=4Ki && fd in {1,2}"), "((count>=4096)&&((fd==1)||(fd==2)))");
  EXPECT_EQ(parsed("level:s32<0"), "(level:s32<0)");
  EXPECT_EQ(parsed("(int)x_1*2"), "((s32)x_1*2)");
  EXPECT_EQ(parsed("!_ZL5level"), "!_ZL5level");
  EXPECT_EQ(parsed("argument"), "argument");
  EXPECT_EQ(parsed("$retval!=count", Arguments::of_return), "(%0:s64!=count)");
  EXPECT_EQ(parsed("level", Arguments::of_point), "level");
}

TEST(Expression, WithANameHasNeitherAnArgumentNorARegister) {
  const auto named = parse_expression("fd==1", Arguments::of_function);
  ASSERT_TRUE(named);
  EXPECT_TRUE(has_name(*named));
  EXPECT_FALSE(has_argument(*named));
  EXPECT_FALSE(has_register(*named));
  const auto other = parse_expression("$arg1==%rdi", Arguments::of_function);
  ASSERT_TRUE(other);
  EXPECT_FALSE(has_name(*other));
  EXPECT_TRUE(has_register(*other));
}

TEST(Expression, ShowsWhereANameIs) {
  EXPECT_EQ(position_of_name("fd==1", "fd"), 0);
  EXPECT_EQ(position_of_name("$fd+%fd+fdx+xfd+x:fd+fd", "fd"), 21);
  EXPECT_EQ(position_of_name("fdx", "fd"), std::string_view::npos);
}

// At a function's entry, the return address is $stack0, and the seventh argument lies above it.
TEST(Expression, HasWordsOfTheStack) {
  EXPECT_EQ(parsed("$stack0"), "*u64((%4:u64+0))");
  EXPECT_EQ(parsed("$stack2:s32-1"), "(*s32((%4:u64+16))-1)");
  EXPECT_EQ(parsed("$stack2047"), "*u64((%4:u64+16376))");
  EXPECT_EQ(parsed("$stack1:string"), "text64(*u64((%4:u64+8)))");
  const std::string stack_of_entry = "$" + std::to_string(Value::kOfEntry) + ":u64";
  EXPECT_EQ(parsed("$arg7"), "*s64((" + stack_of_entry + "+8))");
  EXPECT_EQ(parsed("$arg9:u16"), "*u16((" + stack_of_entry + "+24))");
  EXPECT_EQ(parsed("$arg7", Arguments::of_return), "*s64((" + stack_of_entry + "+8))");
  EXPECT_EQ(parsed("$arg7", Arguments::of_point), "$7") << "an SDT point says where it is";
  EXPECT_TRUE(has_argument(*parse_expression("$arg7", Arguments::of_function)));
  EXPECT_FALSE(has_argument(*parse_expression("$stack1", Arguments::of_function)));
}

TEST(Expression, HasAddressesInTheObject) {
  EXPECT_EQ(parsed("*(u16*)(&table+2)"), "*u16((&table:u64+2))");
  EXPECT_EQ(parsed("*(int*)&0x10"), "*s32(&16:u64)");
  EXPECT_EQ(parsed("(&name):string"), "text64(&name:u64)");
  EXPECT_EQ(parsed("&name:string[8]"), "text8(&name:u64)");
}

TEST(Expression, HasNumbersAsInCWithUnits) {
  EXPECT_EQ(parsed("0x1F"), "31");
  EXPECT_EQ(parsed("0644"), "420");
  EXPECT_EQ(parsed("0b101"), "5");
  EXPECT_EQ(parsed("0"), "0");
  EXPECT_EQ(parsed("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(parsed("4Ki"), "4096");
  EXPECT_EQ(parsed("4k"), "4000");
  EXPECT_EQ(parsed("2Gi"), "2147483648");
  EXPECT_EQ(parsed("3us"), "3000");
  EXPECT_EQ(parsed("2s"), "2000000000");
  EXPECT_EQ(parsed("'a'"), "97");
  EXPECT_EQ(parsed("'\\n'+'\\''"), "(10+39)");
}

TEST(Expression, HasCsIntegerTypesInAnyOrderOfTheirWords) {
  EXPECT_EQ(parsed("(unsigned long long)$arg1"), "(u64)$1");
  EXPECT_EQ(parsed("(long unsigned int)$arg1"), "(u64)$1");
  EXPECT_EQ(parsed("( long int )$arg1"), "(s64)$1");
  EXPECT_EQ(parsed("(short int)$arg1"), "(s16)$1");
  EXPECT_EQ(parsed("(unsigned short)$arg1"), "(u16)$1");
  EXPECT_EQ(parsed("(signed char)$arg1"), "(s8)$1");
  EXPECT_EQ(parsed("(unsigned)$arg1"), "(u32)$1");
  EXPECT_EQ(parsed("(uintptr_t)$arg1"), "(u64)$1");
}

TEST(Expression, DividesByNumbersWithASign) {
  EXPECT_EQ(parsed("$arg1/-3"), "($1/-3)");
  EXPECT_EQ(parsed("$arg1%-1"), "($1%-1)");
}

TEST(Expression, ComparesWithNumbersAndRangesOfASet) {
  EXPECT_EQ(parsed("$arg1 in {1,5..9}"), "(($1==1)||(($1>=5)&&($1<=9)))");
  EXPECT_EQ(parsed("$arg1+1 in {2}"), "(($1+1)==2)");
  EXPECT_EQ(parsed("$arg1+1 in {2,3}"), "((($1+1)==2)||(($1+1)==3))");
  EXPECT_EQ(parsed("$arg1 in {1} && $arg2 in {2}"), "(($1==1)&&($2==2))");
}

TEST(Expression, ThatIsWrongSaysWhereAndWhy) {
  const struct {
    const char* text;
    Cause cause;
    const char* part;
    size_t at;
  } cases[] = {
      {"", Cause::nothing, "", 0},
      {"  ", Cause::nothing, "", 0},
      {"$arg1==", Cause::no_value, "", 7},
      {"==1", Cause::no_value, "==", 0},
      {"$arg1 && || 1", Cause::no_value, "||", 9},
      {"$arg1 $arg2", Cause::no_operator, "$arg2", 6},
      {"$arg1 1", Cause::no_operator, "1", 6},
      {"$arg1==1==2", Cause::no_operator, "==", 8},
      {"$arg1)", Cause::no_operator, ")", 5},
      {"($arg1", Cause::unclosed, "(", 0},
      {"$arg1 in {1,2", Cause::unclosed, "{", 9},
      {"$arg1 in 1", Cause::no_value, "1", 9},
      {"$arg1 in {1;2}", Cause::no_operator, ";", 11},
      {"$arg1=1", Cause::single_equals, "=", 5},
      {"$arg1==5m", Cause::bad_number, "5m", 7},
      {"$arg1==18446744073709551616", Cause::bad_number, "18446744073709551616", 7},
      {"$arg1==99999999999G", Cause::bad_number, "99999999999G", 7},
      {"$arg1==08", Cause::bad_number, "08", 7},
      {"$arg1==0x", Cause::bad_number, "0x", 7},
      {"$arg1=='ab'", Cause::bad_number, "'ab'", 7},
      {"$arg1=='a", Cause::bad_number, "'a", 7},
      {"$arg0", Cause::bad_value, "$arg0", 0},
      {"$arg2054", Cause::bad_value, "$arg2054", 0},
      {"$arg07", Cause::bad_value, "$arg07", 0},
      {"$stack2048", Cause::bad_value, "$stack2048", 0},
      {"$arg7:u7", Cause::bad_value, "$arg7:u7", 0},
      {"&", Cause::no_value, "&", 0},
      {"&5x", Cause::bad_number, "5x", 1},
      {"$callers", Cause::bad_value, "$callers", 0},
      {"%edi==1", Cause::bad_value, "%edi", 0},
      {"$arg1:u7==1", Cause::bad_value, "$arg1:u7", 0},
      {"in==1", Cause::name, "in", 0},
      {"1==if", Cause::name, "if", 3},
      {"fd fd", Cause::name, "fd", 3},
      {"fd==1 && not fd", Cause::name, "not", 9},
      {"(fd)1", Cause::no_operator, "1", 4},
      {"fd:u7", Cause::bad_value, "fd:u7", 0},
      {"fd(1)", Cause::no_operator, "(", 2},
      {"ns::fd", Cause::no_operator, ":", 2},
      {"fd->", Cause::members, "->", 2},
      {"fd->1", Cause::members, "->", 2},
      {"fd[", Cause::no_value, "", 3},
      {"fd[1", Cause::unclosed, "[", 2},
      {"fd[1}", Cause::no_operator, "}", 4},
      {"fd->x:u7", Cause::no_operator, ":u7", 5},
      {"1[fd]", Cause::members, "[", 1},
      {"*1", Cause::pointee, "*", 0},
      {"(unsigned signed)1", Cause::name, "unsigned", 1},
      {"(long short)1", Cause::name, "long", 1},
      {"(long long long)1", Cause::name, "long", 1},
      {"$arg1==1 and 1", Cause::name, "and", 9},
      {"$arg1==1 or 1", Cause::name, "or", 9},
      {"$arg1 in {5..1}", Cause::empty_range, "5", 10},
      {"$retvalue<0", Cause::bad_value, "$retvalue", 0},
      {"$retval<0", Cause::of_another_time, "$retval", 0},
      {"$latency>1ms", Cause::of_another_time, "$latency", 0},
      {"*$arg1", Cause::pointee, "*", 0},
      {"1+*(u32)$arg1", Cause::pointee, "*", 2},
      {"*(thing**)$arg1x", Cause::bad_value, "$arg1x", 10},
      {"*(u32*", Cause::pointee, "*", 0},
      {"$arg1->x", Cause::members, "->", 5},
      {"$arg1[2]", Cause::members, "[", 5},
      {"&$arg1", Cause::no_value, "&", 0},
      {"$arg1==\"GET\"", Cause::not_a_text, "\"GET\"", 7},
      {"\"GET\"==$arg1:string", Cause::not_a_text, "\"GET\"", 0},
      {"$arg1=~\"G*\"", Cause::not_a_text, "=~", 5},
      {"$arg1:string==1", Cause::text, "1", 14},
      {"$arg1:string=~1", Cause::pattern, "1", 14},
      {"$arg1:string==\"a", Cause::unclosed_text, "\"a", 14},
      {"$arg1:string==\"a\\\"", Cause::unclosed_text, "\"a\\\"", 14},
      {"$arg1:string in {\"a\"}", Cause::text_in_set, "{", 16},
      {"$arg1:string[0]", Cause::text_length, "[0]", 12},
      {"$arg1:string[65]", Cause::text_length, "[65]", 12},
      {"$arg1:string[x]", Cause::text_length, "[x]", 12},
      {"$arg1:string[]", Cause::text_length, "[]", 12},
      {"$arg1:string[9]==\"a\"", Cause::length_compared, "==", 15},
      {"$arg1:bytes", Cause::no_length, ":bytes", 5},
      {"$arg1:bytes[]", Cause::no_length, ":bytes[]", 5},
      {"$arg1:bytes[3", Cause::no_length, ":bytes", 5},
      {"$arg1:bytes[2+]", Cause::no_value, "", 14},
      {"($arg1):bytes[1+$arg0]", Cause::bad_value, "$arg0", 16},
      {"$arg1:bytes[$arg2:string]", Cause::text, "$arg1:bytes[$arg2:string]", 0},
      {"$arg1:bytes[4]==\"GET \"", Cause::not_a_text, "\"GET \"", 16},
      {"$arg1:bytes[4]+1", Cause::text, "$arg1:bytes[4]+1", 0},
      {"*(char**)$arg1:bytes[4]", Cause::text_of_pointee, "*(char**)$arg1:bytes[4]", 0},
      {"$errno==2", Cause::of_another_time, "$errno", 0},
      {"$arg1:string+1", Cause::text, "$arg1:string+1", 0},
      {"!$arg1:string", Cause::text, "!$arg1:string", 0},
      {"*(char**)$arg1:string", Cause::text_of_pointee, "*(char**)$arg1:string", 0},
      {"*(u32*)$arg1:string", Cause::text_of_pointee, "*(u32*)$arg1:string", 0},
      {"$arg1:string && 1", Cause::text, "$arg1:string && 1", 0},
      {"buf@ret:string", Cause::of_another_time, "buf@ret:string", 0},
      {"$arg1%0", Cause::zero_divisor, "0", 6},
      {"$arg1/-0", Cause::zero_divisor, "-", 6},
  };
  for (const auto& one : cases) {
    const auto expression = parse_expression(one.text, Arguments::of_function);
    ASSERT_FALSE(expression) << one.text;
    EXPECT_EQ(expression.error().cause, one.cause) << one.text;
    EXPECT_EQ(expression.error().text, one.part) << one.text;
    EXPECT_EQ(expression.error().at, one.at) << one.text;
  }
}

TEST(Expression, ThatIsLongOrDeepIsRefused) {
  std::string sum = "$arg1", deep = "$arg1", set = "$arg1 in {0";
  for (size_t i = 0; i < kMostNodes; ++i) {
    sum += "+1";
    deep = "(" + deep + ")";
    set += ",1";
  }
  for (const std::string& text :
       {sum, deep, std::string(100'000, '('), std::string(100'000, '-') + "1", set + "}"}) {
    const auto expression = parse_expression(text, Arguments::of_function);
    ASSERT_FALSE(expression);
    EXPECT_EQ(expression.error().cause, Cause::too_long);
  }
}

}  // namespace
}  // namespace pinprick::select
