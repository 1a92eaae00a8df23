// Tells unwinders of emitted code in one's own process: where to find its tables
// (arch/unwind_tables.h).
//
// GCC's unwinder asks glibc for the table of an address, `_dl_find_object`, through a pointer that
// the loader has set. That pointer is made to lead here: addresses of ours are answered, all others
// passed on. It takes no lock and no memory, so that signal handlers can unwind, and children that
// were forked in the midst of it. Other unwinders go through all objects, `dl_iterate_phdr`; there,
// by the same means, who looks for an address of ours is shown an object more. Why every thread is
// safe:
//
//   - The pointer is one word, changed at once, and either value finds the program's frames.
//   - It is changed from within dl_iterate_phdr, whose lock keeps objects from being unloaded.
//   - What is covered is for good, like the code: no table is ever changed or freed. Which ranges
//     there are is a list that is replaced, and whose former versions stay.
//   - Code is covered, and the pointer set, before anything leads there.
//
// Told are the unwinder that this library is bound to, one that is part of the program, and each
// libgcc_s and libunwind that is loaded.
//
// One thread at a time; unwinders at any time.
#pragma once

#include <unwind.h>

#include <functional>

#include "arch/unwind_tables.h"
#include "base/address.h"
#include "image/object.h"
#include "layout/runtime_data.h"

namespace pinprick::library {

using EmitUnwindTable = std::function<arch::UnwindTable(arch::Assembler&)>;

// No two overlap. Known to unwinders once they have been told.
void cover(Range code, arch::RangeKind kind, const EmitUnwindTable& emit);

// Of all that has been covered. Does next to nothing when they know it.
void tell_unwinders();

// Once, before that: the program may be linked to an unwinder statically.
void know_program(image::Object& program);

// Of a slot's personality, which `unwinder` has called from there: makes it go on in `landing`,
// with the exception in rax and the slot in rdx, in whose body it finds the unwinder's functions.
// Of an unwinder that is not known, it goes on up the stack.
_Unwind_Reason_Code land(const void* unwinder, _Unwind_Exception* exception,
                         _Unwind_Context* context, Range slot_code, layout::Slot* slots,
                         const uint8_t* landing);

}  // namespace pinprick::library
