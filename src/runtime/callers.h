// The table of code that calls are timed from: what the object files of a process hold.
//
// Code that a program makes itself (a JIT's) belongs to a runtime that may look for the return
// addresses of its calls, and then find a slot's. So calls are timed only if their return address
// lies in code that is known not to be made: what is not in this table runs unmeasured. A list of
// what *is* made would always come late: new code may run before anybody has looked.
//
//     offset 0        zeros: as a table of any level, it says no
//     kFirst          entry per 2^40 bytes of addresses: offset of its second table
//     then            second tables, an entry per 2^24 bytes: offset of its map
//                     maps, a byte per 256 bytes of addresses: 1 if it is code to time calls from
//
// Three loads find the byte (slots.S), with an index of 16 bits each, so that no arithmetic touches
// the flags. Tables begin at multiples of 64 KB below 16 MB: of the four bytes of an entry only one
// is not 0, so nobody sees half of one. The pieces that make a change are to be written in their
// order: a table before the entry that leads there. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/address.h"

namespace pinprick::runtime {

// Bytes for the target's memory.
struct Piece {
  Address address = 0;
  std::vector<uint8_t> bytes;
};

class CallerTable {
 public:
  // Memory for a table of this code, and some more that may come; zeros at first.
  static uint64_t size_for(std::span<const Range> code);

  CallerTable() = default;
  CallerTable(Address begin, uint64_t size) : begin_(begin), size_(size) {}

  // Makes `code`, any ranges of whole pages, all that the table has. What there is no room for is
  // left out: calls from there run unmeasured.
  std::vector<Piece> update(std::span<const Range> code);

 private:
  std::vector<Piece> mark(Range code, uint8_t value);
  // Offset of the table that an entry leads to, made if need be; 0: no room.
  uint32_t table_behind(uint64_t entry_offset, uint64_t size, std::vector<Piece>& links);

  Address begin_ = 0;
  uint64_t size_ = 0;
  uint64_t used_ = 0;                     // beyond the first table
  std::map<uint64_t, uint32_t> entries_;  // that are set, by their offset
  std::vector<Range> code_;               // sorted, apart from each other
};

}  // namespace pinprick::runtime
