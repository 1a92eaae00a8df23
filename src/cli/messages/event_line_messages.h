// Messages about lines of `trace --event-file`, in the kernel's words if it has some.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/messages/messages.h"
#include "select/event_lines.h"

namespace pinprick::cli {

// `file` is its name, and `number` that of the line, from 1.
Message bad_event_line(const std::string& file, size_t number, std::string_view line,
                       const select::EventLineError& error);

}  // namespace pinprick::cli
