// Objects whose text is not mapped from their file any more. Some programs copy their text into
// anonymous memory, or into a file in memory, and put the copy in its place: in huge pages it is
// faster. The kernel then names no file for it.
//
// Reads a process. The maps may be outdated by the time they are used; what is found is checked
// against the bytes in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"
#include "image/maps.h"
#include "image/memory_reader.h"

namespace pinprick::image {

// Returns the load bias of an object that has `segment` where the file is mapped by `mapping`.
// Returns nullopt if the mapping starts at none of the segment's pages.
std::optional<uint64_t> bias_by(const Mapping& mapping, const Segment& segment);

// Returns whether any executable memory is not mapped from a file on a disk. If there is none, no
// object's text has moved.
bool may_have_moved_text(const std::vector<Mapping>& maps);

// Returns the load bias of an object of whose file only `of_file`, which are not executable, are
// still mapped. Returns nullopt unless there is executable memory for all of its code, and holds
// the file's bytes.
std::optional<uint64_t> bias_of_moved(const ElfFile& elf, std::span<const Mapping> of_file,
                                      const std::vector<Mapping>& maps, const MemoryReader& reader);

// The same for a bias that is known. A few differences are allowed, such as breakpoints.
bool has_text_of(const ElfFile& elf, uint64_t bias, const std::vector<Mapping>& maps,
                 const MemoryReader& reader);

// Why the kernel does not let a debugger write to code.
enum class Unwritable : uint8_t {
  shared,      // other processes may have the same memory
  huge_pages,  // reserved huge pages (hugetlbfs), before Linux 6.14
};

// Returns nullopt if nothing stands against writing to the object's code.
std::optional<Unwritable> why_unwritable(pid_t pid, const ElfFile& elf, uint64_t bias,
                                         const std::vector<Mapping>& maps);

// Returns the executable memory without a file that fills the space between two mappings of one
// file, as text that was moved does: what a code generator has made lies elsewhere.
std::vector<Range> moved_text(const std::vector<Mapping>& maps);

}  // namespace pinprick::image
