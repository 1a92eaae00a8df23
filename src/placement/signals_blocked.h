// What runs while all signals are blocked: the C library's beginning and end of threads.
//
// A breakpoint there, even for the moment in which a jump is written around it, would end the
// process. So a program must not probe these in itself; an attached session writes while everybody
// is stopped, and may.
#pragma once

#include "image/object.h"

namespace pinprick::placement {

// Does the object hold such functions?
bool is_c_library(const image::Object& object);
bool runs_with_signals_blocked(image::Object& object, const image::Function& function);

}  // namespace pinprick::placement
