// What stubs share, for whoever emits code that goes through it.
#pragma once

#include <cstdint>

#include "arch/assembler.h"
#include "base/address.h"

namespace pinprick::arch {

// What `tells_of_tables` is given, offsets: the callback that is to be told, its argument, and what
// it answered; then a dl_phdr_info. It is told of a record that ends in front of the counts of
// changes: libgcc would keep it, with pointers into the stack, in a cache that goes by these. They
// are behind it all the same, as LLVM's libunwind looks at them without asking for the size.
inline constexpr int32_t kTellingCallback = 0, kTellingArgument = 8, kTellingAnswer = 16,
                         kTellingRecord = 24, kTellingRecordSize = 32;

// reg = the stripe of the thread that runs on this stack. Changes flags.
void emit_stripe(Assembler& code, Reg reg);

// A probe's code: offsets from where it begins, when it does not keep the red zone; and how much
// further they are when it does.
inline constexpr int32_t kCellField = 48;  // the counter's offset in a CPU's cells, 32 bits
inline constexpr int32_t kCounted = 62;    // behind the counting
inline constexpr int32_t kStepOverRedZone = 5;

}  // namespace pinprick::arch
