// The build ID that the linker puts into a program or library, read from memory.
//
// Any thread may call this. An object without the note has no build ID; damaged notes are like
// none.
#pragma once

#include <link.h>

#include <cstdint>
#include <span>
#include <string>

namespace pinprick {

// Returns the description of the build-ID note, a view of `notes`; empty if there is none.
std::span<const uint8_t> build_id_in(std::span<const uint8_t> notes);

// Returns the build ID of an object that is loaded in this process, a view of its memory; empty if
// it has none. For callbacks of dl_iterate_phdr.
std::span<const uint8_t> build_id_of(const dl_phdr_info& object);

// Returns the build ID of the running program in hexadecimal digits, as file(1) and readelf print
// it; empty if it has none. A static program is a program as well.
std::string own_build_id();

}  // namespace pinprick
