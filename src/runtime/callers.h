// The table of code from which calls are timed: the code of the process's object files. Pure.
//
// Generated code (a JIT's) belongs to a runtime that may look for the return addresses of its
// calls, and would find that of a slot. So a call is timed only if its return address lies in code
// that is known not to be generated, which this table lists. A list of generated code would always
// be late: new code may run before the controller has seen it.
//
//     offset 0        zeros, which say no as a table of any level
//     kFirst          an entry per 2^40 bytes of addresses: offset of its second table
//     then            second tables, an entry per 2^24 bytes: offset of its map
//                     maps, a byte per 256 bytes of addresses: 1 if calls from there are timed
//
// Three loads find the byte (slots.S), with an index of 16 bits each, so that no arithmetic touches
// the flags. Tables start at multiples of 64 KiB below 16 MiB, so only one of the four bytes of an
// entry is not 0, and no thread ever sees half of an entry. The pieces of a change must be written
// in their order: a table comes before the entry that leads there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  // How much memory a table of this code needs, with some to spare for later. It must be zeroed.
  static uint64_t size_for(std::span<const Range> code);

  CallerTable() = default;
  CallerTable(Address begin, uint64_t size) : begin_(begin), size_(size) {}

  // The table whose contents are `bytes`, to be changed by another controller than the one that
  // made it. The bytes are not trusted: returns nullopt unless update() could have written them.
  static std::optional<CallerTable> read(Address begin, std::span<const uint8_t> bytes);

  // Replaces the table's contents by `code`, ranges of whole pages in any order, and returns what
  // to write. Code for which there is no room is left out: calls from there are not timed.
  std::vector<Piece> update(std::span<const Range> code);

 private:
  std::vector<Piece> mark(Range code, uint8_t value);
  // Returns the offset of the table to which an entry leads, which is made if there is none; 0 if
  // there is no room.
  uint32_t table_of(uint64_t entry_offset, uint64_t size, std::vector<Piece>& links);

  Address begin_ = 0;
  uint64_t size_ = 0;
  uint64_t used_ = 0;                     // after the first table
  std::map<uint64_t, uint32_t> entries_;  // entries that are set, by their offset
  std::vector<Range> code_;               // sorted, with gaps between
};

}  // namespace pinprick::runtime
