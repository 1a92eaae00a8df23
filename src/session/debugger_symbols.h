// What a debugger has to be told of slots: while a call is measured, its return address on the
// stack is that of a slot, which no file of the process describes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::session {

struct SlotRegion {
  Range code;
  Address slots = 0;
};

// Where a session's slots are in the target; nothing if it has none.
std::optional<SlotRegion> slot_region(const target::Memory& memory, const layout::Session& journal);

// An ELF file of a name, pinprick_timed_call, and an unwind table for them. Its addresses are the
// process's own, so that it can be loaded as it is (gdb: add-symbol-file FILE).
std::vector<uint8_t> debugger_symbols(std::span<const SlotRegion> regions);

}  // namespace pinprick::session
