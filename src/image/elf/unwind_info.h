// .eh_frame: which ranges are functions, what the stack looks like at their first instruction, and
// where the unwinder may enter them (landing pads).
//
// Pure. The bytes may be hostile. What does not parse ends the table without an error: a function
// that is missing here can only be missed, never misplaced.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"

namespace pinprick::image {

struct FrameEntry {
  Range code;
  Address lsda = 0;  // exception table; 0: none
  // The personality routine for frames of this code, or the address where its address is; 0: none.
  Address personality = 0;
  bool personality_is_indirect = false;
  // At the first instruction the return address is at the top of the stack. False for .cold parts,
  // which are entered by a jump with a frame already built, for _start, and for trampolines.
  bool entered_by_call = false;
};

// Returns the entries of a section at `address`, sorted by code.begin.
std::vector<FrameEntry> parse_eh_frame(std::span<const uint8_t> bytes, Address address);

// Returns the landing pads in the exception table at the start of `bytes`, for a function at
// `code`, but no more than `most`.
std::vector<Address> parse_landing_pads(std::span<const uint8_t> bytes, Address address, Range code,
                                        size_t most = SIZE_MAX);

}  // namespace pinprick::image
