// Hooks where unwinders look up their tables: there they find those of emitted code, too
// (unwind_tables.h; docs/unwinding.md has the argument).
//
// Pure, as stubs are; the bytes are for the addresses given.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/assembler.h"
#include "arch/stub.h"
#include "base/address.h"
#include "layout/runtime_data.h"

namespace pinprick::arch {

// An unwinder that asks the loader for tables.
struct Unwinder {
  Range code;                                      // calls the loader
  std::optional<layout::UnwinderTable> functions;  // no landing yet; empty: not known
  // It needs none of what a table without a personality has for libgcc.
  bool is_libunwind = false;
};

struct UnwinderHook {
  enum class At : uint8_t {
    unwinder,      // its own function (_Unwind_Find_FDE)
    object_table,  // where the loader looks for one object (_dl_find_object),
    object_list,   // or lists all (dl_iterate_phdr)
  } at = At::unwinder;
  // Of the unwinder whose own function is hooked, if they are known; `landing` is the hook's own.
  std::optional<layout::UnwinderTable> functions;
  // Those that ask the loader, as far as it is known who does. Unwinders whose functions are known
  // find slots in tables with a personality. The others find their way, and slots stay in use.
  std::vector<Unwinder> askers;
  Address ranges = 0;  // of UnwindTablesHeader
  uint32_t range_count = 1;
  // Slots have tables of their own for unwinders that are known. Empty: there are none.
  Range slot_code;
  Address slots = 0;
  Address personality = 0;  // of the runtime
  Address unwound = 0;
  // Where objects are listed: how many were added, as our record has it. LLVM's libunwind forgets
  // what it has in its cache when the number changes, so that nothing of ours outlives the next
  // look-up; it has to be another one than the loader's, or another session's.
  uint64_t changes = 0;
  Address tells_of_tables = 0;  // of ArenaEntries
};

// For the function `const fde* _Unwind_Find_FDE(pc, dwarf_eh_bases*)` of an unwinder, or for
// glibc's `int _dl_find_object(pc, struct dl_find_object*)`, or for
// `int dl_iterate_phdr(callback, argument)`.
Stub emit_unwinder_hook(Assembler& code, const UnwinderHook& spec, const Displaced& displaced);

}  // namespace pinprick::arch
