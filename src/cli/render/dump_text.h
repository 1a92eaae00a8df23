// Dumps of a flight recorder, in words.
#pragma once

#include <string>

#include "cli/render/renderer.h"

namespace pinprick::cli {

// What is known before its events are told: "dump 2, 14:45:29.461164: a hit of --until".
std::string heading_of(const Dump& dump);

// All of it, on one line: which hit it was, where its events are, and for how long nothing was
// recorded.
std::string line_of_dump(const Dump& dump);

// Of the event of a hit of --until.
Dump::Trigger trigger_of(const session::Event& event);

}  // namespace pinprick::cli
