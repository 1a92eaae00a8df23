// Finds the symbols that distributions strip: in separate debug files, or compressed in the object
// itself.
#pragma once

#include <optional>
#include <string>

#include "image/elf/elf_file.h"

namespace pinprick::image {

// Returns the debug file of `object`, which lies at `path` in the file system below `root`
// (/proc/PID/root of a container, or empty); nullopt if there is none. Looks by build id in
// /usr/lib/debug/.build-id, then by .gnu_debuglink in the places where gdb looks; first below
// `root`, then in our own file system. A debug file must have the object's build id or, if the
// object has none, the checksum of its debug link.
std::optional<ElfFile> find_debug_file(const ElfFile& object, const std::string& root,
                                       const std::string& path);

// Returns the compressed symbols in .gnu_debugdata, which nearly every object of Fedora has: those
// of functions that .dynsym does not name. Returns nullopt if there are none. Whatever the section
// contains, decompression takes at most 130 MiB of memory, half of it for the result.
std::optional<ElfFile> embedded_debug_file(const ElfFile& object);

}  // namespace pinprick::image
