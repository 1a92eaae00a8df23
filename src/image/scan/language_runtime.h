// Language runtimes that read return addresses on the stack, and how their code is recognised.
//
// While a call is measured, its return address on the stack is that of a slot. Garbage collectors
// that look up each return address in their own tables (OCaml), check that it is in code that they
// have generated (V8), or keep code alive by it (SBCL) do not know slots, and kill the program.
// Code that is entered by jumps has no return address at all (GHC). No function of such an object
// may be timed. Pure, except that it reads the file. To add a runtime, add a row to the table in
// language_runtime.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "image/elf/elf_file.h"

namespace pinprick::image {

// Do the object's functions have their names? If not, texts in its data are looked for, too.
enum class Names : uint8_t { whole, stripped };

// Returns the name of the runtime that the object is part of, or whose compiler made it; nullopt if
// it is not a known one. `debug` is the object's separate debug file, or null. The name is a
// literal.
std::optional<std::string_view> stack_reading_runtime(const ElfFile& object, const ElfFile* debug,
                                                      Names names);

}  // namespace pinprick::image
