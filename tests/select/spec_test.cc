#include "select/spec.h"

#include <gtest/gtest.h>

#include <optional>

namespace pinprick::select {
namespace {

TEST(Spec, IsAPointAndAValueAfterTheLastBlank) {
  const auto expect = [](std::string_view spec, std::string_view point, std::string_view value) {
    EXPECT_EQ(split_spec(spec).point, point) << spec;
    EXPECT_EQ(split_spec(spec).value, value) << spec;
  };
  expect("libc:write $arg3", "libc:write", "$arg3");
  expect("  write   %dx:u32 ", "write", "%dx:u32");
  expect("net::Conn::read(char*, size_t) $arg3", "net::Conn::read(char*, size_t)", "$arg3");
  expect("libc:write", "libc:write", "");
  expect("operator% $arg1", "operator%", "$arg1");
  expect("libc:write$arg3", "libc:write$arg3", "");
  expect("libc:write $arg1 $arg2", "libc:write", "$arg1 $arg2");
  expect("f(int)  %rdi:u8   $arg2 ", "f(int)", "%rdi:u8   $arg2");
  expect("T::operator %(int) $arg1", "T::operator %(int)", "$arg1");
  expect("", "", "");
  expect("libc:write $arg3*8", "libc:write", "$arg3*8");
  expect("libc:write ($arg3 + 1)*8", "libc:write", "($arg3 + 1)*8");
  expect("f(int, char) (u32)$arg1-1", "f(int, char)", "(u32)$arg1-1");
  expect("f -$arg1", "f", "-$arg1");
  expect("main::$_0::operator()(int) const", "main::$_0::operator()(int) const", "");
  expect("void f<(E)1>(int (*)(char))", "void f<(E)1>(int (*)(char))", "");
  expect("(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)", "");
  expect("scala$f x$y", "scala$f x$y", "");
}

TEST(Spec, HasTextsInQuotesAmongItsValues) {
  const auto expect = [](std::string_view spec, std::string_view point, std::string_view value,
                         std::optional<std::string_view> condition = {}) {
    EXPECT_EQ(split_spec(spec).point, point) << spec;
    EXPECT_EQ(split_spec(spec).value, value) << spec;
    EXPECT_EQ(split_spec(spec).condition, condition) << spec;
  };
  expect(R"(libc:open "opened {path:string} now")", "libc:open", R"("opened {path:string} now")");
  expect(R"(f "a if b" $arg1 if $arg1=="x if y")", "f", R"("a if b" $arg1)", R"($arg1=="x if y")");
  expect(R"(f(int, char) const "a" "b (")", "f(int, char) const", R"("a" "b (")");
  expect(R"(operator"" _x(char))", R"(operator"" _x(char))", "");
  expect(R"(f "no end)", "f", R"("no end)");
  EXPECT_EQ(end_of_value(R"("a b" $arg1)"), 5u);
}

TEST(Spec, HasAValueOfNames) {
  const auto expect = [](std::string_view spec, std::string_view point, std::string_view value) {
    EXPECT_EQ(split_spec(spec).point, point) << spec;
    EXPECT_EQ(split_spec(spec).value, value) << spec;
  };
  expect("libc:read count", "libc:read", "count");
  expect("f new", "f", "new");
  expect("f to new class", "f", "to new class");
  expect("libstdc++:operator new", "libstdc++:operator new", "");
  expect("*operator new", "*operator new", "");
  expect("f<S const, unsigned long>", "f<S const, unsigned long>", "");
  expect("libc:read count if fd==0", "libc:read", "count");
  expect("libc:read%return count-$retval", "libc:read", "count-$retval");
  expect("libc:read count/1Ki", "libc:read", "count/1Ki");
  expect("libc:read (count + 1)*2", "libc:read", "(count + 1)*2");
  expect("libc:read -fd", "libc:read", "-fd");
  expect("libc:read level:s32", "libc:read", "level:s32");
  expect("libc:read fd count", "libc:read", "fd count");
  expect("libc:clone flags", "libc:clone", "flags");
  expect("f(int, char) const level", "f(int, char) const", "level");
  expect("S::f() volatile noexcept level", "S::f() volatile noexcept", "level");
  expect("f(unsigned int, char const*) level&3", "f(unsigned int, char const*)", "level&3");
  expect("usdt:a:b level+$arg12", "usdt:a:b", "level+$arg12");
}

TEST(Spec, HasNoValueInTheBlanksOfNames) {
  for (const std::string_view name : {"ns::f(unsigned int, char const*) const",
                                      "operator new",
                                      "operator new(unsigned long)",
                                      "operator delete[]",
                                      "S::operator bool",
                                      "S::operator unsigned long",
                                      "S::operator Other",
                                      "f(int) volatile",
                                      "f() const &",
                                      "f() &&",
                                      "void f<int>(int)",
                                      "f<a, b>",
                                      "f<a, 3>::g",
                                      "std::map<int, char>::find(int const&)",
                                      "(anonymous namespace)::f(int)",
                                      "f(int)::{lambda(int)#1}::operator()(int) const",
                                      "f [clone .cold]",
                                      "f() [clone .part.0]",
                                      "non-virtual thunk to S::f()",
                                      "vtable for S",
                                      "guard variable for x",
                                      "<alloc::boxed::Box<dyn core::ops::Fn()> as Trait>::call",
                                      "core::ptr::drop<dyn Trait>",
                                      "main::* const",
                                      "net::Conn::read(char*, *",
                                      "f(int, * const",
                                      "operator< <int>",
                                      "S::operator->",
                                      "decltype(auto) f",
                                      "scala$f x$y"})
    EXPECT_EQ(split_spec(name).point, name == "decltype(auto) f" ? "decltype(auto)" : name) << name;
}

TEST(Spec, HasValuesThatAreGivenNames) {
  const auto expect = [](std::string_view spec, std::string_view point, std::string_view value) {
    EXPECT_EQ(split_spec(spec).point, point) << spec;
    EXPECT_EQ(split_spec(spec).value, value) << spec;
  };
  expect("libc:write n=$arg3", "libc:write", "n=$arg3");
  expect("libc:write fd n=$arg3 half=(count / 2)", "libc:write", "fd n=$arg3 half=(count / 2)");
  expect("libc:open%return p=path:string $retval", "libc:open", "p=path:string $retval");
  expect("f(int, char) x=%rdi", "f(int, char)", "x=%rdi");
  expect("f x=$arg1 if $arg1==3", "f", "x=$arg1");
  // These have no name.
  expect("f x=", "f x=", "");
  expect("f x==$arg1", "f", "x==$arg1");
  expect("operator= $arg1", "operator=", "$arg1");
}

TEST(Spec, SplitsTheNameFromItsValue) {
  const auto expect = [](std::string_view word, std::string_view name, std::string_view value) {
    EXPECT_EQ(split_name(word).name, name) << word;
    EXPECT_EQ(split_name(word).value, value) << word;
  };
  expect("n=$arg3", "n", "$arg3");
  expect("_a1=(x == 2)", "_a1", "(x == 2)");
  expect("$arg1==2", "", "$arg1==2");
  expect("n==2", "", "n==2");
  expect("$n=2", "", "$n=2");
  expect("1n=2", "", "1n=2");
  expect("=2", "", "=2");
  expect("n", "", "n");
  expect("", "", "");
}

TEST(Spec, SplitsKeysAtCommasOutsideOfParenthesesAndTexts) {
  const auto parts = split_key("fd, $arg1 in {1,2},name:string==\"a,b\",comm,$retval:errno");
  EXPECT_EQ(parts, (std::vector<std::string_view>{"fd", "$arg1 in {1,2}", "name:string==\"a,b\"",
                                                  "comm", "$retval:errno"}));
  EXPECT_TRUE(is_command_key(parts[3]));
  EXPECT_TRUE(is_error_key(parts[4]));
  EXPECT_TRUE(is_error_key("$errno"));
  EXPECT_FALSE(is_error_key("$errno:s32"));
  EXPECT_FALSE(is_error_key(parts[0]));
}

TEST(Spec, SaysHowAValueIsShown) {
  const auto expect = [](std::string_view word, ShownAs form, std::string_view value,
                         std::string_view bits) {
    EXPECT_EQ(split_form(word).form, form) << word;
    EXPECT_EQ(split_form(word).value, value) << word;
    EXPECT_EQ(split_form(word).bits, bits) << word;
  };
  expect("$arg3:sym", ShownAs::symbol, "$arg3", "");
  expect("$retval:errno", ShownAs::error, "$retval", "");
  expect("flags:x32", ShownAs::hexadecimal, "flags", "32");
  expect("flags:x", ShownAs::hexadecimal, "flags", "");
  expect("flags:x24", ShownAs::as_it_is, "flags:x24", "");
  expect("flags:u32", ShownAs::as_it_is, "flags:u32", "");
  expect("a::x", ShownAs::hexadecimal, "a:", "");
  expect("", ShownAs::as_it_is, "", "");
  EXPECT_EQ(split_spec("libc:open64 f=flags:x32 $arg1:sym").value, "f=flags:x32 $arg1:sym");
}

TEST(Spec, IsOfTheReturnIfThePointEndsWithThat) {
  const auto expect = [](std::string_view spec, std::string_view point, bool at_return,
                         std::string_view value = {}) {
    EXPECT_EQ(split_spec(spec).point, point) << spec;
    EXPECT_EQ(split_spec(spec).at_return, at_return) << spec;
    EXPECT_EQ(split_spec(spec).value, value) << spec;
  };
  expect("libc:write%return", "libc:write", true);
  expect("libc:write", "libc:write", false);
  expect("libc:write%return if $retval<0", "libc:write", true);
  expect("libc:write if $arg1%return", "libc:write", false);
  expect("libc:write%return $retval if $arg1==1", "libc:write", true, "$retval");
  expect("libc:write%return $latency/1k", "libc:write", true, "$latency/1k");
  expect("f(int, char)%return", "f(int, char)", true);
  expect("operator%%return", "operator%", true);
  expect("libc:write%returns", "libc:write%returns", false);
}

TEST(Spec, HasAConditionAfterTheFirstWordIf) {
  const auto expect = [](std::string_view spec, std::string_view point, std::string_view value,
                         std::optional<std::string_view> condition) {
    EXPECT_EQ(split_spec(spec).point, point) << spec;
    EXPECT_EQ(split_spec(spec).value, value) << spec;
    EXPECT_EQ(split_spec(spec).condition, condition) << spec;
  };
  expect("libc:write if $arg1==1", "libc:write", "", "$arg1==1");
  expect("libc:write $arg3 if $arg1 == 1 ", "libc:write", "$arg3", "$arg1 == 1");
  expect("libc:write $arg3 if", "libc:write", "$arg3", "");
  expect("libc:write if ", "libc:write", "", "");
  expect("libc:write if($arg1==1)", "libc:write", "", "($arg1==1)");
  expect("x ifx if (1)", "x", "ifx", "(1)");
  expect("libc:write", "libc:write", "", std::nullopt);
  expect("if_nametoindex", "if_nametoindex", "", std::nullopt);
  expect("f<if>(x if)", "f<if>(x if)", "", std::nullopt);
}

TEST(Spec, MayBeginWithTheNameOfAnEvent) {
  const auto expect = [](std::string_view spec, std::string_view event, std::string_view point,
                         std::string_view value) {
    EXPECT_EQ(split_spec(spec).event, event) << spec;
    EXPECT_EQ(split_spec(spec).point, point) << spec;
    EXPECT_EQ(split_spec(spec).value, value) << spec;
  };
  expect("opened = libc:open64 $arg1:string", "opened", "libc:open64", "$arg1:string");
  expect(" io:back = write%return $retval if $retval<0", "io:back", "write", "$retval");
  expect("operator=(int) $arg1", "", "operator=(int)", "$arg1");
  expect("f if $arg1 = 1", "", "f", "");
  for (const char* const spec : {"1st = f", "a:b:c = f", ":a = f", " = f", "a=f"})
    EXPECT_EQ(split_spec(spec).event, "") << spec;
}

TEST(Spec, HasAValueOfNumbersIfThatHasAName) {
  EXPECT_EQ(split_spec("f five=5 there=*(u32*)(4096) x=(&table):u8[4]").value,
            "five=5 there=*(u32*)(4096) x=(&table):u8[4]");
  EXPECT_EQ(split_spec("f 5").value, "");
  EXPECT_EQ(split_spec("operator=").point, "operator=");
}

}  // namespace
}  // namespace pinprick::select
