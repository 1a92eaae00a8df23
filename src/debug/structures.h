// Finds the entries of structures by their names, wherever they are declared.
//
// Looks at all entries of a file but those of code, in a time that is bounded by its size. Nothing
// of it is trusted.
#pragma once

#include <elfutils/libdw.h>

#include <span>
#include <string_view>
#include <vector>

namespace pinprick::debug {

// Returns structures, classes, unions and typedefs, which may be those of other types. `file` may
// have units of types alone; `common`, which may be null, is what dwz has moved to another file.
// `name` may be qualified, and as C has it: net::Conn, struct conn.
std::vector<Dwarf_Die> entries_of_structures(std::span<const Dwarf_Die> units, Dwarf* file,
                                             Dwarf* common, std::string_view name);

}  // namespace pinprick::debug
