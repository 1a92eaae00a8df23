// What a debugger has to be told of a session's code (image/debugger_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "image/debugger_file.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

// A session's unwind tables, copied from the target.
struct UnwindTablesCopy {
  std::vector<image::EmittedCode> ranges;
  std::vector<uint8_t> frames;  // as in .eh_frame, its addresses absolute
};

// Nothing if the session has none.
std::optional<UnwindTablesCopy> unwind_tables(const target::Memory& memory,
                                              const layout::Session& journal);

// A file of all of them.
std::vector<uint8_t> debugger_symbols(std::span<const UnwindTablesCopy> tables);

}  // namespace pinprick::engine
