// The table of functions that Go's linker leaves in a program.
#include "image/elf/go_table.h"

#include <cstring>

#include "fuzzer.h"

using namespace pinprick;
using image::GoTableBytes;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr Address kTable = 0x500000, kText = 0x401000;
  const GoTableBytes table = {kTable, {data, data + size}};
  const auto word = [&](Address address) -> std::optional<uint64_t> {
    const uint64_t at = address - kTable;
    if (at > size || size - at < sizeof(uint64_t)) return std::nullopt;
    uint64_t value = 0;
    std::memcpy(&value, data + at, sizeof value);
    return value;
  };
  size_t names = 0;
  Address last = 0;
  const char* const begin = reinterpret_cast<const char*>(table.bytes.data());
  for (const image::Symbol& symbol : image::parse_go_table(table, word, [] { return kText; })) {
    CHECK(symbol.address >= last);
    CHECK(symbol.address + symbol.size >= symbol.address);
    CHECK(!symbol.name.empty());
    CHECK(symbol.name.data() >= begin && symbol.name.data() + symbol.name.size() < begin + size);
    last = symbol.address;
    names += symbol.name.size();
  }
  CHECK(names <= 2 * size);
  return 0;
}

namespace {

template <class T>
void put(Input& bytes, T value) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

// Two functions, `a` and `b`, in the form of the version.
Input table_of(uint32_t magic, size_t words, bool has_text, size_t field) {
  const auto number = [&](Input& bytes, uint64_t value) {
    if (field == sizeof(uint64_t))
      put<uint64_t>(bytes, value);
    else
      put<uint32_t>(bytes, static_cast<uint32_t>(value));
  };
  const size_t header = 8 + 8 * words, names = header, list = header + 8;
  const size_t details = list + 5 * field;
  Input bytes;
  put<uint32_t>(bytes, magic);
  put<uint32_t>(bytes, 0x08010000);
  put<uint64_t>(bytes, 2);
  if (words > 1) {
    put<uint64_t>(bytes, 0);
    if (has_text) put<uint64_t>(bytes, 0x401000);
    put<uint64_t>(bytes, names);
    for (int i = 0; i < 4; ++i) put<uint64_t>(bytes, list);
  }
  const auto put_names = [&] { bytes.insert(bytes.end(), {'a', 0, 'b', 0, 0, 0, 0, 0}); };
  if (words > 1) put_names();
  const size_t base = words > 1 ? list : 0;
  for (uint64_t i = 0; i < 2; ++i) {
    number(bytes, 0x1000 * i);
    number(bytes, details - base + i * (field + 4));
  }
  number(bytes, 0x2000);
  for (uint32_t i = 0; i < 2; ++i) {
    number(bytes, 0x1000 * i);
    put<uint32_t>(bytes, 2 * i);
  }
  if (words == 1) put_names();
  bytes.resize(bytes.size() + 64);
  return bytes;
}

}  // namespace

std::vector<Input> seeds() {
  return {table_of(0xfffffffb, 1, false, 8), table_of(0xfffffffa, 7, false, 8),
          table_of(0xfffffff0, 8, true, 4), table_of(0xfffffff1, 8, true, 4)};
}
