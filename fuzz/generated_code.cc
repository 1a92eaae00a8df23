// The list in which a process names the code that it has generated.
#include "session/generated_names.h"

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  session::GeneratedCode code;
  code.add_lines(text);
  code.add_lines(text.substr(0, size / 2));
  CHECK(code.size() <= 2 * size);
  for (const Address address : {Address{0}, Address{0x1000}, Address{0x1fff}, UINT64_MAX}) {
    const auto* const found = code.find(address);
    if (found == nullptr) continue;
    CHECK(address - found->first < found->second.size && !found->second.name.empty());
    CHECK(code.find(found->first) == found);
    CHECK(code.find(found->first + found->second.size - 1) == found);
  }
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const std::string_view one :
       {"1000 100 f\n1080 1000 g at file:1\n0x10 8 h\n", "0 ffffffffffffffff all\nffffffff 1 x\n"})
    all.emplace_back(one.begin(), one.end());
  return all;
}
