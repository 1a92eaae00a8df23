// Dumps of a flight recorder, in words.
#pragma once

#include <string>

#include "cli/render/renderer.h"

namespace pinprick::cli {

// Returns the heading before the events of a dump: "dump 2, 14:45:29.461164: a hit of --until".
std::string heading_of(const Dump& dump);

// Returns the line after the events: which hit made the dump, where its events are, and for how
// long nothing was recorded.
std::string line_of_dump(const Dump& dump);

// `event` is that of a hit of --until.
Dump::Trigger trigger_of(const session::Event& event);

}  // namespace pinprick::cli
