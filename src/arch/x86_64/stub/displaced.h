// Out-of-line copies of a site's displaced instructions, and the jump back to the program after
// them.
#pragma once

#include <cstddef>
#include <optional>

#include "arch/stub.h"

namespace pinprick::arch {

// Emits the copies of the displaced instructions from offset `from` on, and the continuation: the
// end of a stub's code.
void emit_displaced(Assembler& code, const Displaced& displaced, Stub& stub, size_t from = 0);

// Emits a link (jump.h) to `to`, before a displaced instruction of that length.
void emit_link(Assembler& code, Address to, uint8_t length, Stub& stub);

// The two parts of emit_displaced(). This one emits the copies of the displaced instructions at
// offsets from `from` up to `to`. Returns where the program continues after them; nullopt if it
// does not.
std::optional<Address> emit_copies(Assembler& code, const Displaced& displaced, size_t from,
                                   size_t to, Stub& stub);
// Emits the continuation: a jump to `next`, if there is one. Unwinders find the site by the jump's
// distance. So without `next`, only the distance is emitted.
void emit_continuation(Assembler& code, const Displaced& displaced, std::optional<Address> next,
                       Stub& stub);

}  // namespace pinprick::arch
