// Separate debug files: where distributions put the symbols they strip.
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

}  // namespace pinprick::image
