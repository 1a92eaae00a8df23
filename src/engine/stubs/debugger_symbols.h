// What a debugger needs in order to unwind through a session's code (image/elf/debugger_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "image/elf/debugger_file.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

// A session's unwind tables, copied from the target, which may have damaged them.
struct UnwindTablesCopy {
  std::vector<image::EmittedCode> ranges;
  std::vector<uint8_t> frames;  // as in .eh_frame, its addresses absolute
};

// Returns nullopt if the session has none, or they cannot be read.
std::optional<UnwindTablesCopy> unwind_tables(const target::Memory& memory,
                                              const layout::Session& journal);

// Returns the contents of a symbol file with all of these tables.
std::vector<uint8_t> debugger_symbols(std::span<const UnwindTablesCopy> tables);

}  // namespace pinprick::engine
