// .eh_frame: which ranges are functions, what the stack looks like at their first instruction, and
// where the unwinder may enter them (landing pads).
//
// Pure parsing of bytes that may be hostile; whatever does not parse ends the table quietly, since
// a function that is missing here can only be missed, never misplaced.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"

namespace pinprick::image {

struct FrameEntry {
  Range code;
  Address lsda = 0;  // exception table, 0: none
  // What the unwinder calls for a frame of it, 0: nothing; or where its address is.
  Address personality = 0;
  bool personality_is_indirect = false;
  // At the first instruction the return address lies at the top of the stack. False for .cold parts
  // that are entered by a jump with a frame already built, for _start, and for trampolines.
  bool entered_by_call = false;
};

// Entries of a section that lies at `address`, sorted by code.begin.
std::vector<FrameEntry> parse_eh_frame(std::span<const uint8_t> bytes, Address address);

// Landing pads named by the exception table at the start of `bytes`, for a function at `code`.
std::vector<Address> parse_landing_pads(std::span<const uint8_t> bytes, Address address,
                                        Range code);

}  // namespace pinprick::image
