// Symbol names, which are the target's own.
#include "image/names/demangle.h"

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  const std::string_view name(reinterpret_cast<const char*>(data), size);
  const std::string demangled = image::demangle(name);
  if (!image::is_mangled(name)) CHECK(demangled == name);
  const std::string_view function = image::without_copy_suffix(name);
  CHECK(name.starts_with(function) && function.empty() == name.empty());
  for (std::string_view whole : {std::string_view(demangled), name}) {
    const std::string_view part = image::without_signature(whole);
    CHECK(part.empty() || (part.data() >= whole.data() &&
                           part.data() + part.size() <= whole.data() + whole.size()));
    CHECK(part.empty() == whole.empty());
  }
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* name : {"main",
                           "_ZN3net4Conn4readEPcm",
                           "_ZplRK1AS1_",
                           "_ZNSt6vectorIiSaIiEE9push_backEOi",
                           "_ZZN1A1fEvENKUlvE_clEv",
                           "_ZN1AcvbEv",
                           "_ZN1A1fEv.cold",
                           "_ZNKSt8functionIFvPKciEEclES1_i",
                           "_Z1fIJiPcEEDTcl1gspfp_EEDpT_",
                           "net::Conn::read(char*, int) const",
                           "std::function<void (int)> make<A<(B)1>>(int)",
                           "bool operator< <int>(A const&)",
                           "void (anonymous namespace)::f()",
                           "_ZN12_GLOBAL__N_11fEv",
                           "f(int) [clone .cold]",
                           "f.isra.0.cold",
                           "f.constprop.0",
                           "_ZN3foo3bar17h0123456789abcdefE.llvm.42",
                           "_ZN33_$LT$foo..A$u20$as$u20$foo..T$GT$1f17h0123456789abcdefE",
                           "_RNvCs1234_3foo3bar",
                           "_RNCNvC3foo3bars_0",
                           "_RNvXC3fooNtB2_1ANtB2_1T1f",
                           "_RNvMs_C3fooINtB4_1AlE1f",
                           "_RINvC1f1gFG0_RL1_hRL0_hEuE",
                           "_RINvC1f1gDINtC3foo1TbEp4ItemlEL_E",
                           "_RINvC1f1gKVNtC3foo1AS1xj1_EE",
                           "_RINvC1f1gKRe616263_Kc27_Kin2a_E",
                           "_RNvC3foou9gre_6ka8i",
                           "_RINvC3foo3barNtB2_1ABb_E.llvm.42",
                           "_RINvC1f1gWjRj1_j2_E",
                           "foo::bar::<fn(i32) -> bool>",
                           "a::b::h0123456789abcdef"})
    all.push_back(pinprick::fuzz::text(name));
  return all;
}
