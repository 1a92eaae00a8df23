// The exits of the functions of an untrusted ELF file.
#include "placement/exits.h"

#include <algorithm>

#include "arch/code.h"
#include "fuzzer.h"
#include "image/elf/elf_file.h"
#include "placement/probe_set.h"

namespace {

using namespace pinprick;

void look_at(image::ElfFile file) {
  image::Object object(std::move(file), 0, {"object"}, "/nowhere/object", "/nowhere", {});
  object.load_text();
  const placement::FunctionParts parts(object);
  for (const image::Function& function : object.functions().functions()) {
    const auto code = placement::code_of(object, function);
    if (!code) continue;
    const auto exits = placement::find_exits(object, function, *code, parts);
    if (!exits) continue;
    CHECK(!exits->pieces.empty() && exits->pieces.front().code.range == function.range);
    bool is_any_jump = false;
    for (const placement::FunctionPiece& piece : exits->pieces) {
      CHECK(std::is_sorted(piece.exits.begin(), piece.exits.end()));
      for (const Address exit : piece.exits) {
        CHECK(piece.code.range.contains(exit));
        const auto one = plan::instruction_at(piece.code, exit);
        CHECK(one && !one->falls_through());
        is_any_jump = is_any_jump || one->flow != arch::Flow::ret;
      }
    }
    CHECK(is_any_jump == exits->has_tail_jumps);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<uint8_t> bytes(data, data + size);
  if (auto file = image::ElfFile::from_bytes(bytes, "fuzz", 0)) look_at(*std::move(file));
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* name : {"exits_pie", "exits_nopie", "jumps_nopie", "nested"})
    all.push_back(fuzz::file(std::string(IMAGE_PROGRAMS) + name));
  return all;
}
