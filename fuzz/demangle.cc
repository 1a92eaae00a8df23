// Symbol names, which are the target's own.
#include "image/demangle.h"

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  const std::string_view name(reinterpret_cast<const char*>(data), size);
  const std::string demangled = image::demangle(name);
  if (!name.starts_with("_Z")) CHECK(demangled == name);
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
  for (const char* name :
       {"main", "_ZN3net4Conn4readEPcm", "_ZplRK1AS1_", "_ZNSt6vectorIiSaIiEE9push_backEOi",
        "_ZZN1A1fEvENKUlvE_clEv", "_ZN1AcvbEv", "_ZN1A1fEv.cold", "_ZNKSt8functionIFvPKciEEclES1_i",
        "_Z1fIJiPcEEDTcl1gspfp_EEDpT_", "net::Conn::read(char*, int) const",
        "std::function<void (int)> make<A<(B)1>>(int)", "bool operator< <int>(A const&)",
        "void (anonymous namespace)::f()", "_ZN12_GLOBAL__N_11fEv", "f(int) [clone .cold]"})
    all.push_back(pinprick::fuzz::text(name));
  return all;
}
