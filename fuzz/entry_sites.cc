// The lists of entry sites that compilers leave: untrusted sections.
#include "image/notes/entry_sites.h"

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  using image::EntryKind;
  fuzz::Numbers numbers({data, size});
  const Address address = numbers.take<uint64_t>();
  const image::Relocation relocations[] = {
      {numbers.take<uint64_t>(), image::Relocation::Kind::relative, numbers.take<int64_t>(), {}}};
  const auto section = numbers.rest();
  const auto all =
      image::parse_entry_addresses(section, address, EntryKind::patchable, relocations);
  CHECK(all.size() <= section.size() / sizeof(Address));
  CHECK(image::parse_xray_map(section, address).size() <= section.size() / 32);
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  Input addresses(24, 0);
  for (uint8_t i = 0; i < 64; ++i) addresses.push_back(i % 8 == 1 ? 0x10 : 0);
  all.push_back(addresses);
  Input map(24, 0);
  for (int i = 0; i < 4; ++i) {
    map.insert(map.end(), 16, 0x11);
    map.push_back(static_cast<uint8_t>(i));
    map.push_back(0);
    map.push_back(2);
    map.insert(map.end(), 13, 0);
  }
  all.push_back(map);
  return all;
}
