// How the code of an object is divided: its sections, and which of them are procedure linkage
// tables, whose stubs jump to imported functions. A stub is no function: if it were timed, the
// function that it leads to would find a slot in place of its return address.
//
// Section headers say this, those of the object or of its debug file. Without any, the tables are
// recognised by their code. Pure, except that it reads the file.
#pragma once

#include <span>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"
#include "image/elf/unwind_info.h"

namespace pinprick::image {

struct CodeLayout {
  std::vector<Range> sections;        // ascending; empty if nothing says
  std::vector<Range> linkage_tables;  // ascending

  bool in_linkage_table(Address address) const;
  // Returns the start of the first table above the address, or the highest address.
  Address next_linkage_table(Address address) const;
};

// `debug` is the separate debug file, or null. Without section headers, tables are found that have
// unwind entries: no function is made of the others.
CodeLayout code_layout(const ElfFile& object, const ElfFile* debug,
                       std::span<const FrameEntry> frames);

}  // namespace pinprick::image
