// Which functions run while all signals are blocked: those that start and end threads in the C
// library.
//
// A breakpoint there, even for the moment in which a jump is written, would kill the process. So a
// program must not probe these functions in itself. An attached session may, since it writes while
// all threads are stopped.
#pragma once

#include "image/object.h"

namespace pinprick::placement {

// Can the object have such functions?
bool is_c_library(const image::Object& object);
bool runs_with_signals_blocked(image::Object& object, const image::Function& function);

}  // namespace pinprick::placement
