// Names of code in stacks: a function and the distance from its start, as in `main+0x1f`. Pure.
#pragma once

#include <string_view>

namespace pinprick::image {

// Returns the name of a frame's function, without the distance from its start. Code that is in no
// function has the name of its object and its address there, which stay.
std::string_view function_of_frame(std::string_view frame);

}  // namespace pinprick::image
