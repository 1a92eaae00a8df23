// Internals of an arena's shared code, for emitters of code that uses it.
#pragma once

#include <cstdint>

#include "arch/assembler.h"
#include "base/address.h"

namespace pinprick::arch {

// The argument of `tells_of_tables`, as offsets: the callback to call, its argument, its result,
// and a dl_phdr_info. The record that the callback gets ends before the counts of changes: libgcc
// would otherwise keep it, with pointers into the stack, in a cache that relies on these counts.
// They follow it nevertheless, since LLVM's libunwind reads them without checking the size.
inline constexpr int32_t kTellingCallback = 0, kTellingArgument = 8, kTellingResult = 16,
                         kTellingRecord = 24, kTellingRecordSize = 32;

// Sets reg to the stripe of the thread that runs on this stack. Changes the flags.
void emit_stripe(Assembler& code, Reg reg);

// Offsets in a probe's counting code from its start, if it does not keep the red zone. If it does,
// they are kStepOverRedZone larger.
inline constexpr int32_t kCounterField = 48;  // offset of the counter in a per-CPU area, 32 bits
inline constexpr int32_t kCounted = 62;       // after the counting
inline constexpr int32_t kStepOverRedZone = 5;

}  // namespace pinprick::arch
