// Language runtimes that look at return addresses on the stack, and the marks that tell their code.
//
// While a call is measured, its return address on the stack is that of a slot. A garbage collector
// that looks up each return address in tables of its own (OCaml), checks that it lies in code it
// has made (V8), or keeps code alive by it (SBCL), does not know slots, and ends the program; code
// that is entered by jumps has no return address at all (GHC). Nothing of such an object may be
// timed. Pure but for reading the file. To add a runtime, add a row to the table in
// language_runtime.cc.
#pragma once

#include <optional>
#include <string_view>

#include "image/elf_file.h"

namespace pinprick::image {

// The name of the runtime that the object is part of, or whose compiler made it; nothing if it is
// none of those known. `debug`: the object's separate debug file, or null. The name lives for ever.
std::optional<std::string_view> stack_reading_runtime(const ElfFile& object, const ElfFile* debug);

}  // namespace pinprick::image
