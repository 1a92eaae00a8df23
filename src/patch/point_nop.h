// The nop of a tracepoint: a nop of five bytes, and while its point is on, a jump to the point's
// block. Both are whole instructions of the same length, and nothing leads into them.
//
// Reads memory, and changes nothing.
#pragma once

#include <cstdint>

#include "base/address.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::patch {

enum class PointNop : uint8_t {
  off,
  on,
  changing,  // its first byte is a breakpoint: libpinprick may be in the middle of a change
  other,     // another's jump, or it cannot be read
};

PointNop look_at_nop(const target::Memory& memory, Address nop, Address block);

// Returns the site as others see it: with the nop as the original bytes.
layout::SiteEntry site_of(const layout::PointSiteEntry& point);

}  // namespace pinprick::patch
