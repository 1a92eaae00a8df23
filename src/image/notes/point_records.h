// The records that the header pinprick/tracepoint.h leaves of a tracepoint's sites: notes in the
// section pinprick_points, with distances from the record to the nop, to the block that runs while
// the point is on, and to the point.
//
// While a point is on, each of its nops is a jump to its block. Those who want a point on are
// counted in the point: engine/text/point_sites.h says who changes the nops.
//
// Records are not trusted. One that does not describe a site of its object is left out. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"

namespace pinprick::image {

// Of the structure that PINPRICK_POINT_DEFINE makes: the offset of the pointer to its provider and
// name, and that of the count of those who want it on.
inline constexpr uint64_t kPointNames = 8, kPointCount = 24;

// A site, in the object's own addresses.
struct PointRecord {
  Address nop = 0;
  Address block = 0;
  Address point = 0;

  Address count() const { return point + kPointCount; }
  friend auto operator<=>(const PointRecord&, const PointRecord&) = default;
};

// Returns what the section says, which lies at `address`; only sites with a nop. Damaged notes are
// left out, and what follows a note whose size cannot be right.
std::vector<PointRecord> parse_point_records(std::span<const uint8_t> section, Address address);

// Returns the sites of `object`, by nop, each once. All nops and blocks are in executable segments,
// and all points in the part of a writable segment that comes from the file.
std::vector<PointRecord> point_records(const ElfFile& object);

// Returns PROVIDER:NAME of each point, in the order of `points`, which is sorted; empty if the
// object's file does not have it.
std::vector<std::string> point_labels(const ElfFile& object, std::span<const Address> points,
                                      std::span<const Relocation> relocations);

}  // namespace pinprick::image
