// .eh_frame: how a frame's caller is found at each instruction, as the few kinds of rule that a hit
// can follow (layout/frame_rows.h).
//
// Pure. The bytes may be hostile. A rule that is not one of those kinds, or does not parse, becomes
// UNKNOWN, which ends a stack early but never leads it astray.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "layout/frame_rows.h"

namespace pinprick::image {

// Returns the rules for `code`, from the section `bytes` at `address`. The first row is that of
// code.begin, from which `from` counts; the rows ascend, and neighbours differ. Code without an
// entry is UNKNOWN. Empty if all of it is, or if the code has 4 GB or more. Throws Cancelled if the
// task was cancelled.
std::vector<layout::FrameRow> frame_rows(std::span<const uint8_t> bytes, Address address,
                                         Range code);

}  // namespace pinprick::image
