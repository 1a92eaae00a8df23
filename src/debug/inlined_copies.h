// The places of a file's code where functions were inlined, by the names of these functions.
//
// Read once from all units by libdw, in a time that is bounded by the size of the debug
// information, which is not trusted. Entries and names are valid as long as libdw's object.
#pragma once

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "debug/debug_info.h"

namespace pinprick::debug {

class InlinedCopies {
 public:
  explicit InlinedCopies(std::span<const Dwarf_Die> units);

  // Calls `is_meant` once for each function, and returns the places of those for which it returns
  // true, by address.
  std::vector<InlinedCode> find(const std::function<bool(std::string_view)>& is_meant) const;

 private:
  struct Copy {
    uint32_t function = 0;  // index into `names_`
    Dwarf_Die entry;
  };

  void add(Dwarf_Die& entry);
  void add_inside(Dwarf_Die& parent, const void*& furthest, int depth);

  std::vector<std::string_view> names_;  // of functions that are inlined somewhere
  std::unordered_map<const void*, uint32_t> functions_;
  std::vector<Copy> copies_;
};

// Returns the inlined function with this number (InlinedCode) in a function's code; nullopt if
// there is none.
std::optional<Dwarf_Die> find_inlined(Dwarf_Die function, uint64_t number);

}  // namespace pinprick::debug
