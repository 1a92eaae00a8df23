// What entries of types say: base types, enumerations, structures with their members, and arrays.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "debug/debug_info.h"

namespace pinprick::debug {

// Sets `is_signed` if the base type has a sign.
Type::Kind kind_of_base(Dwarf_Die& die, bool& is_signed);
// Has an enumeration a type below it that has a sign? Without one, as in DWARF 2, it may have one.
bool has_sign(Dwarf_Die& enumeration);
Type::Passed how_passed(Dwarf_Die& structure);
bool is_structure(int tag);
// Static members have no place in a structure, and virtual bases none that is always the same.
bool is_member(Dwarf_Die& die);
// May two structures of one name be the same?
bool is_alike(Dwarf_Die a, Dwarf_Die b);
// Returns the entry that has the variants of a structure; nullopt if it has none.
std::optional<Dwarf_Die> variant_part_of(Dwarf_Die structure);
// Returns where a bit field begins, in bits from the start of the structure. Before DWARF 4 it is
// told by the distance of its highest bit from that of the unit that it is in.
std::optional<uint64_t> first_bit(Dwarf_Die& die, const Member& member, uint64_t bits);
// Returns how many elements each dimension of an array has, and 0 where that is not known; nullopt
// if the first one is not number 0, or if they do not follow each other.
std::optional<std::vector<uint64_t>> dimensions_of(Dwarf_Die& array);

}  // namespace pinprick::debug
