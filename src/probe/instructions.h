// From functions to their instructions.
#pragma once

#include <vector>

#include "image/match.h"

namespace pinprick::probe {

// For each match of a whole function, a match for each of its instructions (`name+0xoffset`), as
// plan::instructions() answers them. Other matches stay.
std::vector<image::Match> every_instruction(const std::vector<image::Match>& matches);

}  // namespace pinprick::probe
