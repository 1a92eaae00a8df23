// Functions that a program knows by their address or by their bytes (arch/known_code.h), or whose
// bytes it checks: probes leave them as they are. Pure, but for reading the file.
#pragma once

#include <span>
#include <vector>

#include "image/elf/elf_file.h"
#include "image/functions.h"
#include "image/scan/code_scan.h"

namespace pinprick::image {

// Returns the functions of `text` that contain known code, or the known code where there is none.
std::vector<Range> find_known_functions(const ElfFile& elf, std::span<const CodeBytes> text,
                                        const FunctionTable& functions);

// Cryptographic modules that are certified by FIPS 140 compare a hash of their code with one that
// was computed when they were linked, and end the program if it differs. Returns whether these may
// be symbols of such a module, and the code between its symbols.
std::span<const std::string_view> names_of_checked_code();
std::vector<Range> find_checked_code(std::span<const Symbol> symbols);

}  // namespace pinprick::image
