// How tests print a row of a frame table.
#pragma once

#include <ostream>

#include "layout/frame_rows.h"

namespace pinprick::layout {

inline void PrintTo(const FrameRow& row, std::ostream* out) {
  *out << "from " << row.from << " rule 0x" << std::hex << row.rule << std::dec << " (kind "
       << (row.rule & PP_FRAME_KIND) << ")";
}

}  // namespace pinprick::layout
