// Functions, and the scopes in them: which code they have, and which variables they declare.
//
// Nothing of the debug information is trusted: no chain of scopes is followed for ever.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <vector>

#include "debug/debug_info.h"

namespace pinprick::debug {

// Returns the scopes around an instruction, of the function or inlined function that it belongs to,
// the innermost last.
std::vector<Dwarf_Die> scopes_at(Dwarf_Die function, Dwarf_Addr address,
                                 const Beginning& beginning);

// Returns the parameters and variables of a scope. GCC lists those of an inlined function in
// reverse, so they are put in the order of the function itself.
std::vector<Dwarf_Die> variables_of(Dwarf_Die& scope);

// Returns the line where a function, or one that was inlined, is defined; 0 if that is not known.
uint64_t line_of_declaration(Dwarf_Die scope);

}  // namespace pinprick::debug
