// Notes that describe SDT points: an untrusted section.
#include "image/notes/sdt_notes.h"

#include "fuzzer.h"
#include "image/elf/elf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  for (const image::SdtNote& note : image::parse_sdt_notes({data, size})) {
    CHECK(!note.provider.empty() && !note.name.empty());
    for (const std::string_view text : {note.provider, note.name, note.arguments}) {
      CHECK(reinterpret_cast<const uint8_t*>(text.data()) >= data);
      CHECK(reinterpret_cast<const uint8_t*>(text.data() + text.size()) < data + size);
      for (const char c : text) CHECK(c >= ' ' && c <= '~');
    }
  }
  return 0;
}

std::vector<Input> seeds() {
  using namespace pinprick;
  std::vector<Input> all;
  for (const std::string& path : {std::string(IMAGE_PROGRAMS) + "points_pie",
                                  std::string("/usr/lib/x86_64-linux-gnu/libstdc++.so.6"),
                                  std::string("/usr/bin/python3.11")})
    if (const auto file = image::ElfFile::open(path)) {
      const auto section = file->sdt_notes();
      if (!section.empty()) all.emplace_back(section.begin(), section.end());
    }
  return all;
}
