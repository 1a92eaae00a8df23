// Tells unwinders of emitted code in one's own process: where to find its tables
// (arch/x86_64/unwind_tables.h).
//
// GCC's unwinder asks glibc for the table of an address, `_dl_find_object`, through a pointer that
// the loader has set. That pointer is made to lead here: addresses of ours are answered, all others
// passed on. It takes no lock and no memory, so that signal handlers can unwind, and children that
// were forked in the midst of it. Why every thread is safe:
//
//   - The pointer is one word, changed at once, and either value finds the program's frames.
//   - What is covered is for good, like the code: no table is ever changed or freed. Which ranges
//     there are is a list that is replaced, and whose former versions stay.
//   - Code is covered, and the pointer set, before anything leads there.
//
// Covered are the unwinder that this library is linked to, and one that is part of the program. One
// that does not ask (libgcc before GCC 12) is told with __register_frame, which has a lock.
//
// One thread at a time; unwinders at any time.
#pragma once

#include <functional>

#include "arch/x86_64/unwind_tables.h"
#include "base/address.h"

namespace pinprick::self {

using EmitUnwindTable = std::function<arch::UnwindTable(arch::Assembler&)>;

// No two overlap. Known to unwinders once they have been told.
void cover(Range code, arch::RangeKind kind, const EmitUnwindTable& emit);

// Of all that has been covered. Does next to nothing when they know it.
void tell_unwinders();

}  // namespace pinprick::self
