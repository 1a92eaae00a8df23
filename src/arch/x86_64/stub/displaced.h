// The displaced instructions of a site at their new place, and the way from there back to the
// program.
#pragma once

#include <cstddef>
#include <optional>

#include "arch/stub.h"

namespace pinprick::arch {

// The displaced instructions from that offset on, and the way back behind them: the end of a stub's
// code.
void emit_displaced(Assembler& code, const Displaced& displaced, Stub& stub, size_t from = 0);

// A link (jump.h) to `to`, in front of a displaced instruction of that length.
void emit_link(Assembler& code, Address to, uint8_t length, Stub& stub);

// The two parts of emit_displaced(). The displaced instructions at offsets from `from` up to `to`;
// returns where the program goes on after them, or nullopt if it does not.
std::optional<Address> emit_copies(Assembler& code, const Displaced& displaced, size_t from,
                                   size_t to, Stub& stub);
// The jump to `on`, if there is one. Unwinders find the site by it, so that where there is none
// only the distance stands there.
void emit_way_on(Assembler& code, const Displaced& displaced, std::optional<Address> on,
                 Stub& stub);

}  // namespace pinprick::arch
