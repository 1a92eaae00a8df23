// Reads the records of tracepoints from the memory of an object that the loader has loaded.
//
// The header pinprick/tracepoint.h leaves a note for each site, in a segment of notes: distances
// from the record to the nop, to the block that runs while the point is on, and to the point. Notes
// are hostile input, as is all that they lead to: nothing outside the object's own segments is
// read, and a record that does not fit is counted and left out.
//
// To be called within dl_iterate_phdr only, whose lock keeps the object from being unloaded.
#pragma once

#include <link.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/address.h"

namespace pinprick::library {

struct PointSite {
  Address nop;
  Address block;  // what it leads to while the point is on
};

struct PointOfObject {
  std::string provider, name, types;
  std::vector<PointSite> sites;  // by address
  uint32_t semaphore_sites = 0;  // of PINPRICK_POINT_SDT
};

struct ObjectNotes {
  std::map<Address, PointOfObject> points;  // by the address of the struct pinprick_point
  uint32_t bad_records = 0;
};

ObjectNotes read_point_notes(const dl_phdr_info& object);

// Returns whether the address lies in one of the object's segments.
bool is_in(const dl_phdr_info& object, Address address);

// Returns whether the bytes lie in one of the object's segments that can be written.
bool is_data_of(const dl_phdr_info& object, Range bytes);

}  // namespace pinprick::library
