// The debug information of objects, each read once.
//
// One thread at a time. The information may be used by several.
#pragma once

#include <memory>
#include <string>

#include "debug/debug_info.h"
#include "image/object.h"

namespace pinprick::session {

// Returns null if the object has none, and neither has a separate file. What was read last is kept
// for the process's next sessions.
std::shared_ptr<debug::DebugInfo> debug_info_of(image::Object& object);

// Returns how a line of source is named: FILE:LINE, where FILE is the last part of the path.
std::string line_name(const debug::LineCode& line);

}  // namespace pinprick::session
