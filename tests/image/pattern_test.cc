#include "image/pattern.h"

#include <gtest/gtest.h>

#include "image/names/demangle.h"

namespace pinprick::image {
namespace {

Pattern glob(std::string_view text) {
  auto pattern = Pattern::parse(text, PatternSyntax::glob);
  EXPECT_TRUE(pattern) << text;
  return *std::move(pattern);
}

Pattern regex(std::string_view text) {
  auto pattern = Pattern::parse(text, PatternSyntax::regex);
  EXPECT_TRUE(pattern) << text;
  return *std::move(pattern);
}

PatternCause why_not(std::string_view text, PatternSyntax syntax = PatternSyntax::glob) {
  const auto pattern = Pattern::parse(text, syntax);
  EXPECT_FALSE(pattern) << text;
  if (pattern) return PatternCause{};
  EXPECT_EQ(pattern.error().pattern, text);
  return pattern.error().cause;
}

TEST(Glob, StarsStandForAnythingAndQuestionMarksForOneCharacter) {
  EXPECT_TRUE(glob_matches("malloc", "malloc"));
  EXPECT_FALSE(glob_matches("malloc", "mallocx"));
  EXPECT_FALSE(glob_matches("malloc", "xmalloc"));
  EXPECT_TRUE(glob_matches("mall*", "mall"));
  EXPECT_TRUE(glob_matches("mall*", "malloc"));
  EXPECT_TRUE(glob_matches("*alloc", "realloc"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_TRUE(glob_matches("?alloc", "calloc"));
  EXPECT_FALSE(glob_matches("?alloc", "alloc"));
  EXPECT_FALSE(glob_matches("alloc?", "alloc"));
  EXPECT_TRUE(glob_matches("?*", "a"));
  EXPECT_FALSE(glob_matches("?*", ""));
}

TEST(Glob, ReturnsToAnEarlierStarAfterAWrongGuess) {
  EXPECT_TRUE(glob_matches("*abc", "ababc"));
  EXPECT_TRUE(glob_matches("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(glob_matches("*a*a*a", "aXaXaXa"));
  EXPECT_FALSE(glob_matches("*a*b", "bbba"));
  EXPECT_TRUE(glob_matches("**x**", "x"));
}

TEST(Glob, TakesAllOtherCharactersLiterally) {
  EXPECT_TRUE(glob_matches("operator[]", "operator[]"));
  EXPECT_FALSE(glob_matches("[ab]", "a"));
  EXPECT_TRUE(glob_matches("a\\b", "a\\b"));
  EXPECT_FALSE(glob_matches("a.c", "abc"));
}

// Naive backtracking would take longer than the age of the universe.
TEST(Glob, ManyStarsCostLittle) {
  std::string many;
  for (int i = 0; i < 30; ++i) many += "a*";
  EXPECT_FALSE(glob_matches(many + "b", std::string(3000, 'a')));
}

TEST(FileName, LosesItsVersion) {
  EXPECT_EQ(without_version("libc.so.6"), "libc");
  EXPECT_EQ(without_version("ld-linux-x86-64.so.2"), "ld-linux-x86-64");
  EXPECT_EQ(without_version("libstdc++.so.6.0.30"), "libstdc++");
  EXPECT_EQ(without_version("libfoo.so"), "libfoo");
  EXPECT_EQ(without_version("libc-2.31.so"), "libc");
  EXPECT_EQ(without_version("libelf-0.188.so"), "libelf");
  EXPECT_EQ(without_version("libgcc_s-8-20210514.so.1"), "libgcc_s");
  EXPECT_EQ(without_version("libglib-2.0.so.0.7400.6"), "libglib");
  EXPECT_EQ(without_version("ld-2.31.so"), "ld");
  EXPECT_EQ(without_version("libmp3-1.2.so"), "libmp3");
  EXPECT_EQ(without_version("libabc-2.x.so"), "libabc-2.x") << "not a version";
  EXPECT_EQ(without_version("lib-.so"), "lib-");
  EXPECT_EQ(without_version("2-1.so"), "2-1") << "a name of digits";
  EXPECT_EQ(without_version("-1.so"), "-1");
  EXPECT_EQ(without_version("sort-1.2"), "sort-1.2") << "a program";
  EXPECT_EQ(without_version("redis-server"), "redis-server");
  EXPECT_EQ(without_version("mod.something"), "mod.something") << ".so has to end there";
  EXPECT_EQ(without_version(".so"), ".so");
  EXPECT_EQ(without_version(""), "");
}

TEST(Pattern, WithoutAnObjectMatchesInEveryOne) {
  const Pattern pattern = glob("processCommand");
  EXPECT_FALSE(pattern.names_object());
  EXPECT_TRUE(pattern.matches_object({"redis-server"}));
  EXPECT_TRUE(pattern.matches_object({"libc.so.6"}));
  EXPECT_TRUE(pattern.matches_function("processCommand"));
  EXPECT_FALSE(pattern.matches_function("processCommands"));
}

TEST(Pattern, ASingleColonSeparatesTheObject) {
  const Pattern pattern = glob("libc:mall*");
  EXPECT_TRUE(pattern.names_object());
  EXPECT_TRUE(pattern.matches_object({"libc.so.6"}));
  EXPECT_TRUE(pattern.matches_object({"libc-2.31.so", "libc.so.6"})) << "any of its names will do";
  EXPECT_FALSE(pattern.matches_object({"libcrypto.so.3"}));
  EXPECT_TRUE(pattern.matches_function("malloc"));
  EXPECT_FALSE(pattern.matches_function("calloc"));
}

TEST(Pattern, TheObjectMayBeNamedWithItsVersionOrByAGlob) {
  EXPECT_TRUE(glob("libc.so.6:x").matches_object({"libc.so.6"}));
  EXPECT_FALSE(glob("libc.so.7:x").matches_object({"libc.so.6"}));
  EXPECT_TRUE(glob("lib*:x").matches_object({"libc.so.6"}));
  EXPECT_FALSE(glob("lib?:x").matches_object({"libcrypto.so.3"}));
}

TEST(Pattern, TwoColonsNeverSeparateAnObject) {
  const Pattern pattern = glob("net::Conn::read");
  EXPECT_FALSE(pattern.names_object());
  EXPECT_TRUE(pattern.matches_function("_ZN3net4Conn4readEPci"));
  const Pattern both = glob("libnet:net::Conn::read");
  EXPECT_TRUE(both.matches_object({"libnet.so.1"}));
  EXPECT_FALSE(both.matches_object({"libother.so.1"}));
  EXPECT_TRUE(both.matches_function("_ZN3net4Conn4readEPci"));
}

// The demangler puts colons of its own into names.
TEST(Pattern, AColonInBracketsSeparatesNothing) {
  const Pattern tagged = glob("A::name[abi:cxx11]");
  EXPECT_FALSE(tagged.names_object());
  EXPECT_TRUE(tagged.matches_function("_ZNK1A4nameB5cxx11Ev"));
  const Pattern lambda = glob("main::{lambda(auto:1)#1}::operator()<int>");
  EXPECT_FALSE(lambda.names_object());
  EXPECT_TRUE(lambda.matches_function("_ZZ4mainENKUlT_E_clIiEEDaS_"));
  const Pattern both = glob("liba:A::name[abi:cxx11]");
  EXPECT_TRUE(both.matches_object({"liba.so"}));
  EXPECT_TRUE(both.matches_function("_ZNK1A4nameB5cxx11Ev"));
  const Pattern klass = regex("[[:alpha:]]+");
  EXPECT_FALSE(klass.names_object());
  EXPECT_TRUE(klass.matches_function("abc"));
}

TEST(Pattern, MatchesCxxNamesWithAndWithoutTheirSignature) {
  const char* symbol = "_ZN3net4Conn4readEPci";
  EXPECT_TRUE(glob("net::Conn::read").matches_function(symbol));
  EXPECT_TRUE(glob("net::Conn::*").matches_function(symbol));
  EXPECT_TRUE(glob("net::Conn::read(char*, int)").matches_function(symbol));
  EXPECT_TRUE(glob("net::Conn::read(char*, *").matches_function(symbol));
  EXPECT_FALSE(glob("net::Conn::read(int)").matches_function(symbol));
  EXPECT_TRUE(glob(symbol).matches_function(symbol));
  EXPECT_TRUE(glob("_ZN3net*").matches_function(symbol));
  EXPECT_FALSE(glob("read").matches_function(symbol));
}

TEST(Pattern, AParenthesisAsksForTheSignature) {
  EXPECT_FALSE(glob("net::Conn::read(*").matches_function("_ZN3net4Conn8readLineEv"));
  EXPECT_FALSE(glob("net::Conn::read()").matches_function("_ZN3net4Conn4readEPci"));
}

TEST(Pattern, CallOperatorsAndLambdasHaveParenthesesInTheirNames) {
  EXPECT_TRUE(glob("A::operator()").matches_function("_ZN1AclEi"));
  EXPECT_TRUE(glob("A::operator()(int)").matches_function("_ZN1AclEi"));
  EXPECT_FALSE(glob("A::operator()()").matches_function("_ZN1AclEi"));
  EXPECT_TRUE(glob("foo()::{lambda()#1}::*").matches_function("_ZZ3foovENKUlvE_clEv"));
}

TEST(Pattern, AnOffsetFollowsTheLastPlus) {
  const Pattern hex = glob("redis-server:call+0x1f");
  EXPECT_TRUE(hex.has_offset());
  EXPECT_EQ(hex.offset(), 0x1fu);
  EXPECT_TRUE(hex.matches_function("call"));
  EXPECT_EQ(glob("call+31").offset(), 31u);
  EXPECT_EQ(glob("call+0X1F").offset(), 0x1fu);
  EXPECT_EQ(glob("call+18446744073709551615").offset(), UINT64_MAX);
  const Pattern zero = glob("call+0");
  EXPECT_TRUE(zero.has_offset()) << "offset 0 is one";
  EXPECT_EQ(zero.offset(), 0u);
  EXPECT_FALSE(glob("call").has_offset());
  EXPECT_FALSE(glob("+4").has_offset()) << "of what?";
}

TEST(Pattern, OperatorsKeepTheirPlus) {
  const Pattern plus = glob("operator+");
  EXPECT_FALSE(plus.has_offset());
  EXPECT_TRUE(plus.matches_function("_ZplRK1AS1_"));
  const Pattern increment = glob("A::operator++");
  EXPECT_FALSE(increment.has_offset());
  EXPECT_TRUE(increment.matches_function("_ZN1AppEi"));
  const Pattern assign = glob("A::operator+=");
  EXPECT_FALSE(assign.has_offset());
  const Pattern with_offset = glob("operator++4");
  EXPECT_EQ(with_offset.offset(), 4u);
  EXPECT_TRUE(with_offset.matches_function("_ZplRK1AS1_"));
  const Pattern signature = glob("operator+(A const&, A const&)+0x8");
  EXPECT_EQ(signature.offset(), 8u);
  EXPECT_TRUE(signature.matches_function("_ZplRK1AS1_"));
}

TEST(Pattern, AnOffsetThatIsNotANumberIsAnError) {
  for (const char* text : {"f+0x", "f+0xg", "f+12x", "f+0x1 ", "f+1e3", "f+0x10000000000000000",
                           "f+18446744073709551616"}) {
    EXPECT_EQ(why_not(text), PatternCause::bad_offset) << text;
  }
  const auto error = Pattern::parse("f+12x", PatternSyntax::glob);
  EXPECT_EQ(error.error().detail, "12x");
}

TEST(Pattern, AnEmptyOneIsAnError) {
  EXPECT_EQ(why_not(""), PatternCause::empty);
  EXPECT_EQ(why_not("libc:"), PatternCause::empty);
  EXPECT_EQ(why_not(":malloc"), PatternCause::empty);
  EXPECT_EQ(why_not(":"), PatternCause::empty);
}

// Names that lack the pattern's last word are not demangled. All of these have a word that their
// mangled form spells in another way, or not at all.
TEST(Pattern, MatchesTheDemangledFormOfEveryKindOfMangledName) {
  for (const char* mangled : {"_Z3foov",
                              "_ZL3foov",
                              "_Z3fooIiEvT_",
                              "_Z3foov.cold",
                              "_ZN3net4ConnC1Ev",
                              "_ZN3net4ConnD2Ev",
                              "_ZNSsC1Ev",
                              "_ZNSsD1Ev",
                              "_ZNSs6appendEPKc",
                              "_ZNSaIcEC1Ev",
                              "_ZNSolsEi",
                              "_ZNSoC1Ev",
                              "_ZNSiC2Ev",
                              "_ZNSdC1Ev",
                              "_ZNSt6vectorIiSaIiEEC1Ev",
                              "_ZSt4endlIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_",
                              "_ZnwmSt11align_val_t",
                              "_ZN3net4ConncviEv",
                              "_ZN3netplERKNS_4ConnES2_",
                              "_ZZ3foovENKUlvE_clEv",
                              "_ZN12_GLOBAL__N_13barEv",
                              "_ZTVN3net4ConnE",
                              "_ZThn16_N3net4Conn4readEv",
                              "_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4sizeEv",
                              "_ZN3net4nameB5cxx11Ev",
                              "_ZZN3net4ConnC4EvE7counter"}) {
    const std::string whole = demangle(mangled);
    const std::string name(without_signature(whole));
    for (const std::string& text : {name, whole}) {
      if (text.find_first_of("*?") != text.npos || text.find(":cxx11") != text.npos) continue;
      const auto pattern = Pattern::parse(text, PatternSyntax::glob);
      ASSERT_TRUE(pattern) << text;
      EXPECT_TRUE(pattern->matches_function(mangled)) << mangled << " is " << text;
    }
  }
}

// One rule for C and C++: what a compiler makes of a function has its name, unless the pattern says
// which of them is meant.
TEST(Pattern, AlsoMeansTheCopiesThatCompilersMakeOfAFunction) {
  for (const char* suffix :
       {".isra.0", ".constprop.0", ".part.0", ".lto_priv.0", ".constprop.0.isra.0", ".llvm.42",
        ".__uniq.123", ".part.3.cold", ".localalias", ".cold", ".cold.7", ".warm",
        ".isra.0.lto_priv.1.cold"}) {
    const std::string of_c = std::string("work") + suffix, of_cxx = "_ZN1A4workEv" + of_c.substr(4);
    EXPECT_TRUE(glob("work").matches_function(of_c)) << of_c;
    EXPECT_TRUE(glob("A::work").matches_function(of_cxx)) << of_cxx;
    EXPECT_TRUE(glob("w?rk").matches_function(of_c)) << of_c;
    EXPECT_TRUE(glob(of_c).matches_function(of_c)) << "itself";
    EXPECT_FALSE(glob(of_c).matches_function("work")) << of_c;
    EXPECT_FALSE(glob("wor").matches_function(of_c)) << of_c;
    // An instruction of one is none of the other.
    EXPECT_FALSE(glob("work+0x4").matches_function(of_c)) << of_c;
    EXPECT_FALSE(glob("A::work+0x4").matches_function(of_cxx)) << of_cxx;
    EXPECT_TRUE(glob("work+0x0").matches_function("work"));
    EXPECT_TRUE(glob(of_c + "+0x4").matches_function(of_c)) << of_c;
    const auto regex = Pattern::parse("w.rk", PatternSyntax::regex);
    ASSERT_TRUE(regex);
    EXPECT_TRUE(regex->matches_function(of_c)) << of_c;
  }
}

TEST(Pattern, DoesNotTakeOtherNamesWithDotsForCopies) {
  for (const char* name :
       {"main.Read", "main.cold.Read", "main.isra.Read", "main.part", "main.llvm", "main.isra",
        "main.part.x", "main..0", "main.0", "main.func1", "main.part.0.x", ".isra.0", ".cold"}) {
    EXPECT_FALSE(glob("main").matches_function(name)) << name;
  }
}

TEST(Pattern, OfAnAddressMayHaveWildcards) {
  const auto some = glob("azmcp+0x4*");
  EXPECT_FALSE(some.has_offset());
  EXPECT_TRUE(some.has_wildcard());
  EXPECT_TRUE(some.may_name_address());
  const std::vector<std::string> names = {"azmcp"}, other = {"azmcq"};
  EXPECT_TRUE(some.matches_address(names, 0x4));
  EXPECT_TRUE(some.matches_address(names, 0x4a120));
  EXPECT_FALSE(some.matches_address(names, 0x54));
  EXPECT_FALSE(some.matches_address(other, 0x4a120));
  EXPECT_TRUE(glob("libz+0x13??").matches_address({"libz.so.1.2.13"}, 0x1380));
  EXPECT_TRUE(glob("*+0x13??").matches_address({"libz.so.1.2.13"}, 0x1380));
  const auto one = glob("azmcp+0x4a");
  EXPECT_TRUE(one.has_offset());
  EXPECT_EQ(one.offset(), 0x4au);
  EXPECT_TRUE(one.has_address_in(names));
  EXPECT_FALSE(one.has_address_in(other));
  EXPECT_TRUE(glob("az*+0x4a").has_address_in(names));
  EXPECT_TRUE(glob("azmcp+0x4a+0x2").matches_address(names, 0x4a));
  EXPECT_FALSE(glob("main").may_name_address());
}

TEST(Pattern, OfSdtPointsHasAProviderANameAndPerhapsAnObject) {
  const Pattern two = glob("usdt:python:function__*");
  EXPECT_TRUE(two.names_points());
  EXPECT_FALSE(two.names_object());
  EXPECT_TRUE(two.has_wildcard());
  EXPECT_TRUE(two.matches_point("python", "function__entry"));
  EXPECT_FALSE(two.matches_point("python", "line"));
  EXPECT_FALSE(two.matches_point("ruby", "function__entry"));
  const Pattern three = glob("usdt:libpython3.*:python:line");
  EXPECT_TRUE(three.names_object());
  EXPECT_FALSE(three.has_wildcard());
  EXPECT_TRUE(three.matches_object({"libpython3.11.so.1.0"}));
  EXPECT_FALSE(three.matches_object({"libc.so.6"}));
  EXPECT_TRUE(three.matches_point("python", "line"));
  EXPECT_TRUE(glob("usdt:py*:line").has_wildcard());
  EXPECT_TRUE(glob("usdt:python").matches_point("python", "line")) << "all points of a provider";
  EXPECT_TRUE(glob("usdt:*").matches_point("python", "line"));
}

TEST(Pattern, OfSdtPointsMatchesNoFunctionAndOneOfFunctionsNoPoint) {
  EXPECT_FALSE(glob("usdt:*").matches_function("malloc"));
  EXPECT_FALSE(glob("usdt:*:*").matches_function("usdt:x:y"));
  EXPECT_FALSE(glob("*").names_points());
  EXPECT_FALSE(glob("*").matches_point("python", "line"));
  EXPECT_FALSE(glob("usdt::read").names_points()) << "a namespace";
}

TEST(Pattern, OfSdtPointsThatLacksAPartOrHasTooManyIsAnError) {
  for (const char* text : {"usdt:a:", "usdt:a::b", "usdt:a:b:", "usdt:a:b:c:d"})
    EXPECT_EQ(why_not(text), PatternCause::bad_point) << text;
  EXPECT_EQ(why_not("usdt:"), PatternCause::bad_point);
  EXPECT_EQ(why_not("usdt:a:b", PatternSyntax::regex), PatternCause::point_regex);
}

TEST(Pattern, OfATracepointMeansThePointOfThatNameOfAnyOrOneProvider) {
  const Pattern name = glob("__tracepoint_order");
  EXPECT_TRUE(name.names_points());
  EXPECT_FALSE(name.names_object());
  EXPECT_FALSE(name.has_wildcard());
  EXPECT_TRUE(name.matches_point("shop", "order"));
  EXPECT_TRUE(name.matches_point("till", "order"));
  EXPECT_FALSE(name.matches_point("shop", "orders"));
  EXPECT_FALSE(name.matches_function("__tracepoint_order"));
  const Pattern both = glob("__tracepoint_shop__order");
  EXPECT_TRUE(both.matches_point("shop", "order"));
  EXPECT_FALSE(both.matches_point("till", "order"));
  EXPECT_TRUE(both.matches_point("till", "shop__order")) << "a name may have underscores";
  EXPECT_TRUE(glob("__tracepoint_gc__*").has_wildcard());
  EXPECT_TRUE(glob("__tracepoint_gc__*").matches_point("python", "gc__start"));
}

TEST(Pattern, OfATracepointMayNameItsObjectAndHasAName) {
  const Pattern pattern = glob("libshop:__tracepoint_order");
  EXPECT_TRUE(pattern.names_points());
  EXPECT_TRUE(pattern.names_object());
  EXPECT_TRUE(pattern.matches_object({"libshop.so.1"}));
  EXPECT_FALSE(pattern.matches_object({"libtill.so.1"}));
  EXPECT_EQ(why_not("__tracepoint_"), PatternCause::bad_point);
  EXPECT_FALSE(glob("my__tracepoint_order").names_points());
}

TEST(Pattern, OfInlinedFunctionsMatchesTheseAlone) {
  const Pattern pattern = glob("server:serve_*%inline");
  EXPECT_TRUE(pattern.names_inlined());
  EXPECT_TRUE(pattern.names_source());
  EXPECT_TRUE(pattern.has_wildcard());
  EXPECT_TRUE(pattern.matches_object({"server"}));
  EXPECT_TRUE(pattern.matches_inlined("serve_all"));
  EXPECT_FALSE(pattern.matches_inlined("serve"));
  EXPECT_FALSE(pattern.matches_function("serve_all"));
  EXPECT_FALSE(pattern.matches_point("serve_all", "serve_all"));
  EXPECT_TRUE(glob("net::Conn::read%inline").matches_inlined("_ZN3net4Conn4readEPcm"));
  EXPECT_TRUE(regex("serve_(one|all)%inline").matches_inlined("serve_all"));
  EXPECT_FALSE(glob("serve_all").matches_inlined("serve_all"));
  EXPECT_FALSE(glob("0x3500%inline").matches_address({"server"}, 0x3500));
}

TEST(Pattern, OfInlinedFunctionsHasANameAndNoOffset) {
  EXPECT_EQ(why_not("%inline"), PatternCause::empty);
  EXPECT_EQ(why_not("server:%inline"), PatternCause::empty);
  EXPECT_EQ(why_not("serve%inline+0x4"), PatternCause::inlined_offset);
  EXPECT_EQ(why_not("serve+0x4%inline"), PatternCause::inlined_offset);
  EXPECT_FALSE(glob("serve%inlined").names_inlined());
}

TEST(Pattern, TracepointsAreNotImplemented) {
  EXPECT_EQ(why_not("point:name"), PatternCause::not_implemented);
  EXPECT_TRUE(glob("points:name").names_object()) << "another object";
}

TEST(Regex, MustMatchTheWholeName) {
  const Pattern pattern = regex("m?alloc");
  EXPECT_TRUE(pattern.matches_function("malloc"));
  EXPECT_TRUE(pattern.matches_function("alloc"));
  EXPECT_FALSE(pattern.matches_function("mallocx"));
  EXPECT_FALSE(pattern.matches_function("xmalloc"));
}

TEST(Regex, AlternativesAreAnchoredAsAWhole) {
  const Pattern pattern = regex("read|write");
  EXPECT_TRUE(pattern.matches_function("read"));
  EXPECT_TRUE(pattern.matches_function("write"));
  EXPECT_FALSE(pattern.matches_function("readx"));
  EXPECT_FALSE(pattern.matches_function("xwrite"));
}

TEST(Regex, MayHaveAnObjectButNoOffset) {
  const Pattern pattern = regex("libc:(m|c)alloc");
  EXPECT_TRUE(pattern.matches_object({"libc.so.6"}));
  EXPECT_FALSE(pattern.matches_object({"libm.so.6"}));
  EXPECT_TRUE(pattern.matches_function("calloc"));
  const Pattern plus = regex("call+1");
  EXPECT_FALSE(plus.has_offset());
  EXPECT_TRUE(plus.matches_function("calll1"));
}

TEST(Regex, MatchesDemangledNamesToo) {
  EXPECT_TRUE(regex("net::(Conn|Sock)::read").matches_function("_ZN3net4Conn4readEPci"));
  EXPECT_TRUE(regex("net::Conn::read\\(char.*").matches_function("_ZN3net4Conn4readEPci"));
}

TEST(Regex, AnErrorSaysWhatIsWrong) {
  EXPECT_EQ(why_not("a(", PatternSyntax::regex), PatternCause::bad_regex);
  EXPECT_EQ(why_not("[", PatternSyntax::regex), PatternCause::bad_regex);
  EXPECT_FALSE(Pattern::parse("a(", PatternSyntax::regex).error().detail.empty());
}

TEST(Regex, ParenthesesMustBalanceInThePatternItself) {
  EXPECT_EQ(why_not("a)(b", PatternSyntax::regex), PatternCause::bad_regex);
  EXPECT_EQ(why_not("a)|(b", PatternSyntax::regex), PatternCause::bad_regex);
}

}  // namespace
}  // namespace pinprick::image
