// SDT points of others: the notes that SystemTap's <sys/sdt.h>, and its copies, leave in an object.
//
// A note describes one site: the address of a one-byte nop, the names of the point's provider and
// of the point, and where its arguments are when a thread gets there (select/operand.h). A point
// has a site wherever the compiler has put it. A point may have a semaphore, a 16-bit count of the
// tools that want its hits; while it is 0, the program may skip the site.
//
// Notes are not trusted. One that does not describe a site of its object is left out. Pure.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"

namespace pinprick::image {

// A note as it is in the file. Views last as long as the bytes that were parsed.
struct SdtNote {
  Address address = 0;
  Address base = 0;       // of .stapsdt.base, when the object was linked
  Address semaphore = 0;  // 0: none
  std::string_view provider;
  std::string_view name;
  std::string_view arguments;

  friend bool operator==(const SdtNote&, const SdtNote&) = default;
};

// Returns the notes in .note.stapsdt. Damaged ones are left out, and what follows a note whose size
// cannot be right.
std::vector<SdtNote> parse_sdt_notes(std::span<const uint8_t> section);

// A site, in the object's own addresses.
struct SdtSite {
  Address address = 0;
  Address semaphore = 0;  // 0: none
  std::string label;      // PROVIDER:NAME
  size_t provider_size = 0;
  std::string arguments;
  Address point = 0;  // the tracepoint of ours (point_records.h) whose hits these are; 0: none

  // Returns where those who want the hits are counted; 0: nowhere.
  Address count() const;
  std::string_view provider() const { return std::string_view(label).substr(0, provider_size); }
  std::string_view name() const { return std::string_view(label).substr(provider_size + 1); }
  friend auto operator<=>(const SdtSite&, const SdtSite&) = default;
};

// Returns the sites of `object`, by address, each once. They are read from `debug`, its separate
// debug file, if that is not null and the object has no notes. If the object was moved after it was
// linked (prelinked), addresses follow it. All sites are in executable segments, and all semaphores
// in the part of a writable segment that comes from the file. Names are printable, without colons.
std::vector<SdtSite> sdt_sites(const ElfFile& object, const ElfFile* debug);

}  // namespace pinprick::image
