// Makes emitted code of our own process known to unwinders: where to find its unwind tables
// (arch/unwind_tables.h).
//
// GCC's unwinder asks glibc for the table of an address, by `_dl_find_object`, through a pointer
// that the loader has set. That pointer is changed to lead here: this code answers for our
// addresses, and passes all others on. It neither locks nor allocates, so that signal handlers can
// unwind, and so can children that were forked meanwhile. Other unwinders go through all objects,
// by `dl_iterate_phdr`. In the same way, an unwinder that looks for one of our addresses is shown
// one more object there. Every thread is safe:
//
//   - The pointer is one word, written by one store, and with either value the program's frames are
//     found.
//   - It is changed from within dl_iterate_phdr, whose lock keeps objects from being unloaded.
//   - Tables are never changed or freed, as the code is not. The list of covered ranges is replaced
//   as
//     a whole, and old lists are kept.
//   - Code is covered, and the pointer is set, before anything leads to the code.
//
// This is done for the unwinder to which this library is bound, for one that is part of the
// program, and for each loaded libgcc_s and libunwind.
//
// The functions are for one thread at a time; unwinders may run at any time.
#pragma once

#include <unwind.h>

#include <functional>

#include "arch/unwind_tables.h"
#include "base/address.h"
#include "image/object.h"
#include "layout/runtime_data.h"

namespace pinprick::library {

using EmitUnwindTable = std::function<arch::UnwindTable(arch::Assembler&)>;

// Adds code with its table; ranges must not overlap. Unwinders find it after tell_unwinders().
void cover(Range code, arch::RangeKind kind, const EmitUnwindTable& emit);

// Publishes all that was covered. Cheap if nothing was covered since the last call.
void tell_unwinders();

// Returns whether unwinders can be told. Returns false in a program that is linked statically
// altogether: its unwinder asks its own copy of the C library, by no pointer. An exception that met
// code of ours would end the program.
bool can_tell_unwinders();

// To be called once, before that: the program may be linked to an unwinder statically.
void know_program(image::Object& program);

// To be called by a slot's personality, which was called from the address `unwinder`. Makes the
// unwinder enter `landing`, with the exception in rax and the slot in rdx; Slot::copy then leads to
// the unwinder's functions. An unwinder that is not known goes on up the stack.
_Unwind_Reason_Code land(const void* unwinder, _Unwind_Exception* exception,
                         _Unwind_Context* context, Range slot_code, layout::Slot* slots,
                         const uint8_t* landing);

}  // namespace pinprick::library
