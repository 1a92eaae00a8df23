#include "image/names/rust_name.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "image/names/demangle.h"
#include "image/pattern.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

struct Name {
  const char* mangled;
  const char* name;
};

void PrintTo(const Name& name, std::ostream* out) {
  *out << name.mangled;
}

class RustName : public testing::TestWithParam<Name> {};

TEST_P(RustName, IsWhatItsAuthorWrote) {
  EXPECT_EQ(demangle(GetParam().mangled), GetParam().name);
}

// Made by hand from the grammar of RFC 2603, one rule after the other.
INSTANTIATE_TEST_SUITE_P(
    Version0, RustName,
    testing::Values(
        Name{"_RC3foo", "foo"}, Name{"_RNvC3foo3bar", "foo::bar"},
        Name{"_RNvCs1234_3foo3bar", "foo::bar"},               // a crate's disambiguator
        Name{"_RNvNtC3foo3bar3baz", "foo::bar::baz"},          //
        Name{"_RNvC3foo4__123", "foo::_123"},                  // a name that begins like a number
        Name{"_RNvC3foo4____a", "foo::___a"},                  // the separator is not part of it
        Name{"_RNCNvC3foo3bar0", "foo::bar::{closure#0}"},     //
        Name{"_RNCNvC3foo3bars_0", "foo::bar::{closure#1}"},   // the second one
        Name{"_RNCNvC3foo3bars0_0", "foo::bar::{closure#2}"},  //
        Name{"_RNSNvC3foo3bar6vtable", "foo::bar::{shim:vtable#0}"},
        Name{"_RINvC3foo3barlE", "foo::bar::<i32>"},
        Name{"_RINvC3foo3barlhE", "foo::bar::<i32, u8>"},
        Name{"_RNvMC3fooNtB2_1A1f", "<foo::A>::f"},  // an inherent method
        Name{"_RNvXC3fooNtB2_1ANtB2_1T1f", "<foo::A as foo::T>::f"},
        Name{"_RNvYlNtC3foo1T1f", "<i32 as foo::T>::f"},  // the trait's own one
        Name{"_RNvMs_C3fooINtB4_1AlE1f", "<foo::A<i32>>::f"},
        // Types.
        Name{"_RINvC1f1gReE", "f::g::<&str>"}, Name{"_RINvC1f1gQhE", "f::g::<&mut u8>"},
        Name{"_RINvC1f1gRL_hE", "f::g::<&u8>"},
        Name{"_RINvC1f1gPhOxE", "f::g::<*const u8, *mut i64>"},
        Name{"_RINvC1f1gSdE", "f::g::<[f64]>"}, Name{"_RINvC1f1gAtj3_E", "f::g::<[u16; 3]>"},
        Name{"_RINvC1f1gTEE", "f::g::<()>"}, Name{"_RINvC1f1gTlEE", "f::g::<(i32,)>"},
        Name{"_RINvC1f1gTlbEE", "f::g::<(i32, bool)>"}, Name{"_RINvC1f1guzE", "f::g::<(), !>"},
        Name{"_RINvC1f1gFEuE", "f::g::<fn()>"}, Name{"_RINvC1f1gFlEbE", "f::g::<fn(i32) -> bool>"},
        Name{"_RINvC1f1gFUKCPhEuE", "f::g::<unsafe extern \"C\" fn(*const u8)>"},
        Name{"_RINvC1f1gFK10system_abiEuE", "f::g::<extern \"system-abi\" fn()>"},
        Name{"_RINvC1f1gFG_RL0_hEuE", "f::g::<for<'a> fn(&'a u8)>"},
        Name{"_RINvC1f1gFG0_RL1_hRL0_hEuE", "f::g::<for<'a, 'b> fn(&'a u8, &'b u8)>"},
        Name{"_RINvC1f1gDNtC3foo1TEL_E", "f::g::<dyn foo::T>"},
        Name{"_RINvC1f1gDNtC3foo1TNtC3foo1SEL_E", "f::g::<dyn foo::T + foo::S>"},
        Name{"_RINvC1f1gDINtC3foo1TlEEL_E", "f::g::<dyn foo::T<i32>>"},
        Name{"_RINvC1f1gDNtC3foo1Tp4ItemlEL_E", "f::g::<dyn foo::T<Item = i32>>"},
        Name{"_RINvC1f1gDINtC3foo1TbEp4ItemlEL_E", "f::g::<dyn foo::T<bool, Item = i32>>"},
        // Constants.
        Name{"_RINvC1f1gKj2a_E", "f::g::<42>"}, Name{"_RINvC1f1gKin2a_E", "f::g::<-42>"},
        Name{"_RINvC1f1gKb0_Kb1_E", "f::g::<false, true>"}, Name{"_RINvC1f1gKc78_E", "f::g::<'x'>"},
        Name{"_RINvC1f1gKc27_E", "f::g::<'\\''>"},
        Name{"_RINvC1f1gKo123456789abcdef01_E", "f::g::<0x123456789abcdef01>"},
        Name{"_RINvC1f1gKpE", "f::g::<_>"}, Name{"_RINvC1f1gKRe616263_E", "f::g::<\"abc\">"},
        Name{"_RINvC1f1gKANtC3foo1AE", "_RINvC1f1gKANtC3foo1AE"},  // broken: no constant
        Name{"_RINvC1f1gKAj1_j2_EE", "f::g::<{[1, 2]}>"},
        Name{"_RINvC1f1gKTj1_EE", "f::g::<{(1,)}>"},
        Name{"_RINvC1f1gKVNtC3foo1AUE", "f::g::<{foo::A}>"},
        Name{"_RINvC1f1gKVNtC3foo1ATj1_EE", "f::g::<{foo::A(1)}>"},
        Name{"_RINvC1f1gKVNtC3foo1AS1xj1_EE", "f::g::<{foo::A { x: 1 }}>"},
        // Other alphabets: RFC 3492's own example of one, and the letters of its rules.
        Name{"_RNvC3foou10a_99999999", "_RNvC3foou10a_99999999"},  // broken
        Name{"_RNvC3foou9gre_6ka8i", "foo::größe"},
        // References back, and what a compiler adds.
        Name{"_RINvC3foo3barNtB2_1ABb_E", "foo::bar::<foo::A, foo::A>"},
        Name{"_RNvC3foo3bar.llvm.42", "foo::bar [clone .llvm.42]"},
        Name{"_RNvC3foo3barC5other", "foo::bar"}));  // the crate that instantiates it

INSTANTIATE_TEST_SUITE_P(
    Legacy, RustName,
    testing::Values(Name{"_ZN3foo3bar17h0123456789abcdefE", "foo::bar::h0123456789abcdef"},
                    Name{"_ZN3foo3bar17h0123456789abcdefE.llvm.42",
                         "foo::bar::h0123456789abcdef [clone .llvm.42]"},
                    Name{"_ZN33_$LT$foo..A$u20$as$u20$foo..T$GT$1f17h0123456789abcdefE",
                         "<foo::A as foo::T>::f::h0123456789abcdef"},
                    Name{"_ZN3foo28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
                         "foo::{{closure}}::h0123456789abcdef"},
                    Name{"_ZN23drop_in_place$LT$u8$GT$17h0123456789abcdefE",
                         "drop_in_place<u8>::h0123456789abcdef"},
                    Name{"_ZN15$RF$$BP$$LP$$C$17h0123456789abcdefE", "&*(,::h0123456789abcdef"},
                    Name{"_ZN3a$b17h0123456789abcdefE", "a$b::h0123456789abcdef"}));

class NoRustName : public testing::TestWithParam<const char*> {};

TEST_P(NoRustName, IsLeftAsItIs) {
  EXPECT_EQ(demangle_rust(GetParam()), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Names, NoRustName,
                         testing::Values("", "_R", "_R1", "_R1C3foo", "_RN", "_RNvC3foo",
                                         "_RNvC3foo9bar", "_RNvC3foo3ba?", "_RINvC3foo3barl",
                                         "_RNvB_3bar", "_RNvB0_3bar", "_RNvC3foo3bar ", "_RX",
                                         "_RNvC3foo3bar\xff", "_RNvC99999999999999999999foo",
                                         "_RINvC1f1gRL5_hE", "_RINvC1f1gKb2_E",
                                         "_RINvC1f1gKc110000_E", "_RINvC1f1gKRe6_E", "_ZN3foo3barE",
                                         "_ZN17h0123456789abcdefE", "_ZN3foo17h0123456789abcdegE",
                                         "_ZN3foo17h0123456789abcdef",
                                         "_ZN9foo17h0123456789abcdefE", "_Rfoo", "Rust"));

std::string base_62(size_t number) {
  constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (number == 0) return "_";
  std::string digits = "_";
  for (--number;; number /= 62) {
    digits.insert(digits.begin(), kDigits[number % 62]);
    if (number < 62) return digits;
  }
}

// Each pair of references back doubles the work.
TEST(RustNames, ThatReferBackToTheirPartsAgainAndAgainTakeNoTime) {
  std::string name = "_RINvC1f1g";
  size_t last = name.size() - 2;
  name += "TlE";
  for (int level = 0; level < 64; ++level) {
    const std::string reference = "B" + base_62(last);
    last = name.size() - 2;
    name += "T" + reference + reference + "E";
    const auto shown = demangle_rust(name + "E");
    if (level == 0) {
      EXPECT_EQ(shown, "f::g::<(i32,), ((i32,), (i32,))>");
    }
    EXPECT_TRUE(level < 20 || !shown) << level;
  }
  std::string deep = "_RINvC1f1g";
  for (int i = 0; i < 100'000; ++i) deep += 'R';
  EXPECT_EQ(demangle_rust(deep + "lE"), std::nullopt);
}

TEST(RustNames, MatchWithoutWhatTheSourceDoesNotSay) {
  const auto matches = [](const char* text, const char* mangled) {
    const auto pattern = Pattern::parse(text, PatternSyntax::glob);
    return pattern && pattern->matches_function(mangled);
  };
  const char* const legacy = "_ZN1a1b1c17h0123456789abcdefE";
  EXPECT_TRUE(matches("a::b::c", legacy));
  EXPECT_TRUE(matches("a::b::c::h0123456789abcdef", legacy));
  EXPECT_TRUE(matches("a::b::*", legacy));
  EXPECT_FALSE(matches("a::b", legacy));
  EXPECT_FALSE(matches("a::b::c::h0000000000000000", legacy));
  EXPECT_TRUE(matches("a::b::c", "_ZN1a1b1c17h0123456789abcdefE.llvm.42"));
  EXPECT_TRUE(matches("foo::bar", "_RNvC3foo3bar"));
  EXPECT_TRUE(matches("foo::bar", "_RINvC3foo3barlE"));
  EXPECT_TRUE(matches("foo::bar::<i32>", "_RINvC3foo3barlE"));
  EXPECT_FALSE(matches("foo::bar::<i64>", "_RINvC3foo3barlE"));
  EXPECT_TRUE(matches("foo::bar", "_RINvC3foo3barFlEbE.llvm.42"));
  EXPECT_TRUE(matches("foo::größe", "_RNvC3foou9gre_6ka8i"));
}

TEST(RustNames, AreShownWithoutWhatTheSourceDoesNotSay) {
  for (const auto& [whole, name] :
       {std::pair("a::b::h0123456789abcdef", "a::b"), std::pair("a::h0123", "a::h0123"),
        std::pair("h0123456789abcdef", "h0123456789abcdef"), std::pair("a::b::<i32>", "a::b"),
        std::pair("<a::A>::f", "<a::A>::f"),
        std::pair("<a::A<i32>>::f::<u8, A<i8>>", "<a::A<i32>>::f"),
        std::pair("a::b::<fn(i32) -> bool>", "a::b"),
        std::pair("a::<i32>::{closure#0}", "a::<i32>::{closure#0}"),
        std::pair("<a::A as b::B<i32>>", "<a::A as b::B<i32>>"), std::pair("::<i32>", "::<i32>"),
        std::pair("a::b::h0123456789abcdef [clone .llvm.42]", "a::b")})
    EXPECT_EQ(without_signature(whole), name) << whole;
}

// What rustc makes of a program that uses much of the grammar, and of its standard library.
TEST(RustNames, AreThoseThatBinutilsShow) {
  if (run_shell("command -v rustc").status != 0) GTEST_SKIP() << "rustc is not installed";
  const Scratch scratch;
  const std::string program = scratch / "names";
  ASSERT_EQ(run_shell("rustc -O -C symbol-mangling-version=v0 -o " + program +
                      " " IMAGE_SOURCES "names.rs 2>&1")
                .status,
            0);
  const auto names =
      lines_of(run_shell("nm " + program + " | sed -n 's/.* \\(_R[^.]*\\)$/\\1/p'").output);
  const auto shown = lines_of(
      run_shell("nm " + program + " | sed -n 's/.* \\(_R[^.]*\\)$/\\1/p' | c++filt -i").output);
  ASSERT_EQ(names.size(), shown.size());
  std::set<std::string> own;
  size_t compared = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = demangle(names[i]);
    if (name.starts_with("names::")) own.insert(name);
    // Binutils' are older than some of the grammar, and do not escape characters.
    if (shown[i] == names[i] || shown[i].find("'''") != std::string::npos) continue;
    EXPECT_EQ(name, shown[i]) << names[i];
    ++compared;
  }
  EXPECT_GT(compared, 100u);
  for (const char* name : {"names::main", "names::größe", "names::apply"})
    EXPECT_TRUE(own.contains(name)) << name;
}

}  // namespace
}  // namespace pinprick::image
