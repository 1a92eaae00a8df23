#include "library/points/point_notes.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "arch/jump.h"
#include "image/notes/point_records.h"
#include "pinprick/tracepoint.h"

namespace pinprick::library {
namespace {

// As the header writes them.
constexpr std::string_view kOwner = {"pinprick\0", 9};
constexpr uint32_t kSiteWithNop = 1, kSiteWithSemaphore = 2;
struct Record {
  int32_t to_site, to_block, to_point;  // each from its own address
};

static_assert(offsetof(pinprick_point, names) == image::kPointNames);
static_assert(offsetof(pinprick_point, semaphore) == image::kPointCount);

constexpr size_t kLongestName = 256, kLongestTypes = 1024;

std::span<const ElfW(Phdr)> segments(const dl_phdr_info& object) {
  return {object.dlpi_phdr, object.dlpi_phnum};
}

// Returns the rest of the loaded segment with these rights from `from` on; empty if there is none.
Range loaded_from(const dl_phdr_info& object, Address from, uint32_t rights) {
  for (const ElfW(Phdr) & one : segments(object)) {
    if (one.p_type != PT_LOAD || (one.p_flags & rights) != rights) continue;
    const Address begin = object.dlpi_addr + one.p_vaddr;
    const Range loaded = {begin, begin + one.p_memsz};
    if (loaded.begin <= loaded.end && loaded.contains(from)) return {from, loaded.end};
  }
  return {};
}

bool is_loaded(const dl_phdr_info& object, Range bytes, uint32_t rights) {
  return bytes.begin < bytes.end && loaded_from(object, bytes.begin, rights).size() >= bytes.size();
}

// The string ends with a zero within the object and the limit, and can be shown on a terminal.
std::optional<std::string> string_at(const dl_phdr_info& object, Address at, size_t limit) {
  const Range rest = loaded_from(object, at, PF_R);
  const size_t most = std::min<size_t>(rest.size(), limit);
  const auto* const text = reinterpret_cast<const char*>(at);
  const size_t length = most == 0 ? 0 : ::strnlen(text, most);
  if (length == most) return std::nullopt;
  std::string found(text, length);
  const bool printable =
      std::all_of(found.begin(), found.end(), [](char c) { return c >= ' ' && c < '\x7f'; });
  if (!printable) return std::nullopt;
  return found;
}

// Returns where a distance leads, which counts from its own address.
Address target_of(const int32_t& distance) {
  return reinterpret_cast<Address>(&distance) + static_cast<uint64_t>(int64_t{distance});
}

class Reader {
 public:
  explicit Reader(const dl_phdr_info& object) : object_(object) {}

  ObjectNotes read() {
    for (const ElfW(Phdr) & one : segments(object_)) {
      if (one.p_type != PT_NOTE) continue;
      const Address begin = object_.dlpi_addr + one.p_vaddr;
      const Range notes = {begin, begin + one.p_memsz};
      // Others align their notes to 8 bytes, in segments of their own.
      if (one.p_align <= 4 && is_loaded(object_, notes, PF_R)) read_notes(notes);
    }
    for (auto& [address, point] : notes_.points)
      std::sort(point.sites.begin(), point.sites.end(),
                [](const PointSite& a, const PointSite& b) { return a.nop < b.nop; });
    return std::move(notes_);
  }

 private:
  void read_notes(Range notes) {
    while (notes.size() >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) header;
      std::memcpy(&header, reinterpret_cast<const void*>(notes.begin), sizeof header);
      const Range name = {notes.begin + sizeof header,
                          notes.begin + sizeof header + header.n_namesz};
      const Range data = {align_up(name.end, 4), align_up(name.end, 4) + header.n_descsz};
      if (data.end > notes.end) return;
      read_note(header, name, data);
      notes.begin = std::min(align_up(data.end, 4), notes.end);
    }
  }

  void read_note(const ElfW(Nhdr) & header, Range name, Range data) {
    const std::string_view owner = {reinterpret_cast<const char*>(name.begin), name.size()};
    if (owner != kOwner) return;
    const bool is_known = header.n_type == kSiteWithNop || header.n_type == kSiteWithSemaphore;
    if (!is_known || data.size() != sizeof(Record) || data.begin % alignof(Record) != 0 ||
        !add(*reinterpret_cast<const Record*>(data.begin), header.n_type))
      ++notes_.bad_records;
  }

  bool add(const Record& record, uint32_t kind) {
    PointOfObject* const point = point_at(target_of(record.to_point));
    if (point == nullptr) return false;
    if (kind == kSiteWithSemaphore) {
      ++point->semaphore_sites;
      return true;
    }
    const PointSite site = {target_of(record.to_site), target_of(record.to_block)};
    if (!is_loaded(object_, {site.nop, site.nop + arch::kJumpLength}, PF_R | PF_X) ||
        !is_loaded(object_, {site.block, site.block + 1}, PF_R | PF_X) ||
        !arch::reaches(site.nop + arch::kJumpLength, site.block))
      return false;
    point->sites.push_back(site);
    return true;
  }

  // Returns nullptr if there can be no point.
  PointOfObject* point_at(Address address) {
    if (const auto known = notes_.points.find(address); known != notes_.points.end())
      return &known->second;
    if (address % alignof(pinprick_point) != 0 ||
        !is_data_of(object_, {address, address + sizeof(pinprick_point)}))
      return nullptr;
    const auto& raw = *reinterpret_cast<const pinprick_point*>(address);
    const auto names = reinterpret_cast<Address>(raw.names);
    const auto provider = string_at(object_, names, kLongestName);
    if (!provider) return nullptr;
    const auto name = string_at(object_, names + provider->size() + 1, kLongestName);
    const auto types = string_at(object_, reinterpret_cast<Address>(raw.types), kLongestTypes);
    if (!name || !types) return nullptr;
    return &notes_.points.emplace(address, PointOfObject{*provider, *name, *types, {}, 0})
                .first->second;
  }

  const dl_phdr_info& object_;
  ObjectNotes notes_;
};

}  // namespace

bool is_in(const dl_phdr_info& object, Address address) {
  return is_loaded(object, {address, address + 1}, 0);
}

bool is_data_of(const dl_phdr_info& object, Range bytes) {
  return is_loaded(object, bytes, PF_R | PF_W);
}

ObjectNotes read_point_notes(const dl_phdr_info& object) {
  return Reader(object).read();
}

}  // namespace pinprick::library
