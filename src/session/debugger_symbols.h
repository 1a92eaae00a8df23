// What a debugger has to be told of a session's code: where threads in it come from, and what the
// return address of a measured call leads to. No file of the process describes that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/x86_64/unwind_tables.h"
#include "base/address.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::session {

// A session's unwind tables, copied from the target.
struct UnwindTablesCopy {
  struct Covered {
    Range range;
    arch::RangeHeader::What what = {};
  };
  std::vector<Covered> ranges;
  std::vector<uint8_t> frames;  // as in .eh_frame, its addresses absolute
};

// Nothing if the session has none.
std::optional<UnwindTablesCopy> unwind_tables(const target::Memory& memory,
                                              const layout::Session& journal);

// An ELF file of these tables and of names: pinprick_timed_call, pinprick_probe. Its addresses are
// the process's own, so that it can be loaded as it is (gdb: add-symbol-file FILE).
std::vector<uint8_t> debugger_symbols(std::span<const UnwindTablesCopy> tables);

}  // namespace pinprick::session
