// What a debugger needs to unwind through emitted code: which instruction of the program a thread
// in it is at, and what the return address of a measured call stands for. No file of the process
// describes that. Pure.
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

// Returns an ELF file with these tables, whose addresses are absolute, as .eh_frame, and with
// symbols: pinprick_timed_call for slots, pinprick_probe for all other code. Its addresses are
// those of the process, so that it can be loaded without an offset (gdb: add-symbol-file FILE).
std::vector<uint8_t> debugger_file(std::span<const EmittedCode> code,
                                   std::span<const uint8_t> tables);

}  // namespace pinprick::image
