// An untrusted ELF file: all that is read of it, down to its branch targets.
#include "image/elf/elf_file.h"

#include <algorithm>

#include "fuzzer.h"
#include "image/elf/unwind_info.h"
#include "image/linkage.h"
#include "image/object.h"

namespace {

using pinprick::image::ElfFile;
using pinprick::image::Function;
using pinprick::image::HashedName;
using pinprick::image::Linkage;
using pinprick::image::Object;

void look_at(ElfFile file) {
  CHECK(!file.segments().empty());
  for (const auto& symbol : file.symtab()) CHECK(!symbol.name.empty());
  file.relocations();
  file.debug_link();
  file.has_symtab();
  Object object(std::move(file), 0, {"object"}, "/nowhere/object", "/nowhere", {});
  pinprick::Address last = 0;
  for (const Function& function : object.functions().functions()) {
    CHECK(function.range.begin >= last);
    CHECK(function.range.begin <= function.range.end);
    CHECK(function.range.end <= function.limit);
    CHECK(object.contains_code(function.range.begin));
    last = function.range.begin;
    object.functions().names(function);
  }
  object.targets();
  for (const Function& function : object.functions().functions()) {
    const auto* const site = object.entry_site(function);
    if (site != nullptr) CHECK(site->room.empty() || function.range.contains(site->room));
    pinprick::image::entry_kind(object, function);
  }
  object.reserved();
  constexpr size_t kMostNames = 100;
  const auto symbols = object.elf().dynamic_symbols();
  for (size_t i = 0; i < std::min(symbols.size(), kMostNames); ++i)
    for (const auto& found : object.exports().find(HashedName(symbols[i].name)))
      CHECK(object.contains_code(found.address));
  Linkage linkage({&object});
  const auto& relocations = object.relocations();
  for (size_t i = 0; i < std::min(relocations.size(), kMostNames); ++i)
    for (const auto& target : linkage.targets(object, relocations[i].address).known)
      CHECK(object.contains_code(target.address));
  // What lies in a file has no more bytes than the file.
  if (!object.functions().functions().empty()) object.code(object.functions().functions().front());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<uint8_t> bytes(data, data + size);
  for (uint64_t bias : {uint64_t{0}, uint64_t{0x7f00'0000'0000}})
    if (auto file = ElfFile::from_bytes(bytes, "fuzz", bias)) look_at(*std::move(file));
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* name :
       {"basic_pie", "basic_nopie", "libbasic.so.1", "libbasic_sysv.so.1", "jumps_nopie", "nested",
        "sequences_pie", "throws_pie", "basic.o", "basic_embedded"})
    all.push_back(pinprick::fuzz::file(std::string(IMAGE_PROGRAMS) + name));
  // As an image in memory: no section headers.
  for (size_t i = 0; i < 3; ++i) {
    Input copy = all[i];
    if (copy.size() < 64) continue;
    for (size_t at = 0x28; at < 0x30; ++at) copy[at] = 0;
    for (size_t at = 0x3a; at < 0x40; ++at) copy[at] = 0;
    all.push_back(std::move(copy));
  }
  return all;
}
