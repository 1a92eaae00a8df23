// What entries of DWARF (DIEs) say, read by libdw: attributes, children, and types by their names.
//
// Nothing of them is trusted: what cannot be read is missing, and no chain is followed for ever.
#pragma once

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <string>

#include "debug/location.h"

namespace pinprick::debug {

// No real type has more typedefs and qualifiers, and no real code more blocks in blocks.
inline constexpr int kDeepest = 32;

std::optional<Dwarf_Die> type_of(Dwarf_Die& die);
std::optional<uint64_t> numeric_attribute(Dwarf_Die& die, unsigned attribute);
bool has_flag(Dwarf_Die& die, unsigned attribute);
bool is_of_c(Dwarf_Die& die);
// Returns an empty text if it has none.
std::string name_of(Dwarf_Die& die);
// Returns the number that an attribute says, which has a sign or none; nullopt if there is none of
// at most 8 bytes.
std::optional<uint64_t> constant_of(Dwarf_Die& die, bool is_signed,
                                    unsigned attribute = DW_AT_const_value);
// Returns the name of a type as C has it. No type: void.
std::string spelling_of(std::optional<Dwarf_Die> type, int depth = 0);
// Is it a typedef, or a type with a qualifier?
bool is_same_type_in_other_words(int tag);

// Returns where a function, or an inlined one, is entered: where its first range begins, if it has
// no attribute that says it. Parts that are seldom executed may have lower addresses. Returns
// nullopt if it has no code.
std::optional<Dwarf_Addr> entry_of(Dwarf_Die die);

// Returns where the variable is, at an instruction of the file. `is_entry`: where it is before the
// first statement of the function that is entered there.
Location location_of(Dwarf_Die& variable, Dwarf_Addr address, const Location& frame_base,
                     bool is_signed, bool is_entry);
// Returns what DW_OP_fbreg adds to.
Location frame_base_of(Dwarf_Die& function, Dwarf_Addr address);

// Calls `f` with each child until it returns false.
template <class F>
void for_each_child(Dwarf_Die& die, F&& f) {
  Dwarf_Die child;
  if (dwarf_child(&die, &child) != 0) return;
  // Siblings follow each other; a reference back would be followed for ever.
  for (const void* before = nullptr; child.addr > before;) {
    before = child.addr;
    if (!f(child) || dwarf_siblingof(&child, &child) != 0) return;
  }
}

}  // namespace pinprick::debug
