#include "image/notes/sdt_notes.h"

#include <algorithm>

#include "base/bytes.h"
#include "image/notes/point_records.h"

namespace pinprick::image {
namespace {

constexpr uint32_t kPointType = 3;
constexpr std::string_view kSdtOwner = "stapsdt";
// No real object comes near these.
constexpr size_t kMostNotes = size_t{1} << 20;
constexpr size_t kLongestPointName = 256;
constexpr size_t kLongestArguments = 4096;

bool is_ascii_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// Names are printed, and parts of patterns are separated by colons.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestPointName && is_ascii_text(text) &&
         text.find_first_of(": ") == text.npos;
}

std::optional<SdtNote> parse_description(ByteReader reader) {
  SdtNote note;
  note.address = reader.u64();
  note.base = reader.u64();
  note.semaphore = reader.u64();
  note.provider = reader.c_string();
  note.name = reader.c_string();
  note.arguments = reader.c_string();
  if (!reader.ok() || !is_name(note.provider) || !is_name(note.name) ||
      note.arguments.size() > kLongestArguments || !is_ascii_text(note.arguments))
    return std::nullopt;
  return note;
}

bool can_hold_semaphore(const ElfFile& object, Address address) {
  const Range wanted = {address, address + sizeof(uint16_t)};
  return std::any_of(
      object.segments().begin(), object.segments().end(), [&](const Segment& segment) {
        const Range in_file = {segment.range.begin, segment.range.begin + segment.file_size};
        return segment.writable && wanted.begin < wanted.end && in_file.contains(wanted);
      });
}

}  // namespace

std::vector<SdtNote> parse_sdt_notes(std::span<const uint8_t> section) {
  std::vector<SdtNote> notes;
  ByteReader reader(section);
  while (reader.remaining() != 0 && notes.size() < kMostNotes) {
    const uint32_t owner_size = reader.u32();
    const uint32_t size = reader.u32();
    const uint32_t type = reader.u32();
    ByteReader owner = reader.sub(align_up(uint64_t{owner_size}, 4));
    ByteReader description = reader.sub(size);
    if (!reader.ok()) break;
    // The last note may lack its padding.
    reader.skip(std::min<uint64_t>(align_up(uint64_t{size}, 4) - size, reader.remaining()));
    if (type != kPointType || owner_size != kSdtOwner.size() + 1 || owner.c_string() != kSdtOwner)
      continue;
    if (const auto note = parse_description(description)) notes.push_back(*note);
  }
  return notes;
}

Address SdtSite::count() const {
  return point != 0 ? point + kPointCount : semaphore;
}

std::vector<SdtSite> sdt_sites(const ElfFile& object, const ElfFile* debug) {
  const bool in_object = !object.sdt_notes().empty();
  if (!in_object && debug == nullptr) return {};
  const ElfFile& holder = in_object ? object : *debug;
  // Only the object moves when it is prelinked, and its debug file does not.
  const auto base = object.sdt_base() ? object.sdt_base() : holder.sdt_base();
  std::vector<SdtSite> sites;
  for (const SdtNote& note : parse_sdt_notes(holder.sdt_notes())) {
    const Address moved = base ? *base - note.base : 0;
    SdtSite site;
    site.address = note.address + moved;
    if (note.semaphore != 0) site.semaphore = note.semaphore + moved;
    if (!object.in_executable_segment(site.address) ||
        (note.semaphore != 0 && !can_hold_semaphore(object, site.semaphore)))
      continue;
    site.label = std::string(note.provider) + ":" + std::string(note.name);
    site.provider_size = note.provider.size();
    site.arguments = note.arguments;
    sites.push_back(std::move(site));
  }
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  return sites;
}

}  // namespace pinprick::image
