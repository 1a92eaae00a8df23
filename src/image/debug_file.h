// Where distributions put the symbols they strip: into separate debug files, or compressed into the
// object itself.
#pragma once

#include <optional>
#include <string>

#include "image/elf_file.h"

namespace pinprick::image {

// The debug file of `object`, which lies at `path` in the file system below `root` (/proc/PID/root
// of a container, or empty). Looks by build id in /usr/lib/debug/.build-id, then by .gnu_debuglink
// in the places gdb looks; below `root` first, then here. What is found has the object's build id,
// or, where the object has none, the checksum of its debug link.
std::optional<ElfFile> find_debug_file(const ElfFile& object, const std::string& root,
                                       const std::string& path);

// The symbols that lie compressed in .gnu_debugdata (Fedora has them in nearly every object): of
// the functions that .dynsym does not name. Whatever the section holds, decompressing it takes 130
// MiB of memory at most, half of them for the result.
std::optional<ElfFile> embedded_debug_file(const ElfFile& object);

}  // namespace pinprick::image
