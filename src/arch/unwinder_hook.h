// Hooks on the functions with which unwinders look up their tables: through them they also find the
// tables of emitted code (unwind_tables.h; docs/unwinding.md has the argument).
//
// Pure, like stubs; the bytes are valid at the given addresses only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/assembler.h"
#include "arch/stub.h"
#include "base/address.h"
#include "layout/runtime_data.h"

namespace pinprick::arch {

// An unwinder that gets its tables from the loader.
struct Unwinder {
  Range code;                                      // that calls the loader
  std::optional<layout::UnwinderTable> functions;  // without `landing`; empty: not known
  // Does not need what a table without a personality does for libgcc (emit_slot_unwind_table).
  bool is_libunwind = false;
};

struct UnwinderHook {
  enum class At : uint8_t {
    unwinder,      // the unwinder's own function (_Unwind_Find_FDE)
    object_table,  // the loader's look-up of one object (_dl_find_object)
    object_list,   // the loader's list of all objects (dl_iterate_phdr)
  } at = At::unwinder;
  // For At::unwinder: the functions of that unwinder, if known. `landing` is in the hook.
  std::optional<layout::UnwinderTable> functions;
  // For the loader's functions: the unwinders that call them, as far as is known. An unwinder whose
  // functions are known gets tables for slots that have a personality. Others unwind through slots,
  // which then stay in use.
  std::vector<Unwinder> askers;
  Address ranges = 0;  // of UnwindTablesHeader
  uint32_t range_count = 1;
  // Unwinders that are known get separate tables for slots. Empty: there are no slots.
  Range slot_code;
  Address slots = 0;
  Address personality = 0;  // the runtime's
  Address unwound = 0;
  // For At::object_list: the count of added objects in our record. LLVM's libunwind clears its
  // cache when this number changes, so that nothing of ours outlives the next look-up. It must
  // differ from the loader's and from other sessions' numbers.
  uint64_t changes = 0;
  Address tells_of_tables = 0;  // as in ArenaEntries
};

// Emits the hook of an unwinder's `const fde* _Unwind_Find_FDE(pc, dwarf_eh_bases*)`, of glibc's
// `int _dl_find_object(pc, struct dl_find_object*)`, or of `int dl_iterate_phdr(callback,
// argument)`.
Stub emit_unwinder_hook(Assembler& code, const UnwinderHook& spec, const Displaced& displaced);

}  // namespace pinprick::arch
