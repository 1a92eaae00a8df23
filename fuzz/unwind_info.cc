// Unwind tables and exception tables.
#include "image/elf/unwind_info.h"

#include "fuzzer.h"
#include "image/elf/elf_file.h"
#include "image/elf/frame_rows.h"

namespace {

void check_rows(std::span<const uint8_t> bytes, pinprick::Address address, pinprick::Range code) {
  using pinprick::layout::FrameRow;
  const auto rows = pinprick::image::frame_rows(bytes, address, code);
  // An entry of 10 bytes or more makes no more rows than it has bytes, one for a gap included.
  CHECK(rows.size() <= bytes.size() + 1);
  if (!rows.empty()) CHECK(rows.front().from == 0);
  const FrameRow* last = nullptr;
  for (const FrameRow& row : rows) {
    CHECK(row.from < code.size());
    CHECK((row.rule & PP_FRAME_KIND) <= PP_FRAME_LOADED);
    if (last != nullptr) CHECK(row.from > last->from && row.rule != last->rule);
    last = &row;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  fuzz::Numbers numbers({data, size});
  const auto address = numbers.take<uint64_t>();
  const auto bytes = numbers.rest();
  Address last = 0;
  const auto entries = image::parse_eh_frame(bytes, address);
  for (const image::FrameEntry& entry : entries) {
    CHECK(entry.code.begin >= last);
    CHECK(entry.code.begin < entry.code.end);
    last = entry.code.begin;
  }
  const Range code = {address & ~uint64_t{0xffff}, (address | 0xffff)};
  check_rows(bytes, address, code);
  if (!entries.empty())
    check_rows(bytes, address, {entries[0].code.begin, entries.back().code.end});
  image::parse_landing_pads(bytes, address, code);  // anywhere: .cold parts have pads, too
  return 0;
}

std::vector<Input> seeds() {
  using namespace pinprick;
  std::vector<Input> all;
  const auto add = [&](Address address, std::span<const uint8_t> bytes) {
    Input input;
    for (int i = 0; i < 8; ++i) input.push_back(static_cast<uint8_t>(address >> (8 * i)));
    input.insert(input.end(), bytes.begin(), bytes.end());
    all.push_back(std::move(input));
  };
  for (const char* name : {"basic_pie", "throws_pie", "nested", "throws_one_segment"}) {
    auto file = image::ElfFile::open(std::string(IMAGE_PROGRAMS) + name);
    if (!file) continue;
    const auto section = file->eh_frame();
    if (!section) continue;
    add(section->address, section->data);
    for (const image::FrameEntry& entry : image::parse_eh_frame(section->data, section->address))
      if (entry.lsda != 0) add(entry.lsda, file->read({entry.lsda, entry.lsda + 64}));
  }
  return all;
}
