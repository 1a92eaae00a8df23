// What a debugger has to be told of emitted code: where threads in it come from, and what the
// return address of a measured call leads to. No file of the process describes that. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/unwind_tables.h"
#include "base/address.h"

namespace pinprick::image {

struct EmittedCode {
  Range range;
  arch::RangeKind kind = {};
};

// An ELF file of these tables, as in .eh_frame, their addresses absolute; and of names:
// pinprick_timed_call for slots, pinprick_probe for all other code. Its addresses are the process's
// own, so that it can be loaded as it is (gdb: add-symbol-file FILE).
std::vector<uint8_t> debugger_file(std::span<const EmittedCode> code,
                                   std::span<const uint8_t> tables);

}  // namespace pinprick::image
