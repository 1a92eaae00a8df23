// The records of tracepoints' sites: a section that may hold anything.
#include "image/notes/point_records.h"

#include "fuzzer.h"
#include "image/elf/elf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  fuzz::Numbers numbers({data, size});
  const Address address = numbers.take<uint64_t>();
  const auto section = numbers.rest();
  constexpr size_t kRecord = 36;  // with the head of its note; the last one may lack nothing
  const auto records = image::parse_point_records(section, address);
  CHECK(records.size() <= section.size() / kRecord);
  // Distances are of 32 bits, from places in the section.
  const auto is_near = [&](Address at) {
    return at - address + (uint64_t{1} << 31) < (uint64_t{1} << 32) + section.size();
  };
  for (const image::PointRecord& one : records)
    CHECK(is_near(one.nop) && is_near(one.block) && is_near(one.point));
  return 0;
}

std::vector<Input> seeds() {
  using namespace pinprick;
  std::vector<Input> all;
  const auto file = image::ElfFile::open(std::string(IMAGE_PROGRAMS) + "tracepoints_pie");
  if (!file) return all;
  const auto section = file->point_records();
  Input one(sizeof(Address), 0);
  one.insert(one.end(), section.bytes.begin(), section.bytes.end());
  all.push_back(one);
  return all;
}
