#include "image/notes/point_records.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "arch/jump.h"
#include "base/bytes.h"

namespace pinprick::image {
namespace {

constexpr uint32_t kSiteWithNop = 1;
constexpr std::string_view kPointOwner = "pinprick";
constexpr uint32_t kRecordSize = 12;
// No real object comes near these.
constexpr size_t kMostPoints = size_t{1} << 20;
constexpr size_t kLongestNames = 512;  // a provider and a name, each with a zero

Address from(Address place, uint32_t distance) {
  return place + static_cast<uint64_t>(int64_t{static_cast<int32_t>(distance)});
}

bool is_data(const ElfFile& object, Range wanted) {
  return std::any_of(
      object.segments().begin(), object.segments().end(), [&](const Segment& segment) {
        const Range in_file = {segment.range.begin, segment.range.begin + segment.file_size};
        return segment.writable && wanted.begin < wanted.end && in_file.contains(wanted);
      });
}

// Two strings, one after the other. Returns the empty string if they are not names.
std::string label_at(const ElfFile& object, Address names) {
  std::string text;
  for (const Segment& segment : object.segments()) {
    const Range in_file = {segment.range.begin, segment.range.begin + segment.file_size};
    if (!in_file.contains(names)) continue;
    const auto bytes =
        object.read({names, names + std::min<uint64_t>(kLongestNames, in_file.end - names)});
    ByteReader reader(bytes);
    const std::string_view provider = reader.c_string();
    const std::string_view name = reader.c_string();
    if (reader.ok() && !provider.empty() && !name.empty())
      text = std::string(provider) + ":" + std::string(name);
    break;
  }
  return text;
}

}  // namespace

std::vector<PointRecord> parse_point_records(std::span<const uint8_t> section, Address address) {
  std::vector<PointRecord> records;
  ByteReader reader(section);
  while (reader.remaining() != 0 && records.size() < kMostPoints) {
    const uint32_t owner_size = reader.u32();
    if (owner_size == 0) continue;  // padding before notes of another alignment
    const uint32_t size = reader.u32();
    const uint32_t type = reader.u32();
    ByteReader owner = reader.sub(align_up(uint64_t{owner_size}, 4));
    const Address place = address + reader.position();
    ByteReader description = reader.sub(size);
    if (!reader.ok()) break;
    // The last note may lack its padding.
    reader.skip(std::min<uint64_t>(align_up(uint64_t{size}, 4) - size, reader.remaining()));
    if (type != kSiteWithNop || size != kRecordSize || owner_size != kPointOwner.size() + 1 ||
        owner.c_string() != kPointOwner)
      continue;
    PointRecord record;
    record.nop = from(place, description.u32());
    record.block = from(place + 4, description.u32());
    record.point = from(place + 8, description.u32());
    records.push_back(record);
  }
  return records;
}

std::vector<PointRecord> point_records(const ElfFile& object) {
  const ElfFile::Section section = object.point_records();
  auto records = parse_point_records(section.bytes, section.address);
  if (!object.has_section_headers())
    for (const auto& notes : object.notes()) {
      const auto some = parse_point_records(notes.data, notes.address);
      records.insert(records.end(), some.begin(), some.end());
    }
  std::erase_if(records, [&](const PointRecord& record) {
    return !object.in_executable_segment(record.nop) ||
           !object.in_executable_segment(record.nop + arch::kLinkLength - 1) ||
           !object.in_executable_segment(record.block) ||
           !arch::reaches(record.nop + arch::kLinkLength, record.block) ||
           !is_data(object, {record.point, record.count() + sizeof(uint16_t)});
  });
  std::sort(records.begin(), records.end());
  const auto same_nop = [](const PointRecord& a, const PointRecord& b) { return a.nop == b.nop; };
  records.erase(std::unique(records.begin(), records.end(), same_nop), records.end());
  return records;
}

std::vector<std::string> point_labels(const ElfFile& object, std::span<const Address> points,
                                      std::span<const Relocation> relocations) {
  std::vector<Address> names(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const Address at = points[i] + kPointNames;
    const auto bytes = object.read({at, at + sizeof(Address)});
    if (bytes.size() == sizeof(Address)) std::memcpy(&names[i], bytes.data(), sizeof(Address));
  }
  for (const Relocation& relocation : relocations) {
    if (relocation.kind != Relocation::Kind::relative) continue;
    const auto point =
        std::lower_bound(points.begin(), points.end(), relocation.address - kPointNames);
    if (point != points.end() && *point == relocation.address - kPointNames)
      names[static_cast<size_t>(point - points.begin())] = static_cast<Address>(relocation.addend);
  }
  std::vector<std::string> labels;
  labels.reserve(names.size());
  for (const Address at : names) labels.push_back(label_at(object, at));
  return labels;
}

}  // namespace pinprick::image
