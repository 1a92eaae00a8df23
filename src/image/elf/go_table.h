// The table of functions that Go's linker leaves in each program for the runtime's stack traces
// (.gopclntab), with their names. `strip` and `-ldflags=-s` keep it.
//
//     version of Go    first word    what follows
//     1.2              0xfffffffb    addresses of functions
//     1.16             0xfffffffa    the same, with an offset for each part of the table
//     1.18             0xfffffff0    distances from the start of the text, which the header has
//     1.20             0xfffffff1    the same; from Go 1.26 on the header has 0 for that start, and
//                                    the runtime's moduledata says it
//
// The table is not trusted: a broken one reads as missing. Pure, except that it reads the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"

namespace pinprick::image {

// The table, as it is in the file.
struct GoTableBytes {
  Address address = 0;
  std::vector<uint8_t> bytes;
};

// Returns the bytes from the start of the table on, found by its section header or, without section
// headers, by its first words; nullopt if there is none.
std::optional<GoTableBytes> find_go_table(const ElfFile& object);

// What the loader makes of a word at an address; nullopt if the file does not have it.
using GoWord = std::function<std::optional<uint64_t>(Address)>;

// Returns the functions, by address. Each lasts to the start of the next one, so that padding
// belongs to it. Names are those of `table`. `text` finds the start of the text if the header does
// not have it.
std::vector<Symbol> parse_go_table(const GoTableBytes& table, const GoWord& word,
                                   const std::function<std::optional<Address>()>& text);

// The functions of an object that Go has linked, which may be none.
class GoFunctions {
 public:
  explicit GoFunctions(const ElfFile& object);
  // Valid as long as this object.
  std::span<const Symbol> symbols() const { return symbols_; }

 private:
  std::optional<GoTableBytes> table_;
  std::vector<Symbol> symbols_;
};

}  // namespace pinprick::image
