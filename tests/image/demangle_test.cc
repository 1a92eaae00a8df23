#include "image/names/demangle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "image/maps.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

TEST(Demangle, TurnsSymbolsIntoNames) {
  EXPECT_EQ(demangle("_ZN3net4Conn4readEPci"), "net::Conn::read(char*, int)");
  EXPECT_EQ(demangle("_ZNK3net4Conn4sizeEv"), "net::Conn::size() const");
}

TEST(Demangle, DoesNotChangeWhatIsNotMangled) {
  for (const char* name : {"", "main", "_start", "Z", "_Z", "_ZZZ", "_Znot a name", "Zfoo"})
    EXPECT_EQ(demangle(name), name);
}

TEST(Demangle, DoesNotTakeTypesForNames) {
  EXPECT_EQ(demangle("i"), "i") << "a C function called i is no int";
  EXPECT_EQ(demangle("Pc"), "Pc");
}

TEST(Demangle, DoesNotChangeNamesThatWouldOverflowTheStack) {
  const std::string nested = "_Z1f" + std::string(100'000, 'P') + "i";
  EXPECT_EQ(demangle(nested), nested);
}

struct Signature {
  const char* symbol;
  const char* demangled;
  const char* name;
};

void PrintTo(const Signature& signature, std::ostream* out) {
  *out << signature.demangled;
}

class WithoutSignature : public testing::TestWithParam<Signature> {};

TEST_P(WithoutSignature, IsTheNameAlone) {
  const Signature& signature = GetParam();
  if (*signature.symbol != '\0') {
    ASSERT_EQ(demangle(signature.symbol), signature.demangled);
  }
  EXPECT_EQ(without_signature(signature.demangled), signature.name);
}

// The symbols are those that g++ makes of such declarations.
INSTANTIATE_TEST_SUITE_P(
    Functions, WithoutSignature,
    testing::Values(
        Signature{"", "main", "main"}, Signature{"", "", ""}, Signature{"_Z3foov", "foo()", "foo"},
        Signature{"_ZN3net4Conn4readEPci", "net::Conn::read(char*, int)", "net::Conn::read"},
        Signature{"_ZNVK3net4Conn4sizeEv", "net::Conn::size() const volatile", "net::Conn::size"},
        Signature{"_ZNKR1A1fEv", "A::f() const &", "A::f"},
        Signature{"_ZNO1A1fEv", "A::f() &&", "A::f"}, Signature{"_ZN1AD1Ev", "A::~A()", "A::~A"},
        Signature{"_Z4sortPFiPKvS0_E", "sort(int (*)(void const*, void const*))", "sort"},
        Signature{"_Z4callM1AFviE", "call(void (A::*)(int))", "call"},
        Signature{"_Z1fPA4_i", "f(int (*) [4])", "f"},
        Signature{"_ZN12_GLOBAL__N_14workEi", "(anonymous namespace)::work(int)",
                  "(anonymous namespace)::work"},
        Signature{"_ZN1a12_GLOBAL__N_11T1fENS0_1UE",
                  "a::(anonymous namespace)::T::f(a::(anonymous namespace)::U)",
                  "a::(anonymous namespace)::T::f"}));

INSTANTIATE_TEST_SUITE_P(
    Operators, WithoutSignature,
    testing::Values(Signature{"_ZN1AclEi", "A::operator()(int)", "A::operator()"},
                    Signature{"_ZNK1AclEv", "A::operator()() const", "A::operator()"},
                    Signature{"_ZN1AixEi", "A::operator[](int)", "A::operator[]"},
                    Signature{"_ZN1AltERKS_", "A::operator<(A const&)", "A::operator<"},
                    Signature{"_ZN1AgtERKS_", "A::operator>(A const&)", "A::operator>"},
                    Signature{"_ZN1AlsEi", "A::operator<<(int)", "A::operator<<"},
                    Signature{"_ZN1ArsEi", "A::operator>>(int)", "A::operator>>"},
                    Signature{"_ZN1AssERKS_", "A::operator<=>(A const&)", "A::operator<=>"},
                    Signature{"_ZN1AptEv", "A::operator->()", "A::operator->"},
                    Signature{"_ZN1ApmEi", "A::operator->*(int)", "A::operator->*"},
                    Signature{"_ZN1AcmEi", "A::operator,(int)", "A::operator,"},
                    Signature{"_ZN1AaSERKS_", "A::operator=(A const&)", "A::operator="},
                    Signature{"_ZplRK1AS1_", "operator+(A const&, A const&)", "operator+"},
                    Signature{"_ZN1AppEi", "A::operator++(int)", "A::operator++"},
                    Signature{"_Znwm", "operator new(unsigned long)", "operator new"},
                    Signature{"_Znam", "operator new[](unsigned long)", "operator new[]"},
                    Signature{"_ZN1AdlEPv", "A::operator delete(void*)", "A::operator delete"},
                    Signature{"_ZN1AdaEPv", "A::operator delete[](void*)", "A::operator delete[]"},
                    Signature{"_Zli3_kmy", "operator\"\" _km(unsigned long long)",
                              "operator\"\" _km"},
                    Signature{"_ZN1AawEv", "A::operator co_await()", "A::operator co_await"}));

INSTANTIATE_TEST_SUITE_P(
    Conversions, WithoutSignature,
    testing::Values(
        Signature{"_ZNK1AcvbEv", "A::operator bool() const", "A::operator bool"},
        Signature{"_ZN1AcvmEv", "A::operator unsigned long()", "A::operator unsigned long"},
        Signature{"_ZN1AcvPKcEv", "A::operator char const*()", "A::operator char const*"},
        Signature{"_ZN1AcvRKSt6vectorIiSaIiEEEv",
                  "A::operator std::vector<int, std::allocator<int> > const&()",
                  "A::operator std::vector<int, std::allocator<int> > const&"},
        Signature{"_ZN1AcvPFvvEEv", "A::operator void (*)()()", "A::operator void (*)()"},
        Signature{"_ZN1AcvT_IiEEv", "A::operator int<int>()", "A::operator int<int>"}));

INSTANTIATE_TEST_SUITE_P(
    Templates, WithoutSignature,
    testing::Values(
        Signature{"_Z3maxIiET_S0_S0_", "int max<int>(int, int)", "max<int>"},
        Signature{"_Z3getISt4pairIijEEPKT_v",
                  "std::pair<int, unsigned int> const* get<std::pair<int, unsigned int> >()",
                  "get<std::pair<int, unsigned int> >"},
        Signature{"_ZN1AIiE1fEv", "A<int>::f()", "A<int>::f"},
        Signature{"_ZN1AI1B1CIS0_JEEJEE1fEv", "A<B, C<B>>::f()", "A<B, C<B>>::f"},
        Signature{"_ZN1AIiE1fIcEEvv", "void A<int>::f<char>()", "A<int>::f<char>"},
        Signature{"_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc",
                  "std::basic_ostream<char, std::char_traits<char> >& std::operator<< "
                  "<std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, "
                  "char const*)",
                  "std::operator<< <std::char_traits<char> >"},
        Signature{"_ZeqIiEbRK1AIT_ES4_", "bool operator==<int>(A<int> const&, A<int> const&)",
                  "operator==<int>"},
        Signature{"_ZltIiEbRK1AIT_ES4_", "bool operator< <int>(A<int> const&, A<int> const&)",
                  "operator< <int>"},
        Signature{"_ZN1AclIiEEvT_", "void A::operator()<int>(int)", "A::operator()<int>"},
        Signature{"_Z3runIXadL_Z3barvEEEvv", "void run<&(bar())>()", "run<&(bar())>"},
        Signature{"_Z3runILb1EEN3optIXltLi1ELi2EEEEv", "opt<(1)<(2)> run<true>()", "run<true>"},
        Signature{"_Z3runILb1EEN3optIXlsLi1ELi2EEEEv", "opt<(1)<<(2)> run<true>()", "run<true>"},
        Signature{"_Z3runILb1EEN3optIXgtLi1ELi2EEEEv", "opt<((1)>(2))> run<true>()", "run<true>"},
        Signature{"_Z3runILb1EEN3optIXrsLi1ELi2EEEEv", "opt<(1)>>(2)> run<true>()", "run<true>"},
        Signature{"", "void run<((1)<(2) && x<y)>()", "run<((1)<(2) && x<y)>"},
        Signature{"_Z3picIiEPFvcET_", "void (*pic<int>(int))(char)", "pic<int>"},
        Signature{"_Z3arrIiERA4_iT_", "int (&arr<int>(int)) [4]", "arr<int>"},
        Signature{"_Z3sumIiEDTplfp_fp0_ET_S1_", "decltype ({parm#1}+{parm#2}) sum<int>(int, int)",
                  "sum<int>"}));

INSTANTIATE_TEST_SUITE_P(
    LocalNames, WithoutSignature,
    testing::Values(
        Signature{"_ZZ3foovENKUlvE_clEv", "foo()::{lambda()#1}::operator()() const",
                  "foo()::{lambda()#1}::operator()"},
        Signature{"_ZZNK1A3barEiENKUlicE_clEic",
                  "A::bar(int) const::{lambda(int, char)#1}::operator()(int, char) const",
                  "A::bar(int) const::{lambda(int, char)#1}::operator()"},
        Signature{"_ZZ3foovEN5Local3runEi", "foo()::Local::run(int)", "foo()::Local::run"},
        Signature{"_ZZ3foovE5count", "foo()::count", "foo()::count"},
        Signature{"_ZZ4mainENKUlT_E_clIiEEDaS_",
                  "auto main::{lambda(auto:1)#1}::operator()<int>(int) const",
                  "main::{lambda(auto:1)#1}::operator()<int>"}));

INSTANTIATE_TEST_SUITE_P(
    Decorations, WithoutSignature,
    testing::Values(
        Signature{"_ZN1A4nameB5cxx11Ev", "A::name[abi:cxx11]()", "A::name[abi:cxx11]"},
        Signature{"_ZNK1A4nameB5cxx11Ev", "A::name[abi:cxx11]() const", "A::name[abi:cxx11]"},
        Signature{"_Z3fooi.constprop.0", "foo(int) [clone .constprop.0]", "foo"},
        Signature{"_Z3fooi.part.0.cold", "foo(int) [clone .part.0] [clone .cold]", "foo"},
        Signature{"_ZN1AcvmEv.cold", "A::operator unsigned long() [clone .cold]",
                  "A::operator unsigned long"}));

// A thunk adjusts `this` and continues in the function itself; with the function's name it would
// count as a second call.
INSTANTIATE_TEST_SUITE_P(Thunks, WithoutSignature,
                         testing::Values(Signature{"_ZThn8_N1A1fEi",
                                                   "non-virtual thunk to A::f(int)",
                                                   "non-virtual thunk to A::f"},
                                         Signature{"_ZTv0_n24_N1A1fEv", "virtual thunk to A::f()",
                                                   "virtual thunk to A::f"}));

// Data has no signature; its name does not change.
INSTANTIATE_TEST_SUITE_P(
    Data, WithoutSignature,
    testing::Values(Signature{"_ZTV1A", "vtable for A", "vtable for A"},
                    Signature{"_ZTVN12_GLOBAL__N_11AE", "vtable for (anonymous namespace)::A",
                              "vtable for (anonymous namespace)::A"},
                    Signature{"_ZN12_GLOBAL__N_15countE", "(anonymous namespace)::count",
                              "(anonymous namespace)::count"}));

// c++filt can leave signatures out, without ever having added them.
TEST(WithoutSignatureOfLibraries, AgreesWithCxxfiltOnTheCxxLibrary) {
  const auto maps = read_maps(::getpid());
  ASSERT_TRUE(maps);
  const auto library = std::find_if(maps->begin(), maps->end(), [](const Mapping& mapping) {
    return mapping.path.find("/libstdc++.so") != std::string::npos;
  });
  if (library == maps->end()) GTEST_SKIP() << "libstdc++ is linked statically";
  const std::string symbols = "nm -D --defined-only --without-symbol-versions " + library->path +
                              " | awk '$2 ~ /[TWi]/ && $3 ~ /^_Z/ { print $3 }' | sort -u";
  const auto full = lines_of(run_shell(symbols + " | c++filt").output);
  const auto expected = lines_of(run_shell(symbols + " | c++filt --no-params").output);
  ASSERT_EQ(full.size(), expected.size());
  size_t compared = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    // c++filt describes what thunks and clones belong to in full, and local names without the
    // parameters of the function around them.
    if (full[i].find(" to ") != std::string::npos || full[i].find(" for ") != std::string::npos ||
        full[i].find(")::") != std::string::npos)
      continue;
    ++compared;
    EXPECT_EQ(without_signature(full[i]), expected[i]) << full[i];
  }
  EXPECT_GT(compared, 1000u);
}

TEST(WithoutSignatureOfGarbage, IsNeverEmpty) {
  for (const char* text : {"()", " ()", "(int)", "a (b)", "((x)(y))", "((*)(y))(z)"})
    EXPECT_NE(without_signature(text), "") << text;
}

TEST(WithoutSignatureOfGarbage, IsAPartOfIt) {
  for (const char* text : {")",        "(",           "()",         ")(",         "((((",
                           "))))",     "a)",          "a(b",        " ()",        "<>()",
                           "operator", "operator()",  "operator(",  " operator ", "x::operator()",
                           "[clone",   " [clone .x]", "a() [clone", ">>>> ()",    "<<<< ()"}) {
    const std::string_view name = without_signature(text);
    EXPECT_TRUE(std::string_view(text).find(name) != std::string_view::npos) << text;
  }
}

}  // namespace
}  // namespace pinprick::image
